"""The memory of results: reused while nobody holds it, and as little for many numbers of rows as for few."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import headrace
from headrace.pool.batch import PARTIAL
from python_games import COUNT

N = 64


def held(pool: Any) -> int:
    """Bytes of the batches that a pool's ring refers to."""
    batches = [batch for ring in pool._ring._batches.values() for batch in ring]
    return sum(array.nbytes for batch in batches for array in batch.arrays.values())


@pytest.mark.parametrize("task", ["CartPole-v1", "counter", COUNT])
def test_many_numbers_of_rows_take_the_memory_of_a_few_batches(task: str, request: pytest.FixtureRequest) -> None:
    name = request.getfixturevalue("counter") if task == "counter" else task
    pool: Any
    with headrace.make(name, num_envs=N, seed=0) as pool:
        pool.reset()
        one = held(pool)
        for rows in [*range(1, N + 1), *range(N, 0, -1)]:
            ids = np.arange(rows)
            pool.step(np.zeros((rows, *pool.action_space.shape), pool.action_space.dtype), ids)
            pool.reset(ids)
            pool.send(np.zeros((rows, *pool.action_space.shape), pool.action_space.dtype), ids)
            pool.recv()
        assert held(pool) <= (PARTIAL + 2) * one
        if task == COUNT:
            assert pool._executor._arena._next <= 4 * (PARTIAL + 2) * one, "pieces of shared memory are used again"


def test_partial_results_that_are_kept_do_not_change() -> None:
    rng = np.random.default_rng(0)
    with headrace.make("CartPole-v1", num_envs=N, seed=0) as pool:
        pool.reset()
        kept = []
        for _ in range(300):
            ids = rng.permutation(N)[: rng.integers(1, N + 1)]
            obs, *_ = pool.step(np.zeros(len(ids), int), ids)
            kept.append((obs, obs.copy()))
        assert all(np.array_equal(obs, copy) for obs, copy in kept)


def test_a_few_numbers_of_rows_need_no_new_memory() -> None:
    with headrace.make("CartPole-v1", num_envs=N, seed=0) as pool:
        pool.reset()
        seen: list[set[int]] = [set(), set()]
        for number in range(40):
            for rows in (10, N - 10, 5, N):
                obs, *_ = pool.step(np.zeros(rows, int), np.arange(rows))
                seen[number > 4].add(obs.ctypes.data)
        assert seen[1] <= seen[0]


def test_tensors_of_all_numbers_of_rows_take_two_batches() -> None:
    torch = pytest.importorskip("torch")
    with headrace.make_torch("CartPole-v1", num_envs=N, seed=0, device="cpu") as pool:
        whole, _ = pool.reset()
        before = whole.clone()
        places = set()
        for rows in range(1, N):
            obs, *_ = pool.step(torch.zeros(rows, dtype=torch.int64), torch.arange(rows))
            assert obs.shape == (rows, 4)
            places.add(obs.untyped_storage().data_ptr())
        assert len(places) == 1
        assert torch.equal(whole, before), "a step of all environments has tensors of its own"
