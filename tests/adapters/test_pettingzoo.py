"""The PettingZoo adapter: PettingZoo's own tests, and the pool itself step by step."""

from __future__ import annotations

import warnings
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

pytest.importorskip("pettingzoo", reason="the extra 'pettingzoo' is not installed")

from pettingzoo.test import api_test, parallel_api_test, parallel_seed_test, render_test
from pettingzoo.utils import parallel_to_aec

import headrace
import masked_parallel_games
import multi_agent_games  # noqa: F401  (registers the tasks)
from headrace.adapters.pettingzoo import PettingZooEnv, parallel_env
from headrace.errors import ActionError, OptionError, SequenceError, UnknownTaskError
from masked_parallel_games import Forbidding

TAG = ("TagGridWorld-v0", {"num_taggers": 4, "random_start": True})
PLANE = ("TagContinuous-v0", {"num_taggers": 3, "num_runners": 6, "tagging_distance": 0.1, "max_episode_steps": 60})
CASES = [TAG, PLANE, ("TestRing-v0", {}), ("TestHunt-v0", {}), ("TestDuel-v0", {})]
cases = pytest.mark.parametrize(("task", "options"), CASES, ids=[task for task, _ in CASES])


@pytest.fixture
def env(task: str, options: dict[str, Any]) -> Any:
    env = parallel_env(task, seed=1, **options)
    yield env
    env.close()


@cases
def test_pettingzoos_parallel_api_test_passes_without_warnings(env: PettingZooEnv) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # parallel_api_test only warns of some defects
        parallel_api_test(env, num_cycles=200)


@cases
def test_pettingzoos_api_test_passes_with_agents_in_turns(env: PettingZooEnv) -> None:
    api_test(parallel_to_aec(env), num_cycles=200)


@cases
def test_pettingzoos_seed_test_passes(task: str, options: dict[str, Any]) -> None:
    parallel_seed_test(partial(parallel_env, task, **options))


@pytest.mark.parametrize(("task", "options"), [TAG, PLANE, ("TestRing-v0", {})])
def test_pettingzoos_render_test_passes(task: str, options: dict[str, Any]) -> None:
    def make(render_mode: str = "") -> Any:
        # the test makes one in mode "human" too, only to ask which modes there are
        return parallel_to_aec(parallel_env(task, None if render_mode == "human" else render_mode, **options))

    render_test(make)


@cases
def test_results_of_agents_equal_the_rows_of_the_pool(task: str, options: dict[str, Any]) -> None:
    env = parallel_env(task, seed=5, **options)
    pool = headrace.make(task, num_envs=1, seed=5, autoreset="disabled", **options)
    names, rng, gone, ends = env.possible_agents, np.random.default_rng(0), 0, 0
    for _ in range(6):
        got, infos = env.reset()
        obs, info = pool.reset()
        alive = np.ones(len(names), bool)
        while env.agents:
            assert env.agents == [name for name, lives in zip(names, alive, strict=True) if lives]
            check_observations(env, got, obs)
            for agent, own in infos.items():
                assert own["elapsed_step"] == info["elapsed_step"][0]
                assert "alive" not in own
                if "luck" in info:
                    assert own["luck"] == info["luck"][0, names.index(agent)]
                    assert own["living"] == info["living"][0]
            actions = {agent: env.action_space(agent).sample() for agent in names}
            dense = dense_actions(env, actions, rng)
            acting = list(env.agents)
            got, rewards, terminations, truncations, infos = env.step({agent: actions[agent] for agent in acting})
            obs, reward, terminated, truncated, info = pool.step(dense)
            assert list(got) == list(rewards) == list(terminations) == list(truncations) == list(infos) == acting
            lives = dict(zip(names, info["alive"][0], strict=True))
            for agent in acting:
                assert rewards[agent] == reward[0, names.index(agent)]
                assert terminations[agent] == (terminated[0] or not lives[agent])
                assert truncations[agent] == truncated[0]
            np.testing.assert_array_equal(env.state(), joint(obs))
            alive = info["alive"][0]
            gone += len(acting) - len(env.agents)
            ends += bool(terminated[0] or truncated[0])
    assert ends == 6
    assert gone > 6
    env.close()
    pool.close()


def check_observations(env: PettingZooEnv, got: dict[str, Any], obs: Any) -> None:
    for agent, seen in got.items():
        i, kind = env.possible_agents.index(agent), agent.split("_")[0]
        assert seen in env.observation_space(agent)
        if kind == "archer":
            np.testing.assert_array_equal(seen, obs["archer"][0, i])
        elif kind == "dog":
            assert seen == obs["dog"][0, i - 3]
        elif isinstance(obs, dict):
            for key in obs:
                np.testing.assert_array_equal(seen[key], obs[key][0, i])
        else:
            np.testing.assert_array_equal(seen, obs[0, i])


def dense_actions(env: PettingZooEnv, actions: dict[str, Any], rng: np.random.Generator) -> Any:
    names, space = env.possible_agents, env.pool.action_space
    if not isinstance(space, gym.spaces.Dict):
        return np.array([[actions[name] for name in names]])
    if "archer" in space.spaces:
        return {kind: np.array([[a for name, a in actions.items() if kind in name]]) for kind in ("archer", "dog")}
    return {key: np.array([[actions[name][key] for name in names]]) for key in space.spaces}


def joint(obs: Any) -> np.ndarray:
    return np.concatenate([a.ravel() for a in (obs.values() if isinstance(obs, dict) else [obs])])


def test_agents_have_names_and_spaces_by_their_type() -> None:
    env = parallel_env("TestHunt-v0", seed=0)
    assert env.possible_agents == ["archer_0", "archer_1", "archer_2", "dog_0", "dog_1"]
    assert env.agents == []
    assert env.max_num_agents == 5
    env.reset()
    assert env.num_agents == 5
    assert env.observation_space("dog_1") == gym.spaces.Discrete(100)
    assert env.action_space("archer_0") == env.action_space("archer_1")
    assert env.action_space("archer_0") is not env.action_space("archer_1")
    assert env.state_space.shape == env.state().shape == (11,)
    assert env.metadata["name"] == str(env) == "TestHunt-v0"
    env.close()


def test_a_reset_with_a_seed_repeats_the_same_start() -> None:
    env = parallel_env("TestRing-v0", players=20)
    first, _ = env.reset(seed=3)
    second, _ = env.reset()
    again, _ = env.reset(seed=3)
    assert all((first[agent] == again[agent]).all() for agent in first)
    assert any((first[agent] != second[agent]).any() for agent in first)
    env.close()


def test_rendered_frames_equal_the_frames_of_the_pool() -> None:
    env = parallel_env(TAG[0], render_mode="rgb_array", seed=0)
    env.reset()
    np.testing.assert_array_equal(env.render(), env.pool.render()[0])
    env.close()
    silent = parallel_env(TAG[0], seed=0)
    silent.reset()
    assert silent.render() is None
    silent.close()


WRONG = [
    ({"player_0": 0}, "player_1 has no action"),
    ({**{f"player_{i}": 0 for i in range(5)}, "player_9": 0}, "player_9 is not in the game"),
    ({**{f"player_{i}": 0 for i in range(4)}, "player_4": 4}, r"player_4: action 4 is not in Discrete\(4\)"),
    ({**{f"player_{i}": 0 for i in range(4)}, "player_4": None}, "player_4: action None"),
]


@pytest.mark.parametrize(("actions", "message"), WRONG)
def test_wrong_actions_are_refused_and_change_nothing(actions: dict[str, Any], message: str) -> None:
    env = parallel_env("TestRing-v0", seed=0)
    env.reset()
    before = env.pool.save_state()
    with pytest.raises(ActionError, match=message):
        env.step(actions)
    assert env.pool.save_state() == before
    env.step({f"player_{i}": 0 for i in range(5)})
    env.close()


def test_invalid_box_actions_are_refused_and_large_ones_clipped() -> None:
    env = parallel_env("TestHunt-v0", seed=0)
    env.reset()
    good: dict[str, Any] = {agent: env.action_space(agent).sample() for agent in env.agents}
    for action in (np.zeros(3, np.float32), np.array([1j, 0]), "left", np.array([np.nan, 0], np.float32)):
        with pytest.raises(ActionError, match="archer"):
            env.step({**good, "archer_1": action})
    env.step({**good, "archer_1": np.array([3.0, -3.0])})  # clipped by the environment
    env.close()


def test_a_step_after_all_agents_have_left_is_an_error() -> None:
    env = parallel_env("TestHunt-v0", seed=0, limit=1)
    with pytest.raises(SequenceError, match="call reset"):
        env.step({})
    with pytest.raises(SequenceError, match="call reset"):
        env.state()
    env.reset()
    env.step({agent: env.action_space(agent).sample() for agent in env.agents})
    assert env.agents == []
    with pytest.raises(SequenceError, match="nobody is left"):
        env.step({})
    env.reset()
    assert env.num_agents == 5
    env.close()
    env.close()


def test_unsupported_arguments_are_errors() -> None:
    with pytest.raises(OptionError, match="for one agent"):
        parallel_env("CartPole-v1")
    with pytest.raises(OptionError, match="num_envs is not for PettingZoo"):
        parallel_env("TestRing-v0", num_envs=3)
    with pytest.raises(OptionError, match="human"):
        parallel_env("TestRing-v0", render_mode="human")
    with pytest.raises(OptionError, match="playrs"):
        parallel_env("TestRing-v0", playrs=3)
    with pytest.raises(UnknownTaskError, match="TagGridWorld-v0"):
        parallel_env("TagGridWrld-v0")


def test_a_pettingzoo_game_gives_the_same_results_through_the_adapter() -> None:
    """Rewards, terminations and truncations pass through a pool's dense rows back into dictionaries unchanged."""
    game = Forbidding()
    task = f"{Path(masked_parallel_games.__file__)}:Forbidding"
    env = parallel_env(task, num_threads=1)
    game.reset()
    env.reset()
    while game.agents:
        actions = {agent: game._only(agent) for agent in game.agents}
        _, *expected, _ = game.step(actions)
        _, *found, infos = env.step({agent: actions[agent] for agent in env.agents})
        assert found == expected and sorted(env.agents) == sorted(game.agents)
        assert all("truncations" not in info for info in infos.values())
    env.close()
