"""Pools of MuJoCo tasks: threads and batches change no result, stacks hold the latest observations, no crashes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium_side import TASKS, mujoco
from hypothesis import given, settings
from hypothesis import strategies as st

import headrace
import headrace.testing
from headrace.errors import ActionError

V5 = [task for task in TASKS if task.endswith("v5")]


def played(task: str, seed: int, num_envs: int, steps: int, **pool_options: Any) -> dict[int, list[bytes]]:
    """Each environment's first results, as bytes; its actions depend on its number and its step alone."""
    results: dict[int, list[bytes]] = {i: [] for i in range(num_envs)}
    with headrace.make(task, num_envs=num_envs, seed=seed, **pool_options) as pool:
        width = pool.action_space.shape[0]  # pyright: ignore[reportOptionalSubscript]
        pool.async_reset()
        while min(len(rows) for rows in results.values()) < steps:
            obs, reward, terminated, truncated, info = pool.recv()
            ids = info["env_id"]
            actions = np.empty((len(ids), width))
            for row, i in enumerate(ids):
                shown = (obs[row], reward[row], terminated[row], truncated[row], info["elapsed_step"][row])
                results[i].append(b"".join(np.asarray(part).tobytes() for part in shown))
                actions[row] = np.sin(np.arange(width) + 7.0 * i + len(results[i]))
            pool.send(actions, ids)
    return {i: rows[:steps] for i, rows in results.items()}


@settings(max_examples=12, deadline=None)
@given(
    st.sampled_from(["InvertedPendulum-v5", "Hopper-v5", "Ant-v5", "Reacher-v4"]),
    st.integers(0, 2**63),
    st.integers(1, 6).flatmap(lambda n: st.tuples(st.just(n), st.integers(1, n))),
    st.integers(1, 4),
)
def test_episodes_depend_on_the_seed_and_not_on_threads_or_batches(
    task: str, seed: int, sizes: tuple[int, int], threads: int
) -> None:
    n, batch = sizes
    expected = played(task, seed, n, 25, num_threads=1)
    assert played(task, seed, n, 25, num_threads=threads, batch_size=batch) == expected
    assert played(task, seed + 1, n, 25, num_threads=threads, batch_size=batch) != expected


def leaves(part: Any) -> list[np.ndarray]:
    return [leaf for value in part.values() for leaf in leaves(value)] if isinstance(part, dict) else [part]


@pytest.mark.parametrize("task", ["Swimmer-v5", "InvertedDoublePendulum-v4"])
def test_a_stack_shows_the_latest_observations(make: Any, task: str) -> None:
    plain, stacked = make(task, seed=4, num_envs=3), make(task, seed=4, num_envs=3, frame_stack=3)
    width = plain.observation_space.shape[0]
    assert stacked.observation_space.shape == (3, width)
    first, _ = plain.reset()
    history = [first.copy()] * 3
    np.testing.assert_array_equal(stacked.reset()[0], np.stack(history, axis=1))
    rng = np.random.default_rng(0)
    for _ in range(40):
        actions = rng.uniform(-1, 1, (3, *plain.action_space.shape))
        obs, *_, info = plain.step(actions)
        began = (info["elapsed_step"] == 0)[:, None]
        history = [np.where(began, obs, old) for old in history[1:]] + [obs.copy()]
        np.testing.assert_array_equal(stacked.step(actions)[0], np.stack(history, axis=1))


STEP_ONLY = {
    "Ant-v5": ["x_velocity", "y_velocity", "reward_forward", "reward_ctrl", "reward_contact", "reward_survive"],
    "Hopper-v5": ["x_velocity", "reward_forward", "reward_ctrl", "reward_survive"],
    "Humanoid-v4": ["x_velocity", "reward_linvel", "reward_quadctrl", "reward_alive", "forward_reward"],
    "Pusher-v4": ["reward_dist", "reward_ctrl"],
}


@pytest.mark.parametrize("task", STEP_ONLY)
def test_info_of_a_step_is_zero_after_a_reset(make: Any, task: str) -> None:
    pool = make(task, seed=4, autoreset="disabled")
    for _ in range(2):
        _, info = pool.reset()
        assert {name: info[name][0] for name in STEP_ONLY[task]} == dict.fromkeys(STEP_ONLY[task], 0.0)
        *_, info = pool.step(np.full((1, *pool.action_space.shape), 0.3))
        assert all(info[name][0] != 0.0 for name in STEP_ONLY[task] if name != "reward_contact")  # it is in the air


@pytest.mark.parametrize("task", V5)
def test_a_large_action_acts_as_the_action_clipped_to_its_range(make: Any, task: str) -> None:
    pool, clipped = make(task, num_envs=2, seed=6), make(task, num_envs=2, seed=6)
    pool.reset()
    clipped.reset()
    space = pool.action_space
    for size in (0.1, 1e9, -1e9, 0.1):
        actions = np.full((2, *space.shape), size)
        obs, _, terminated, _, info = pool.step(actions)
        expected, _, its_end, *_ = clipped.step(np.clip(actions, space.low, space.high))
        np.testing.assert_array_equal(obs, expected)
        np.testing.assert_array_equal(terminated, its_end)
        assert not info["physics_warning"].any()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_an_action_that_is_not_finite_is_refused(make: Any, bad: float) -> None:
    pool = make("Reacher-v5", num_envs=2, seed=6)
    pool.reset()
    with pytest.raises(ActionError):
        pool.step(np.array([[0.0, 0.0], [bad, 0.0]]))
    pool.step(np.zeros((2, 2)))


def test_a_mujoco_warning_ends_the_episode(make: Any) -> None:
    """A state that diverged is not shown: the last good observation is, and the kind of warning."""
    pool = make("Hopper-v5", seed=6, num_envs=2, autoreset="disabled")
    last, _ = pool.reset()
    last = last.copy()
    pool._executor.state_arrays()["qvel"][0] = 1e12
    obs, reward, terminated, _, info = pool.step(np.zeros((2, 3)))
    assert terminated.tolist() == [True, False]
    assert reward[0] == 0.0
    assert info["physics_warning"].tolist() == [1 + mujoco.mjtWarning.mjWARN_BADQVEL, 0]
    np.testing.assert_array_equal(obs[0], last[0])
    pool.reset(np.array([0]))
    *_, terminated, _, info = pool.step(np.zeros((2, 3)))
    assert not terminated.any()
    assert not info["physics_warning"].any()
