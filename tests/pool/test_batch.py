"""Memory of results is reused once nobody holds it; many different row counts take no more of it than a few."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import headrace
from headrace.pool import batch
from headrace.pool.batch import OVERHEAD, PARTIAL
from python_games import COUNT

N = 64


def held(pool: Any) -> int:
    """Bytes of the batches that a pool's ring refers to."""
    batches = [each for known in pool._ring._batches.values() for each in known]
    return sum(array.nbytes for each in batches for array in each.arrays.values())


@pytest.mark.parametrize("task", ["CartPole-v1", "counter", COUNT])
def test_results_of_many_row_counts_take_the_memory_of_few_batches(task: str, request: pytest.FixtureRequest) -> None:
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


def test_steps_of_a_few_recurring_row_counts_need_no_new_memory() -> None:
    with headrace.make("CartPole-v1", num_envs=N, seed=0) as pool:
        pool.reset()
        seen: list[set[int]] = [set(), set()]
        for number in range(40):
            for rows in (10, N - 10, 5, N):
                obs, *_ = pool.step(np.zeros(rows, int), np.arange(rows))
                seen[number > 4].add(obs.ctypes.data)
        assert seen[1] <= seen[0]


@pytest.mark.parametrize("task", ["CartPole-v1", "counter", COUNT])
@pytest.mark.parametrize("what", ["everything", "observations", "the last 50"])
def test_memory_of_results_kept_for_a_while_is_used_again(task: str, what: str, request: pytest.FixtureRequest) -> None:
    """A rollout's results, kept and dropped together, or one by one as newer ones come."""
    name = request.getfixturevalue("counter") if task == "counter" else task
    pool: Any
    with headrace.make(name, num_envs=3, seed=0) as pool:
        pool.reset()
        places: list[set[int]] = []
        kept: list[Any] = []
        for _ in range(8):
            places.append(set())
            for _ in range(60):
                result = pool.step(np.zeros(3, int))
                places[-1].add(result[0].ctypes.data)
                kept.append(result if what == "everything" else result[0])
                if what == "the last 50":
                    kept = kept[-50:]
            if what != "the last 50":
                kept.clear()
        assert places[-1] <= set().union(*places[:-1]), "no new memory once there is as much as the caller keeps"


@pytest.mark.parametrize("task", ["CartPole-v1", "counter"])
def test_a_ring_refers_to_few_of_the_results_that_a_caller_keeps_for_ever(
    task: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = request.getfixturevalue("counter") if task == "counter" else task
    monkeypatch.setattr(batch, "RETAINED", 1 << 20)
    pool: Any
    with headrace.make(name, num_envs=N, seed=0) as pool:
        pool.reset()
        one = held(pool)
        rewards = [pool.step(np.zeros(N, int))[1] for _ in range(500)]
        assert held(pool) <= 9 * one + (1 << 20)
        assert sum(len(known) for known in pool._ring._batches.values()) <= 9 + (1 << 20) // OVERHEAD
        assert len({reward.ctypes.data for reward in rewards}) == 500


@pytest.mark.parametrize(("num_envs", "num_threads"), [(4, 1), (1024, 2)])
def test_a_new_batch_of_kernels_prepares_no_launch(
    num_envs: int, num_threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    from headrace.pool.executors.kernels import launch

    actions = np.random.default_rng(0).integers(0, 2, (90, num_envs))
    pool: Any
    with (
        headrace.make("CartPole-v1", num_envs=num_envs, num_threads=num_threads, seed=0) as pool,
        headrace.make("CartPole-v1", num_envs=num_envs, num_threads=1, seed=0) as twin,
    ):
        pool.reset()
        if num_threads > 1:
            pool._executor._splitter._worthwhile = True  # as its first steps may find
        kept = [pool.step(action) for action in actions[:30]]
        monkeypatch.setattr(launch, "_recorded", None)
        kept += [pool.step(action) for action in actions[30:]]
        monkeypatch.undo()
        twin.reset()
        for mine, action in zip(kept, actions, strict=True):
            theirs = twin.step(action)
            assert all(np.array_equal(a, b) for a, b in zip(mine[:4], theirs[:4], strict=True))


def test_a_new_batch_of_a_simulator_needs_no_further_bind(counter: str) -> None:
    class Engine:
        """The engine, which counts the batches whose arrays it looks at."""

        bound = 0

        def __init__(self, engine: Any):
            self._engine = engine

        def bind(self, arrays: list[np.ndarray]) -> Any:
            self.bound += 1
            return self._engine.bind(arrays)

        def __getattr__(self, name: str) -> Any:
            return getattr(self._engine, name)

    pool: Any
    with headrace.make(counter, num_envs=2, seed=0) as pool:
        engine = pool._executor._engine = Engine(pool._executor._engine)
        pool.reset()
        kept = [pool.step([1, 1])[4]["elapsed_step"] for _ in range(40)]
        assert engine.bound == 1
        assert len({elapsed.ctypes.data for elapsed in kept}) == 40


def test_tensors_of_all_partial_steps_share_one_batch() -> None:
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
