"""Arrays of a batch are aligned and disjoint, and a kept array does not hold the memory of large others."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest

import headrace
from headrace.pool.batch_memory import ALIGNMENT, BLOCK, Layout
from headrace.pool.spec import Field
from python_games import COUNT

FIELDS = [
    Field("obs", np.dtype(np.float32), (4,)),
    Field("reward", np.dtype(np.float32)),
    Field("terminated", np.dtype(np.bool_)),
    Field("nothing", np.dtype(np.float64), (0,)),
    Field("picture", np.dtype(np.uint8), (3, 5, 7)),
    Field("env_id", np.dtype(np.int32)),
]


def held(array: Any) -> int:
    """Bytes of the allocation that an array holds."""
    return len(array.base)


@pytest.mark.parametrize("rows", [1, 3, 8, 63, 64, 257, 5000])
def test_arrays_of_a_batch_are_aligned_and_disjoint_and_lie_at_their_addresses(rows: int) -> None:
    layout = Layout(FIELDS, rows)
    made = [layout.make() for _ in range(3)]
    every = []
    for arrays, addresses in made:
        assert list(arrays) == [f.name for f in FIELDS]
        assert [array.ctypes.data for array in arrays.values()] == list(addresses)
        for f, array in zip(FIELDS, arrays.values(), strict=True):
            assert (array.shape, array.dtype) == ((rows, *f.shape), f.dtype)
            assert array.ctypes.data % ALIGNMENT == 0 and array.flags.writeable
            assert not array.any()
            assert array[:1].base is array, "a view holds the array, by which the ring knows that it is in use"
            array.view(np.uint8).fill(255)
            every.append(array)
    assert not any(np.shares_memory(a, b) for a, b in combinations(every, 2))


@pytest.mark.parametrize("rows", [1, 8, 64, 1024])
def test_a_kept_array_holds_little_memory_besides_its_own(rows: int) -> None:
    arrays, _ = Layout(FIELDS, rows).make()
    for array in arrays.values():
        assert held(array) <= max(array.nbytes, BLOCK) + ALIGNMENT
    if rows == 1:
        assert len({id(array.base) for array in arrays.values()}) == 1, "small arrays take one allocation"


@pytest.mark.parametrize("task", ["CartPole-v1", "counter"])
def test_a_kept_reward_does_not_hold_large_observations(task: str, request: pytest.FixtureRequest) -> None:
    name = request.getfixturevalue("counter") if task == "counter" else task
    with headrace.make(name, num_envs=512, seed=0) as pool:
        obs, _ = pool.reset()
        _, reward, *_ = pool.step(np.zeros(512, int))
        assert held(reward) < reward.nbytes + BLOCK + ALIGNMENT < obs.nbytes


def test_arrays_of_a_batch_with_objects_lie_at_their_addresses() -> None:
    with headrace.make(COUNT, num_envs=2, seed=0) as pool:
        batch = pool.make_batch()
        assert list(batch.arrays) == [f.name for f in pool._ring.fields]
        assert list(batch.addresses) == [array.ctypes.data for array in batch.arrays.values()]
