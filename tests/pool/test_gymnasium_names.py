"""Headrace's tasks by Gymnasium's own `make` and `make_vec`: names, specs, checks, wrappers."""

from __future__ import annotations

import json
import warnings
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode
from gymnasium.wrappers import vector as wrappers

import headrace
from headrace.envs import FAMILIES
from headrace.errors import OptionError

TASKS = [
    "CartPole-v1",
    "Pendulum-v1",
    "FrozenLake-v1",
    "Blackjack-v1",
    "Ant-v5",
    "CheetahRun-v1",
    "WalkerStand-v1",
    "Pong-v5",
]


def steps(envs: Any, count: int) -> Any:
    """Takes so many steps, and returns the result of the last."""
    result: Any = None
    for _ in range(count):
        result = envs.step(envs.action_space.sample())
    return result


def test_all_tasks_are_registered_with_gymnasium() -> None:
    gym.register_envs(headrace)
    own = {
        spec.kwargs["task"]: name
        for name, spec in gym.registry.items()
        if spec.namespace in ("headrace", "headrace-atari")
    }
    assert {task for family in FAMILIES.values() for task in family.tasks} <= own.keys()
    assert own["Ant-v5"] == "headrace/Ant-v5"
    assert gym.spec("headrace/CartPole-v1").reward_threshold == gym.spec("CartPole-v1").reward_threshold
    with pytest.raises(gym.error.NameNotFound, match="CartPol"):
        gym.make("headrace/CartPol-v1")


@pytest.mark.parametrize("task", TASKS)
def test_tasks_pass_gymnasiums_check_env(task: str) -> None:
    env = gym.make(f"headrace:headrace/{task}", render_mode="rgb_array")
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # check_env only warns of what it finds strange
        warnings.filterwarnings("ignore", "\x1b.*Box observation space (min|max)imum value is -?inf")
        warnings.filterwarnings("ignore", ".*we recommend using a symmetric and normalized space")  # Pendulum's is not
        check_env(env.unwrapped)
    env.close()


def test_an_environment_of_gym_make_works_in_gymnasiums_wrappers() -> None:
    env: Any = gym.make("headrace/CartPole-v1", max_episode_steps=9)
    env = gym.wrappers.RecordEpisodeStatistics(gym.wrappers.NormalizeReward(env))
    obs, _ = env.reset(seed=4)
    with headrace.make("CartPole-v1", seed=4) as pool:
        assert (obs == pool.reset()[0][0]).all()
    for t in range(1, 9):
        assert not any(env.step(t % 2)[2:4])
    *_, truncated, info = env.step(0)
    assert truncated and info["episode"]["l"] == 9
    env.close()


def test_an_option_of_a_reset_that_a_task_does_not_have_is_refused() -> None:
    env: Any = gym.make("headrace/CartPole-v1")
    env.reset(seed=0, options={})
    with pytest.raises(OptionError, match="reset has no option 'low'"):
        env.reset(seed=0, options={"low": 0.01, "high": 0.011})
    env.close()


@pytest.mark.parametrize("task", ["Ant-v5", "CartPole-v1"])
def test_the_spec_of_an_environment_makes_an_equal_environment(task: str) -> None:
    options: dict[str, Any] = {"ctrl_cost_weight": 0.25} if task == "Ant-v5" else {}
    env = gym.make(f"headrace/{task}", render_mode="rgb_array", max_episode_steps=7, seed=3, **options)
    assert env.spec is not None
    for spec in (env.spec, EnvSpec.from_json(env.spec.to_json())):
        twin: Any = gym.make(spec)
        assert twin.spec == env.spec
        assert twin.render_mode == "rgb_array"
        assert twin.unwrapped.pool.spec.options == env.unwrapped.pool.spec.options  # type: ignore[attr-defined]
        np.testing.assert_array_equal(twin.reset()[0], env.unwrapped.pool.reset(seed=3)[0][0])  # type: ignore[attr-defined]
        assert steps(twin, 7)[3]
        twin.close()
    env.close()


def test_the_spec_of_a_vector_environment_makes_an_equal_one() -> None:
    envs = gym.make_vec(
        "headrace/Ant-v5", num_envs=3, seed=5, autoreset="same_step", max_episode_steps=4, ctrl_cost_weight=0.25
    )
    first, _ = envs.reset()
    assert envs.spec is not None
    twin = gym.make_vec(EnvSpec.from_json(envs.spec.to_json()))
    assert twin.num_envs == 3
    assert twin.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP
    np.testing.assert_array_equal(first, twin.reset()[0])
    assert steps(twin, 4)[3].all()
    envs.close()
    twin.close()


@pytest.mark.parametrize("mode", ["vector_entry_point", "sync", "async", None])
def test_every_vectorization_mode_returns_the_results_of_a_pool(mode: str | None) -> None:
    envs = gym.make_vec("headrace/CartPole-v1", num_envs=2, vectorization_mode=mode)
    pooled = isinstance(envs.unwrapped, headrace.pool.views.gymnasium.GymnasiumPool)  # type: ignore[attr-defined]
    assert pooled == (mode in (None, "vector_entry_point"))
    obs, _ = envs.reset(seed=1)
    with headrace.make("CartPole-v1", num_envs=2, seed=1) as pool:
        np.testing.assert_array_equal(obs, pool.reset()[0])
        for _ in range(9):
            got, expected = envs.step(np.array([1, 1])), pool.step(np.array([1, 1]))
            for one, other in zip(got[:4], expected[:4], strict=True):
                np.testing.assert_array_equal(one, other)
    envs.close()


def test_render_fps_of_a_task_is_gymnasiums() -> None:
    env, envs = gym.make("headrace/Ant-v5"), gym.make_vec("headrace/Ant-v5", num_envs=1)
    assert env.metadata["render_fps"] == envs.metadata["render_fps"] == gym.make("Ant-v5").metadata["render_fps"]
    assert envs.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP
    env.close()
    envs.close()


WRAPPED: dict[str, Any] = {
    "statistics": wrappers.RecordEpisodeStatistics,
    "observations": wrappers.NormalizeObservation,
    "rewards": wrappers.NormalizeReward,
    "clipped": lambda envs: wrappers.ClipReward(envs, 0, 1),
    "dtype": lambda envs: wrappers.DtypeObservation(envs, np.float64),
    "actions": wrappers.ClipAction,
    "rescaled": lambda envs: wrappers.RescaleAction(envs, -1, 1),
    "flat": wrappers.FlattenObservation,
}


@pytest.mark.parametrize("name", WRAPPED)
def test_vector_wrappers_give_the_same_results_as_over_gymnasiums_vectors(name: str) -> None:
    """Compared with Gymnasium's own vector environment of the same environments."""
    limit: Any = {"max_episode_steps": 20}
    info, told = {}, {}
    ours, theirs = (
        WRAPPED[name](gym.make_vec("headrace/Pendulum-v1", num_envs=3, vectorization_mode=mode, **limit))
        for mode in (None, "sync")
    )
    a, b = ours.reset(seed=2)[0], theirs.reset(seed=2)[0]
    rng = np.random.default_rng(0)
    for _ in range(20):  # up to the end: the environments of one pool and single ones reset alike, but not at once
        np.testing.assert_allclose(a, b, rtol=1e-5)
        action = rng.uniform(-1, 1, (3, 1)).astype(np.float32)
        (a, *rest, info), (b, *others, told) = ours.step(action), theirs.step(action)
        for one, other in zip(rest, others, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5)
        assert info.keys() >= {"env_id", "elapsed_step"}
        assert ("episode" in info) == ("episode" in told)
    if name == "statistics":
        np.testing.assert_allclose(info["episode"]["r"], told["episode"]["r"], rtol=1e-5)
        assert info["_episode"].all() and (info["episode"]["l"] == 20).all()
    ours.close()
    theirs.close()


def test_dict_info_to_list_gives_each_environment_its_info() -> None:
    envs = wrappers.DictInfoToList(gym.make_vec("headrace/Pong-v5", num_envs=2))
    envs.reset()
    infos: Any = envs.step(np.zeros(2, np.int64))[-1]
    assert [info["env_id"] for info in infos] == [0, 1]
    assert all(info["lives"] == 0 and info["elapsed_step"] == 1 for info in infos)
    envs.close()


def test_gym_make_refuses_num_envs() -> None:
    with pytest.raises(OptionError, match="make_vec"):
        gym.make("headrace/CartPole-v1", num_envs=4)
    envs = gym.make_vec("headrace/CartPole-v1", num_envs=2)
    assert json.loads(envs.spec.to_json())["kwargs"]["num_envs"] == 2  # type: ignore[union-attr]
    envs.close()
