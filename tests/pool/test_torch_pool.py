"""Pools of torch tensors: the same results as a `Pool`, in place, and every mistake named.

What only a GPU can show is in tests/gpu; here its kernels are compiled, and the checks
that it makes by itself run on the CPU.
"""

from __future__ import annotations

import gc
import os
import pickle
import signal
import subprocess
import sys
import threading
import weakref
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import warp as wp

import headrace
from headrace.errors import ActionError, ClosedError, EnvIdError, OptionError, SequenceError, StateError
from headrace.pool.registry import build_task, pool_settings

torch = pytest.importorskip("torch")

from headrace.envs import FAMILIES  # noqa: E402
from headrace.pool.executors.kernels import sharing  # noqa: E402
from headrace.pool.executors.kernels.build import program_of  # noqa: E402
from headrace.pool.executors.kernels.device import KernelDeviceExecutor  # noqa: E402
from headrace.pool.torch.pool import TorchPool  # noqa: E402

NATIVE = ("atari", "dm_control", "mujoco", "vizdoom")
KERNEL_TASKS = [task for family, tasks in FAMILIES.items() if family not in NATIVE for task in tasks]
N = 5


@pytest.fixture
def make_torch() -> Iterator[Any]:
    """`headrace.make_torch`, closing what it made at the end of the test."""
    made: list[TorchPool] = []

    def make_and_keep(*args: Any, **kwargs: Any) -> TorchPool:
        made.append(headrace.make_torch(*args, **kwargs))
        return made[-1]

    yield make_and_keep
    for pool in made:
        pool.close()


def deferred(pool: TorchPool) -> TorchPool:
    """Checks actions as on a GPU: by a kernel, and raised later."""
    pool._executor.guards.now = False
    return pool


def sampled(space: Any, rows: int, rng: np.random.Generator) -> Any:
    """Random actions of a space, [rows, …]; a dict of them for a `Dict` space."""
    space.seed(int(rng.integers(2**31)))
    samples = [space.sample() for _ in range(rows)]
    if isinstance(samples[0], dict):
        return {name: np.stack([s[name] for s in samples]) for name in samples[0]}
    return np.stack(samples)


def tensors(tree: Any) -> Any:
    return {k: tensors(v) for k, v in tree.items()} if isinstance(tree, dict) else torch.from_numpy(np.asarray(tree))


def assert_same(ours: Any, theirs: Any) -> None:
    """Bit by bit, whatever is nested; NumPy's side may have more info (``players``)."""
    if isinstance(ours, dict):
        for name in ours:
            assert_same(ours[name], theirs[name])
    elif isinstance(ours, tuple):
        for a, b in zip(ours, theirs, strict=True):
            assert_same(a, b)
    else:
        assert ours.numpy().dtype == theirs.dtype
        np.testing.assert_array_equal(ours.numpy(), theirs)


@pytest.mark.parametrize("check", ["now", "later"])
@pytest.mark.parametrize("task", KERNEL_TASKS)
def test_the_same_results_as_a_pool(make: Any, make_torch: Any, task: str, check: str) -> None:
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


def test_same_step_autoreset(make: Any, make_torch: Any) -> None:
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


def test_a_step_writes_where_it_did_before_or_where_it_is_told(make_torch: Any) -> None:
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
def test_disabled_autoreset(make_torch: Any, check: str) -> None:
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


@pytest.mark.parametrize("task", KERNEL_TASKS)
def test_state_arrays(make: Any, make_torch: Any, task: str) -> None:
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


# ---- threads


@pytest.fixture
def share_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Launches of eight rows are shared with helpers, without a look at whether it pays."""
    monkeypatch.setattr(sharing, "PROBE_ROWS", 8)
    monkeypatch.setattr(sharing, "HANDOVER_NS", 1)
    monkeypatch.setattr(sharing, "WORTH", float("inf"))


@pytest.mark.usefixtures("share_at_once")
@pytest.mark.parametrize("task", ["CartPole-v1", "TagContinuous-v0"])
def test_results_do_not_depend_on_threads(make_torch: Any, task: str) -> None:
    n, ids = 101, torch.randperm(101)[:40]
    alone, shared = (make_torch(task, n, seed=3, num_threads=threads) for threads in (1, 3))
    rng = np.random.default_rng(0)
    for pool in (alone, shared):
        pool.reset()
    for _ in range(10):
        whole, some = (tensors(sampled(alone.action_space, rows, rng)) for rows in (n, 40))
        for call in (lambda p, a=whole: p.step(a), lambda p, a=some: p.step(a, ids), lambda p: p.reset(ids)):
            for ours, theirs in zip(flat(call(shared)), flat(call(alone)), strict=True):
                assert torch.equal(ours, theirs)
    action = tensors(sampled(alone.action_space, n, rng))
    new = [pool.step(action, out=pool.make_batch()) for pool in (shared, alone)]  # bound when all is known
    for ours, theirs in zip(*map(flat, new), strict=True):
        assert torch.equal(ours, theirs)
    assert shared.save_state() == alone.save_state()
    assert helpers() == 2
    shared.close()
    assert helpers() == 0


def helpers() -> int:
    return sum(thread.name == "headrace-kernels" for thread in threading.enumerate())


def flat(result: Any) -> list[Any]:
    parts = result.values() if isinstance(result, dict) else result
    return [result] if isinstance(result, torch.Tensor) else [leaf for part in parts for leaf in flat(part)]


@pytest.mark.usefixtures("share_at_once")
def test_helper_threads_end_with_a_pool_that_is_dropped() -> None:
    action = torch.zeros(64, dtype=torch.int64)
    pool = headrace.make_torch("CartPole-v1", 64, seed=1, num_threads=3)
    pool.reset()
    for _ in range(sharing.PROBES + 1):
        pool.step(action)
    assert helpers() == 2
    child = os.fork()
    if child == 0:  # its helpers did not come along: it hires its own
        signal.alarm(60)
        pool.step(action)
        os._exit(0 if helpers() == 2 else 1)
    assert os.waitpid(child, 0)[1] == 0
    gone = weakref.ref(pool)
    del pool
    gc.collect()
    assert gone() is None
    assert helpers() == 0


def test_as_many_threads_as_a_pool_has(make: Any, make_torch: Any) -> None:
    for options in ({}, {"num_threads": 3}):
        theirs = make("CartPole-v1", num_envs=N, **options).settings
        assert make_torch("CartPole-v1", N, **options).settings.num_threads == theirs.num_threads
    with pytest.raises(OptionError, match="num_threads"):
        headrace.make_torch("CartPole-v1", N, num_threads=-1)


def test_a_pickle_is_the_pool_in_its_present_state(make_torch: Any) -> None:
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
    """An executor of one's own, in whose resets somebody presses Ctrl-C from the second one on."""

    resets_done = 0

    def reset(self, env_ids: Any, seeds: Any, batch: Any) -> None:
        super().reset(env_ids, seeds, batch)
        self.resets_done += 1
        if self.resets_done == 2:
            raise KeyboardInterrupt


def test_whoever_was_being_reset_when_an_exception_came_must_be_reset_again() -> None:
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


# ---- mistakes

ones = torch.ones


@pytest.mark.parametrize(
    ("error", "call"),
    [
        (ActionError, lambda p: p.step(np.ones(N, np.int64))),
        (ActionError, lambda p: p.step(ones(N + 1, dtype=torch.int64))),
        (ActionError, lambda p: p.step(ones(N))),
        (ActionError, lambda p: p.step(ones(2 * N, dtype=torch.int64)[::2])),
        (ActionError, lambda p: p.step(ones(N, dtype=torch.int64, device="meta"))),
        (ActionError, lambda p: p.step(ones(N, dtype=torch.int64) * 2)),
        (EnvIdError, lambda p: p.step(ones(2, dtype=torch.int64), [1, 1])),
        (EnvIdError, lambda p: p.step(ones(1, dtype=torch.int64), torch.tensor([N]))),
        (EnvIdError, lambda p: p.reset([-1])),
        (OptionError, lambda p: p.make_batch(obs=torch.zeros(N, 5))),
        (OptionError, lambda p: p.make_batch(obs=torch.zeros(N, 4, dtype=torch.float64))),
        (OptionError, lambda p: p.make_batch(lives=torch.zeros(N))),
        (OptionError, lambda p: p.make_batch(obs=[1])),
        (OptionError, lambda p: p.step(ones(N, dtype=torch.int64), out={})),
        (OptionError, lambda p: p.step(ones(N, dtype=torch.int64), out=p.make_batch(reward=torch.zeros(1)))),
        (OptionError, lambda p: p.load_state([0], [])),
    ],
)
def test_mistakes_are_named_and_step_nothing(make_torch: Any, error: type[Exception], call: Any) -> None:
    pool = make_torch("CartPole-v1", N, seed=1)
    pool.reset()
    before = pool.save_state()
    with pytest.raises(error):
        call(pool)
    assert pool.save_state() == before


def test_wrong_moments(make_torch: Any) -> None:
    pool = make_torch("CartPole-v1", N, seed=1)
    action = torch.ones(N, dtype=torch.int64)
    with pytest.raises(SequenceError, match="environment 0 was never reset"):
        pool.step(action)
    pool.reset([0, 1])
    pool.step(action[:2], [1, 0])
    with pytest.raises(SequenceError, match="environment 2"):
        pool.step(action)
    with pytest.raises(SequenceError, match="environment 3"):
        pool.save_state([3])
    pool.close()
    pool.close()
    for call in (
        pool.reset,
        pool.save_state,
        pool.state_arrays,
        pool.check_errors,
        lambda: pool.step(action),
        pool.render,
    ):
        with pytest.raises(ClosedError):
            call()


# ---- what a GPU checks by itself


def test_wrong_actions_are_clipped_and_told_later(make_torch: Any) -> None:
    wrong, right = deferred(make_torch("CartPole-v1", 3, seed=1)), make_torch("CartPole-v1", 3, seed=1)
    for pool in (wrong, right):
        pool.reset()
    given = torch.tensor([0, 1 << 40, -7])
    assert_same(wrong.step(given)[0], right.step(torch.tensor([0, 1, 0]))[0].numpy())
    assert given.tolist() == [0, 1 << 40, -7]
    for call in (wrong.check_errors, wrong.reset, wrong.save_state):
        with pytest.raises(ActionError, match="row 1"):
            call()
        wrong.check_errors()  # told once
        wrong.step(given)
    with pytest.raises(ActionError):
        wrong.close()


def test_what_is_not_finite_becomes_nothing(make_torch: Any) -> None:
    wrong, right = deferred(make_torch("Pendulum-v1", 3, seed=1)), make_torch("Pendulum-v1", 3, seed=1)
    for pool in (wrong, right):
        pool.reset()
    obs = wrong.step(torch.tensor([[9.0], [torch.nan], [-torch.inf]]))[0]
    assert_same(obs, right.step(torch.tensor([[9.0], [0.0], [0.0]]))[0].numpy())  # 9 is the environment's to clip
    with pytest.raises(ActionError, match="row 1"):
        wrong.check_errors()


@pytest.mark.parametrize(("ids", "match"), [([0, 99], "row 1"), ([-1, 2], "row 0"), ([2, 2], "another row")])
@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_wrong_env_ids_are_told_later(make_torch: Any, ids: list[int], match: str, dtype: Any) -> None:
    pool = deferred(make_torch("CartPole-v1", N, seed=1))
    pool.reset()
    pool.step(torch.ones(2, dtype=torch.int64), torch.tensor(ids, dtype=dtype))
    with pytest.raises(EnvIdError, match=match):
        pool.check_errors()
    with pytest.raises(EnvIdError, match="integers"):
        pool.step(torch.ones(2, dtype=torch.int64), torch.ones(2))
    pool.reset()


# ---- devices


@pytest.mark.parametrize("device", ["cuda:99", "cpu:3x", "tpu", "mps", 1.5])
def test_devices_that_are_not_there(device: Any) -> None:
    with pytest.raises(OptionError, match="cpu"):
        headrace.make_torch("CartPole-v1", 2, device=device)
    with pytest.raises(OptionError):
        headrace.make("CartPole-v1", num_envs=2, device=device)


def test_only_kernels_live_on_a_device() -> None:
    with pytest.raises(OptionError, match=r"debug=True.*Take headrace\.make, without a device"):
        headrace.make_torch("CartPole-v1", 2, debug=True)
    with pytest.raises(OptionError, match="gymnasium"):
        headrace.make("CartPole-v1", "gymnasium", num_envs=2, device="cuda:0")
    pytest.importorskip("headrace_atari._atari")
    pytest.importorskip("ale_py")
    with pytest.raises(OptionError, match="no kernel environment"):
        headrace.make_torch("Pong-v5", 2)


@pytest.mark.parametrize("task", KERNEL_TASKS)
def test_kernels_compile_for_a_gpu(task: str, tmp_path: Path) -> None:
    """To PTX for Hopper; where neither device calls a library function, without a fused operation."""
    if not wp.get_cuda_supported_archs():
        pytest.skip("this Warp has no CUDA compiler")
    built = build_task(task)
    assert built.kernel is not None
    kernel = program_of(built.kernel, built.spec, "cuda:0").kernel
    wp.compile_aot_module(kernel.module, device=None, arch=90, module_dir=str(tmp_path), use_ptx=True)
    (ptx,) = tmp_path.glob("*.ptx")
    text = ptx.read_text()
    assert f".entry {kernel.key}" in text
    if task.startswith(("CartPole", "Acrobot", "Pendulum")):
        assert "fma.rn" not in text


def test_more_environments_than_memory_is_an_option_error():
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
