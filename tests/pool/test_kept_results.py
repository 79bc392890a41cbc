"""A result that a caller keeps never changes, whatever it came from, and its dicts are the caller's own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import headrace
import multi_agent_games  # noqa: F401  (registers the tasks)
from headrace.testing import kept_results
from headrace.testing.kept import changed, copied, keep_all, mark, marked
from headrace.testing.trial import Mismatch
from python_games import COUNT, NESTED

HUNT = "TestHunt-v0"


@pytest.mark.parametrize("task", ["CartPole-v1", "Taxi-v3", HUNT, "TestRing-v0"])
def test_kept_results_of_kernel_environments_do_not_change(task: str) -> None:
    kept_results(task)


@pytest.mark.parametrize("task", [COUNT, NESTED])
def test_kept_results_of_python_objects_in_processes_do_not_change(task: str) -> None:
    kept_results(task)


def test_kept_results_of_a_cpp_simulator_do_not_change(counter: str) -> None:
    kept_results(counter)


def test_kept_results_with_many_named_observations_do_not_change() -> None:
    pytest.importorskip("dm_control")
    kept_results("WalkerWalk-v1", num_envs=3)


WAYS: dict[str, Callable[[np.ndarray], Any]] = {
    "a slice": lambda array: array[1:],
    "a slice of a slice": lambda array: array[1:][:1],
    "transposed": lambda array: array.T,
    "reshaped": lambda array: array.reshape(-1),
    "a subclass": lambda array: array.view(np.recarray),
    "bytes": lambda array: array.view(np.uint8),
    "a memoryview": lambda array: array.data,
    "from a memoryview": lambda array: np.frombuffer(array.data.cast("B"), np.uint8),
    "strides": lambda array: np.lib.stride_tricks.as_strided(array, (1,), (1,)),
    "an iterator": lambda array: array.flat,
    "dlpack": np.from_dlpack,
    "torch": lambda array: pytest.importorskip("torch").from_numpy(array),
    "a row in torch": lambda array: pytest.importorskip("torch").from_numpy(array)[0],
}
"""how a caller keeps a part of an array, or its memory, and not the array itself"""


def content(part: Any) -> np.ndarray:
    return np.asarray(part[:] if isinstance(part, np.flatiter) else part)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("task", ["CartPole-v1", "counter", COUNT])
def test_any_reference_to_a_part_of_a_result_keeps_it(task: str, way: str, request: pytest.FixtureRequest) -> None:
    name = request.getfixturevalue("counter") if task == "counter" else task
    with headrace.make(name, num_envs=2, seed=0, max_episode_steps=5) as pool:
        pool.reset()
        kept = []
        for step in range(40):
            obs, reward, terminated, _, info = pool.step(np.full(2, step % 2))
            for array in (obs, reward, terminated, info["elapsed_step"]):
                part = WAYS[way](array)
                kept.append((part, content(part).copy()))
            del obs, reward, terminated, info, array, part
        for part, before in kept:
            assert np.array_equal(content(part), before)


def test_each_result_has_its_own_dict_and_arrays_of_observations(make: Any) -> None:
    pool = make(HUNT, num_envs=2, seed=0, autoreset="same_step", max_episode_steps=3)
    actions = gym.vector.utils.batch_space(pool.action_space, 2)
    actions.seed(0)
    kept = [pool.reset()[0]]
    kept[0]["mine"] = 1
    finals = []
    for _ in range(9):
        obs, _, _, _, info = pool.step(actions.sample())
        assert set(obs) == {"archer", "dog"}
        kept.append(obs)
        finals += [info["final_obs"]] if "final_obs" in info else []
    assert len({id(obs) for obs in kept}) == len(kept)
    assert len({obs["archer"].ctypes.data for obs in kept}) == len(kept), "each result has memory of its own"
    assert len({obs["archer"].ctypes.data for obs in finals}) == len(finals) > 2


def test_kept_results_of_the_players_view_do_not_change(make: Any) -> None:
    """Each step has the actions of all agents that are alive."""
    pool = make(HUNT, num_envs=3, max_num_players=5, seed=0, autoreset="same_step", max_episode_steps=4)

    def played() -> Iterator[Any]:
        yield pool.reset()
        rng = np.random.default_rng(0)
        for _ in range(30):
            alive = pool._alive
            archer = rng.uniform(-1, 1, (3, 3, 2)).astype(np.float32)[alive[:, :3]]
            dog = np.stack([rng.integers(0, 3, (3, 2)), rng.integers(0, 10, (3, 2))], -1)[alive[:, 3:]]
            yield pool.step({"archer": archer, "dog": dog})

    keep_all(played(), "the players view")


def test_kept_results_of_a_gymnasium_environment_do_not_change() -> None:
    env = gym.make("headrace/CartPole-v1")

    def played() -> Iterator[Any]:
        yield env.reset(seed=0)
        for step in range(5):
            yield env.step(step % 2)

    keep_all(played(), "gymnasium.make")
    env.close()


def test_kept_results_of_a_pettingzoo_environment_do_not_change() -> None:
    pettingzoo = pytest.importorskip("headrace.adapters.pettingzoo", exc_type=ImportError)
    env = pettingzoo.parallel_env(HUNT, seed=0)

    def played() -> Iterator[Any]:
        yield env.reset(seed=0)
        for _ in range(20):
            if not env.agents:
                break
            yield env.step({agent: env.action_space(agent).sample() for agent in env.agents})

    keep_all(played(), "pettingzoo")
    env.close()


def test_steps_of_a_torch_pool_reuse_tensors_but_not_dicts() -> None:
    pool = headrace.make_torch("CartPole-v1", num_envs=2, seed=0)
    obs, info = pool.reset()
    info["mine"] = 1
    action = np.zeros(2, np.int64)
    import torch

    again, *_, later = pool.step(torch.from_numpy(action))
    assert again.data_ptr() == obs.data_ptr(), "as documented: the next step writes over them"
    assert "mine" not in later
    pool.close()


def test_keep_all_finds_results_that_changed_or_share_a_dict() -> None:
    array = np.zeros(3)
    result = {"a": (array, {"b": array + 1}), "objects": np.array([None, array], object)}
    before = copied(result)
    assert not changed(result, before)
    assert not marked(result)
    mark(result)
    assert marked(result) == "result"
    assert not changed(result, before), "what the caller adds is no change"
    array[1] = 7
    assert changed(result, before) == "['a'][0] was [0., 0., 0.], and is [0., 7., 0.]"
    shared = {"obs": array}
    with pytest.raises(Mismatch, match="of one result is in result 1"):
        keep_all(iter([(shared,), (shared,)]), "here")

    def same_memory() -> Iterator[Any]:
        for step in range(3):
            array[:] = step
            yield (array,)

    with pytest.raises(Mismatch, match="result 0 of 3 was kept, and has changed"):
        keep_all(same_memory(), "here")
