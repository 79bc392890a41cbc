"""The lander and the walker beside Gymnasium's: from equal seeds and actions all results are equal, bit for bit.

Gymnasium's walker keeps its world for all episodes, and what is left of earlier ones decides the order of contacts, and
with it how sums are rounded; here its environment gets a new world before each reset.
"""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import headrace
from nightly import rest_nightly

box2d = pytest.importorskip("Box2D", reason="Box2D is not installed")
lunar_lander = pytest.importorskip("gymnasium.envs.box2d.lunar_lander")
N, SEED = 4, 3
WINDY = {"enable_wind": True, "gravity": -8.0, "wind_power": 20.0}
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "lander": ("LunarLander-v3", {}),
    "lander in wind": ("LunarLander-v3", WINDY),
    "continuous lander": ("LunarLanderContinuous-v3", {}),
    "continuous lander in wind": ("LunarLanderContinuous-v3", WINDY),
    "walker": ("BipedalWalker-v3", {}),
    "hardcore walker": ("BipedalWalkerHardcore-v3", {}),
}


def reset(env: gym.Env, seed: int | None) -> np.ndarray:
    inner: Any = env.unwrapped
    if hasattr(inner, "terrain"):
        inner.world, inner.terrain = box2d.b2World(), []
    return env.reset(seed=seed)[0]


def actions_of(envs: list[gym.Env], obs: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Gymnasium's own way to land, disturbed now and then; for the walker, torques that go on for a while."""
    if obs.shape[1] == 8:
        landing = [lunar_lander.heuristic(env.unwrapped, row) for env, row in zip(envs, obs, strict=True)]
        sampled = [env.action_space.sample() for env in envs]
        return np.array([b if rng.random() < 0.1 else a for a, b in zip(landing, sampled, strict=True)])
    return (1.5 * np.sin(np.arange(4 * N).reshape(N, 4) + rng.integers(0, 50) // 10 + obs[:, :1])).astype(np.float32)


@pytest.mark.parametrize("case", rest_nightly(CASES, "lander", "continuous lander in wind", "hardcore walker"))
def test_results_equal_those_of_gymnasium_bit_for_bit(case: str) -> None:
    task, options = CASES[case]
    envs = [gym.make(task, **options) for _ in range(N)]
    rng, contacts = np.random.default_rng(1), 0.0
    with headrace.make(task, num_envs=N, seed=list(range(SEED, SEED + N)), autoreset="disabled", **options) as pool:
        for episode in range(3):
            obs, _ = pool.reset()
            theirs = [reset(env, None if episode else SEED + i) for i, env in enumerate(envs)]
            np.testing.assert_array_equal(obs, theirs)
            running, obs = np.ones(N, bool), obs.copy()
            for _ in range(1000 if "Lander" in task else 300):
                ids = np.flatnonzero(running).astype(np.int32)
                if len(ids) == 0:
                    break
                actions = actions_of(envs, obs, rng)[ids]
                seen, reward, terminated, truncated, _ = pool.step(actions, ids)
                theirs = [envs[i].step(action) for i, action in zip(ids, actions, strict=True)]
                np.testing.assert_array_equal(seen, [result[0] for result in theirs])
                np.testing.assert_array_equal(reward, np.array([result[1] for result in theirs], np.float32))
                np.testing.assert_array_equal(terminated, [result[2] for result in theirs])
                np.testing.assert_array_equal(truncated, [result[3] for result in theirs])
                obs[ids] = seen
                contacts += seen[:, [6, 7] if "Lander" in task else [8, 13]].sum()
                running[ids] = ~(terminated | truncated)
    assert contacts > 0, "no leg has touched the ground"


@pytest.mark.parametrize(
    "task", ["LunarLander-v3", "LunarLanderContinuous-v3", "BipedalWalker-v3", "BipedalWalkerHardcore-v3"]
)
def test_spaces_and_limits_equal_those_of_gymnasium(task: str) -> None:
    ours, theirs = headrace.make_spec(task), gym.make(task)
    assert theirs.spec is not None
    assert ours.observation == theirs.observation_space
    assert ours.action == theirs.action_space
    assert ours.max_episode_steps == theirs.spec.max_episode_steps
    assert ours.render_fps == theirs.metadata["render_fps"]
