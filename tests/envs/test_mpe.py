"""Worlds of particles beside mpe2's: the same observations and rewards in every step of episodes that begin alike."""

# pyright: reportMissingImports=false

import importlib
from typing import Any, cast

import gymnasium as gym
import numpy as np
import pytest
from kernel_states import arrays_of

import headrace
import headrace.testing
from headrace.envs.mpe import TASKS
from headrace.errors import ActionError, OptionError

pytest.importorskip("mpe2")

MODULES = {
    "SimpleAdversary-v3": "simple_adversary_v3",
    "SimpleSpeakerListener-v4": "simple_speaker_listener_v4",
    "SimpleSpread-v3": "simple_spread_v3",
    "SimpleTag-v3": "simple_tag_v3",
}
# Ours is float32, theirs float64. Contacts are stiff and enlarge rounding errors of places, those of a crowd a
# thousand times. Without contacts, observations differ by 1e-6.
CLOSE, CROWDED = 2e-5, 1e-3
CASES: list[tuple[str, dict[str, Any], float]] = [
    *((task, {}, CLOSE) for task in TASKS),
    ("SimpleAdversary-v3", {"N": 4}, CLOSE),
    ("SimpleSpread-v3", {"N": 6, "local_ratio": 0.2}, CROWDED),
    ("SimpleTag-v3", {"num_good": 3, "num_adversaries": 5, "num_obstacles": 4}, CROWDED),
    ("SimpleTag-v3", {"num_obstacles": 0}, CLOSE),
]


class Official:
    """One of mpe2's environments, which begins an episode as row ``i`` of a pool has begun one."""

    def __init__(self, task: str, options: dict[str, Any], pool: headrace.Pool, i: int):
        self.env = importlib.import_module(f"mpe2.{MODULES[task]}").parallel_env(**options)
        self.env.reset(seed=0)
        ours, self.inner = arrays_of(pool), self.env.aec_env.unwrapped
        world = self.inner.world
        for particle, place in zip(world.entities, ours["place"][i], strict=True):
            particle.state.p_pos = place.astype(float)
        goal = next(iter(world.landmarks[int(ours["goal"][i]) :]), None)
        if "Speaker" in task:
            world.agents[0].goal_b = goal
        elif "Adversary" in task:
            for agent in world.agents:
                agent.goal_a = goal

    def observations(self) -> list[np.ndarray]:
        return [self.inner.observe(name) for name in self.env.possible_agents]

    def step(self, actions: list[int]) -> tuple[list[np.ndarray], list[float], bool]:
        names = self.env.possible_agents
        obs, rewards, terminations, truncations, _ = self.env.step(dict(zip(names, actions, strict=True)))
        assert not any(terminations.values())
        return [obs[name] for name in names], [rewards[name] for name in names], all(truncations.values())


def of_agents(pool: headrace.Pool, values: Any, i: int) -> list[np.ndarray]:
    """The rows of environment ``i``, agent by agent, of one array or of one for each type."""
    if not isinstance(values, dict):
        return list(values[i])
    return [row for kind in pool.spec.agents for row in values[kind.name][i]]


def some_actions(pool: headrace.Pool, rng: np.random.Generator) -> Any:
    """Random ones, as the pool takes them."""
    n = pool.num_envs
    drawn = {
        kind.name: rng.integers(0, cast(gym.spaces.Discrete, kind.action).n, (n, kind.count))
        for kind in pool.spec.agents
    }
    return drawn if "speaker" in drawn else np.concatenate(list(drawn.values()), axis=1)


@pytest.mark.parametrize(("task", "options", "error"), CASES)
def test_episodes_equal_those_of_mpe2(task: str, options: dict[str, Any], error: float) -> None:
    rng, n = np.random.default_rng(0), 24
    rewards = []
    with headrace.make(task, num_envs=n, seed=1, autoreset="disabled", **options) as pool:
        obs, _ = pool.reset()
        games = [Official(task, options, pool, i) for i in range(n)]
        for i, game in enumerate(games):
            for mine, wanted in zip(of_agents(pool, obs, i), game.observations(), strict=True):
                np.testing.assert_allclose(mine, wanted, rtol=1e-5, atol=error)
        actions = some_actions(pool, rng)
        for step in range(25):
            if step % 5 == 0:  # often enough for agents to meet and to leave the middle
                actions = some_actions(pool, rng)
            obs, reward, terminated, truncated, _ = pool.step(actions)
            assert not terminated.any() and (truncated == (step == 24)).all()
            rewards.append(reward.copy())
            for i, game in enumerate(games):
                chosen = [int(action) for action in of_agents(pool, actions, i)]
                wanted, earned, late = game.step(chosen)
                np.testing.assert_allclose(reward[i], earned, rtol=1e-5, atol=error)
                assert late == (step == 24)
                for mine, theirs in zip(of_agents(pool, obs, i), wanted, strict=True):
                    np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=error)
    earned = np.array(rewards)
    if "Tag" in task:
        assert (earned == 10).any() and (earned < -10).any()  # touches and places outside
    elif "Spread" in task:
        assert np.ptp(earned, axis=2).max() > 0.1  # collisions: without them all agents have one reward


@pytest.mark.parametrize("task", TASKS)
def test_initial_places_and_goals_are_uniform(task: str) -> None:
    with headrace.make(task, num_envs=4000, seed=2) as pool:
        pool.reset()
        arrays = {name: array.copy() for name, array in arrays_of(pool).items()}
        agents = pool.spec.num_agents
    landmark = 0.9 if "Tag" in task else 1.0
    for places, within in ((arrays["place"][:, :agents], 1.0), (arrays["place"][:, agents:], landmark)):
        counts, _ = np.histogram(places, bins=10, range=(-within, within))
        expected = places.size / 10
        assert counts.sum() == places.size
        assert ((counts - expected) ** 2 / expected).sum() < 29.6  # chi-squared, 9 degrees of freedom, p < 0.001
    assert abs(np.corrcoef(arrays["place"].reshape(4000, -1).T) - np.eye(2 * arrays["place"].shape[1])).max() < 0.07
    assert not arrays["velocity"].any() and (arrays["word"] == -1).all()
    goals = np.bincount(arrays["goal"])
    assert len(goals) == {"SimpleAdversary-v3": 2, "SimpleSpeakerListener-v4": 3}.get(task, 1)
    assert goals.min() > 4000 / len(goals) * 0.9


@pytest.mark.parametrize("task", TASKS)
def test_rendered_frames_change_with_the_state(task: str) -> None:
    with headrace.make(task, num_envs=2, seed=0) as pool:
        pool.reset()
        first = pool.render([0, 1])
        assert first.shape == (2, 480, 480, 3) and first.dtype == np.uint8
        for _ in range(3):
            pool.step(some_actions(pool, np.random.default_rng(0)))
        assert (pool.render([0])[0] != first[0]).any()


def test_invalid_options_and_actions_are_refused() -> None:
    mistakes: list[tuple[str, dict[str, Any]]] = [("SimpleSpread-v3", {"N": 0}), ("SimpleTag-v3", {"num_prey": 1})]
    for task, wrong in mistakes:
        with pytest.raises(OptionError, match=next(iter(wrong))):
            headrace.make(task, **wrong)
    with headrace.make("SimpleSpeakerListener-v4", num_envs=1) as pool:
        pool.reset()
        with pytest.raises(ActionError, match="3"):
            pool.step({"speaker": np.array([[3]]), "listener": np.array([[4]])})
