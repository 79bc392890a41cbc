"""Memory that results are written to stays where it is, whatever its owner does with the array."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import headrace
from python_games import COUNT


@pytest.fixture(params=["threads", "kernels", "processes"])
def task(request: pytest.FixtureRequest) -> str:
    tasks = {"kernels": "CartPole-v1", "processes": COUNT}
    return tasks.get(request.param) or request.getfixturevalue("counter")


def test_arrays_bound_to_a_batch_and_their_bases_cannot_be_resized(make: Any, task: str) -> None:
    pool = make(task, num_envs=4, seed=0)
    pool.reset()
    reward, whole = np.zeros(4, np.float32), np.zeros((3, 4, 4), pool.observation_space.dtype)
    out = pool.make_batch(reward=reward, obs=whole[1:][1])
    for array in (reward, whole):
        with pytest.raises(ValueError, match="cannot resize"):
            array.resize(0, refcheck=False)
    obs, *_ = pool.step(np.ones(4, np.int64), out=out)
    assert (reward == 1).all()
    assert np.array_equal(whole[2], obs)
    assert not whole[:2].any()
    del out, obs
    reward.resize(0, refcheck=False)  # it is the caller's again


def test_result_arrays_cannot_be_resized(make: Any, task: str) -> None:
    pool = make(task, num_envs=4, seed=0)
    obs, info = pool.reset()
    for array in (obs, info["env_id"]):
        with pytest.raises(ValueError, match="cannot resize"):
            array.resize(10**6, refcheck=False)


def test_tensors_bound_to_a_batch_cannot_be_resized() -> None:
    torch = pytest.importorskip("torch")
    with headrace.make_torch("CartPole-v1", 4, seed=0) as pool:
        first, _ = pool.reset()
        reward, storage = torch.zeros(4), torch.zeros(3, 4, 4)
        out = pool.make_batch(reward=reward, obs=storage[2])
        for tensor in (first, reward, storage):
            with pytest.raises(RuntimeError, match="not resizable"):
                tensor.resize_(10**6)
            with pytest.raises(RuntimeError, match="not resizable"):
                tensor.untyped_storage().resize_(10**6)
        reward.set_()  # it has no memory now; the memory that it had is still written to
        obs, *_ = pool.step(torch.ones(4, dtype=torch.int64), out=out)
        assert obs.any() and not storage[:2].any()
        assert reward.numel() == 0
