"""Pools of torch tensors: the same results as a `Pool`, in place."""

from __future__ import annotations

import pickle
import subprocess
import sys
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest

from headrace.errors import OptionError, SequenceError, StateError
from headrace.pool.make_pool import pool_settings
from headrace.pool.registry import build_task

torch = pytest.importorskip("torch")

from torch_pools import KERNEL_TASKS, N, assert_same, deferred, flat, sampled, tensors  # noqa: E402

from headrace.pool.executors.kernels.device import KernelDeviceExecutor  # noqa: E402
from headrace.pool.torch.pool import TorchPool  # noqa: E402
from nightly import rest_nightly  # noqa: E402

SOME = KERNEL_TASKS[::12]


@pytest.mark.parametrize("check", ["now", "later"])
@pytest.mark.parametrize("task", rest_nightly(KERNEL_TASKS, *SOME))
def test_a_torch_pool_gives_the_same_results_as_a_pool(make: Any, make_torch: Any, task: str, check: str) -> None:
    theirs, ours = make(task, num_envs=N, seed=3), make_torch(task, N, seed=3)
    if check == "later":
        deferred(ours)
    assert_same(ours.reset(), theirs.reset())
    rng = np.random.default_rng(0)
    for _ in range(50):
        action = sampled(ours.action_space, N, rng)
        assert_same(ours.step(tensors(action)), theirs.step(action))
    ids = np.array([3, 0])
    action = sampled(ours.action_space, 2, rng)
    assert_same(ours.step(tensors(action), torch.from_numpy(ids)), theirs.step(action, ids))
    assert_same(ours.reset(torch.from_numpy(ids), seed=9), theirs.reset(ids, seed=9))
    ours.check_errors()
    assert ours.save_state() == theirs.save_state()


def test_same_step_autoreset_gives_the_same_results_as_a_pool(make: Any, make_torch: Any) -> None:
    options = {"seed": 1, "autoreset": "same_step"}
    theirs, ours = make("CartPole-v1", num_envs=N, **options), make_torch("CartPole-v1", N, **options)
    theirs.reset()
    ours.reset()
    ends = 0
    for _ in range(60):
        action = np.ones(N, np.int64)
        *rest, info = ours.step(torch.from_numpy(action))
        *expected, their_info = theirs.step(action)
        assert_same(tuple(rest), tuple(expected))
        over = info["_final_obs"].numpy()
        assert over.any() == ("final_obs" in their_info)
        if over.any():
            ends += over.sum()
            assert_same(info["final_obs"][over], their_info["final_obs"][over])
            assert_same(info["final_info"]["elapsed_step"][over], their_info["final_info"]["elapsed_step"][over])
    assert ends > N


def test_a_step_writes_to_the_same_tensors_unless_out_is_given(make_torch: Any) -> None:
    pool = make_torch("CartPole-v1", N, seed=1)
    first, _ = pool.reset()
    action = torch.ones(N, dtype=torch.int64)
    assert pool.step(action)[0] is first
    obs, reward = torch.zeros(4, N, 4), torch.zeros(4, N)
    rows = [pool.make_batch(obs=obs[t], reward=reward[t]) for t in range(4)]
    kept = first.clone()
    for row in rows:
        result = pool.step(action, out=row)
        assert all(ours is theirs for ours, theirs in zip(result[:4], row.result()[:4], strict=True))
        assert result[0].data_ptr() == row.tensors["obs"].data_ptr()
    assert reward.eq(1).all()
    assert obs.abs().sum((1, 2)).gt(0).all()
    assert torch.equal(first, kept)


def test_states_move_between_pools(make: Any, make_torch: Any) -> None:
    theirs, ours = make("Pendulum-v1", num_envs=N, seed=1), make_torch("Pendulum-v1", N, seed=2)
    theirs.reset()
    action = np.full((N, 1), 0.5, np.float32)
    theirs.step(action)
    ours.load_state(None, theirs.save_state())
    assert_same(ours.step(torch.from_numpy(action)), theirs.step(action))
    np.testing.assert_array_equal(ours.render([1, 4]), theirs.render([1, 4]))
    with pytest.raises(StateError):
        ours.load_state([0], [b"nothing"])


@pytest.mark.parametrize("check", ["now", "later"])
def test_finished_environments_need_a_reset_if_autoreset_is_disabled(make_torch: Any, check: str) -> None:
    pool = make_torch("CartPole-v1", 2, seed=1, autoreset="disabled", max_episode_steps=2)
    if check == "later":
        deferred(pool)
    pool.reset()
    action = torch.zeros(2, dtype=torch.int64)
    assert not pool.step(action)[3].any()
    assert pool.step(action)[3].all()

    def step_again() -> None:
        pool.step(action)
        pool.check_errors()

    with pytest.raises(SequenceError, match="over"):
        step_again()
    pool.reset()
    pool.step(action)


@pytest.mark.parametrize("task", rest_nightly(KERNEL_TASKS, *SOME))
def test_state_arrays_equal_those_of_a_pool(make: Any, make_torch: Any, task: str) -> None:
    theirs, ours = make(task, num_envs=N, seed=3), make_torch(task, N, seed=3)
    theirs.reset()
    ours.reset()
    for options in ({}, {"env_ids": [3, 0]}, {"names": list(theirs.state_arrays())[:1], "env_ids": torch.tensor([4])}):
        here, there = ours.state_arrays(**options), theirs.state_arrays(**options)
        assert list(here) == list(there)
        for name, array in here.items():
            assert (array.dtype, array.shape) == (there[name].dtype, there[name].shape)
            np.testing.assert_array_equal(array, there[name])
    with pytest.raises(OptionError, match="no state array 'nothing'; it has"):
        ours.state_arrays(["nothing"])


def test_a_pickled_pool_continues_from_its_current_state(make_torch: Any) -> None:
    pool = make_torch("CartPole-v1", N, seed=3, autoreset="same_step", max_episode_steps=7)
    pool.reset()
    action = torch.ones(N, dtype=torch.int64)
    pool.step(action)
    twin = pickle.loads(pickle.dumps(pool))
    assert twin.config == pool.config
    for _ in range(20):
        for ours, theirs in zip(flat(twin.step(action)), flat(pool.step(action)), strict=True):
            assert torch.equal(ours, theirs)
    twin.close()


class Interrupted(KernelDeviceExecutor):
    """An executor whose second reset is interrupted by Ctrl-C."""

    resets_done = 0

    def reset(self, env_ids: Any, seeds: Any, batch: Any) -> None:
        super().reset(env_ids, seeds, batch)
        self.resets_done += 1
        if self.resets_done == 2:
            raise KeyboardInterrupt


def test_environments_whose_reset_was_interrupted_must_be_reset_again() -> None:
    task: Any = build_task("CartPole-v1")
    task = replace(task, make_on_device=partial(Interrupted, task.kernel))
    action = torch.ones(N, dtype=torch.int64)
    with TorchPool(task, pool_settings(N, seed=1)) as pool:
        step = pool.bind(action, pool.make_batch())
        pool.reset()
        with pytest.raises(KeyboardInterrupt):
            pool.reset([1])
        for stopped in (step, lambda: pool.step(action), lambda: pool.step(action[:1], [1]), pool.save_state):
            with pytest.raises(SequenceError, match="an exception interrupted what environment 1 was doing"):
                stopped()
        pool.step(action[:1], [0])
        pool.reset([1])
        step()


def test_too_many_environments_for_the_memory_are_an_option_error():
    code = (
        "import resource, headrace\n"
        "headrace.make_torch('TagGridWorld-v0').close()  # all is imported\n"
        "lines = open('/proc/self/status').read().splitlines()\n"
        "used = next(int(line.split()[1]) for line in lines if line.startswith('VmData')) << 10\n"
        "resource.setrlimit(resource.RLIMIT_DATA, (used + (200 << 20),) * 2)\n"
        "try:\n    headrace.make_torch('TagGridWorld-v0', 1 << 20)\n"
        "except headrace.errors.OptionError as error:\n    print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.startswith("1048576 environments of TagGridWorld-v0 need more memory than there is"), done.stderr
