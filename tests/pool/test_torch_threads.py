"""Torch pools whose kernels run on several threads of the host."""

from __future__ import annotations

import gc
import os
import signal
import threading
import weakref
from typing import Any

import numpy as np
import pytest

import headrace
from headrace.errors import OptionError

torch = pytest.importorskip("torch")

from torch_pools import N, flat, sampled, tensors  # noqa: E402

from headrace.pool.executors.kernels import launch_splitter  # noqa: E402


@pytest.fixture
def share_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Launches of eight rows are shared with helpers, without a look at whether it pays."""
    monkeypatch.setattr(launch_splitter, "PROBE_ROWS", 8)
    monkeypatch.setattr(launch_splitter, "HANDOVER_NS", 1)
    monkeypatch.setattr(launch_splitter, "WORTH", float("inf"))
    monkeypatch.setattr(launch_splitter, "SETTLED_NS", 0)


@pytest.mark.usefixtures("share_at_once")
@pytest.mark.parametrize("task", ["CartPole-v1", "TagContinuous-v0"])
def test_results_do_not_depend_on_the_number_of_threads(make_torch: Any, task: str) -> None:
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


@pytest.mark.usefixtures("share_at_once")
def test_helper_threads_end_with_a_pool_that_is_dropped() -> None:
    action = torch.zeros(64, dtype=torch.int64)
    pool = headrace.make_torch("CartPole-v1", 64, seed=1, num_threads=3)
    pool.reset()
    for _ in range(2 * launch_splitter.PROBES + 1):
        pool.step(action)
    assert helpers() == 2
    child = os.fork()
    if child == 0:  # fork does not copy the helper threads: the child starts its own
        signal.alarm(60)
        pool.step(action)
        os._exit(0 if helpers() == 2 else 1)
    assert os.waitpid(child, 0)[1] == 0
    gone = weakref.ref(pool)
    del pool
    gc.collect()
    assert gone() is None
    assert helpers() == 0


def test_a_torch_pool_has_as_many_threads_as_a_pool(make: Any, make_torch: Any) -> None:
    for options in ({}, {"num_threads": 3}):
        theirs = make("CartPole-v1", num_envs=N, **options).settings
        assert make_torch("CartPole-v1", N, **options).settings.num_threads == theirs.num_threads
    with pytest.raises(OptionError, match="num_threads"):
        headrace.make_torch("CartPole-v1", N, num_threads=-1)
