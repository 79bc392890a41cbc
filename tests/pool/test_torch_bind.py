"""Bound steps, whose tensors are checked once, give the results of other steps and check values just as often."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import headrace
from headrace.errors import ActionError, ClosedError, OptionError, SequenceError

torch = pytest.importorskip("torch")

N = 20  # more than the handful that Python checks number by number


@pytest.mark.parametrize("check", ["now", "later"])
@pytest.mark.parametrize("task", ["CartPole-v1", "Pendulum-v1"])
@pytest.mark.parametrize("autoreset", ["next_step", "same_step"])
def test_bound_steps_give_the_results_of_plain_steps(task: str, autoreset: Any, check: str) -> None:
    pools: list[Any] = [headrace.make_torch(task, N, seed=1, autoreset=autoreset, max_episode_steps=7) for _ in "ab"]
    plain, bound = pools
    bound._executor.guards.now = check == "now"  # later: as on a GPU
    obs = bound.reset()[0]
    plain.reset()
    action = torch.zeros(N, *plain.action_space.shape, dtype=torch.int64 if task == "CartPole-v1" else torch.float32)
    batch = bound.make_batch()
    step = bound.bind(action, batch)
    for t in range(20):
        if action.dtype == torch.int64:
            action.random_(2)
        else:
            action.uniform_(-2, 2)
        *ours, info = step()
        *theirs, their_info = plain.step(action)
        assert ours[0] is batch.tensors["obs"] and ours[0] is not obs
        assert all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))
        if autoreset == "same_step":
            over = info["_final_obs"]
            assert torch.equal(over, their_info["_final_obs"]) and over.all() == (t % 7 == 6)
            assert torch.equal(info["final_obs"][over], their_info["final_obs"][over])
    for pool in pools:
        pool.close()


@pytest.mark.parametrize("task", ["CartPole-v1", "Pendulum-v1"])
@pytest.mark.parametrize("n", [3, N])
def test_a_bound_step_checks_the_values_of_its_actions_every_time(task: str, n: int) -> None:
    pool: Any = headrace.make_torch(task, n, seed=1)
    with pool:
        pool.reset()
        integers = task == "CartPole-v1"
        action = torch.zeros(n, *pool.action_space.shape, dtype=torch.int64 if integers else torch.float32)
        step = pool.bind(action, pool.make_batch())
        step()
        for wrong in (2, -1) if integers else (torch.nan, torch.inf):
            before = pool.save_state()
            action[n - 1] = wrong
            with pytest.raises(ActionError, match=str(n - 1)):
                step()
            assert pool.save_state() == before
            action[n - 1] = 0
            step()


@pytest.mark.parametrize(
    ("error", "bind"),
    [
        (ActionError, lambda p: p.bind([1] * N, p.make_batch())),
        (ActionError, lambda p: p.bind(torch.ones(N + 1, dtype=torch.int64), p.make_batch())),
        (ActionError, lambda p: p.bind(torch.ones(N), p.make_batch())),
        (ActionError, lambda p: p.bind(torch.ones(2 * N, dtype=torch.int64)[::2], p.make_batch())),
        (ActionError, lambda p: p.bind(torch.ones(N, dtype=torch.int64, device="meta"), p.make_batch())),
        (OptionError, lambda p: p.bind(torch.ones(N, dtype=torch.int64), {})),
        (OptionError, lambda p: p.bind(torch.ones(N, dtype=torch.int64), p.make_batch(reward=torch.zeros(1)))),
    ],
)
def test_bind_refuses_wrong_actions_and_batches(error: type[Exception], bind: Callable[[Any], Any]) -> None:
    with headrace.make_torch("CartPole-v1", N, seed=1) as pool, pytest.raises(error):
        bind(pool)


def test_bound_steps_before_a_reset_or_after_an_end_are_refused() -> None:
    pool = headrace.make_torch("CartPole-v1", N, seed=1, autoreset="disabled", max_episode_steps=1)
    action = torch.ones(N, dtype=torch.int64)
    step = pool.bind(action, pool.make_batch())
    with pytest.raises(SequenceError, match="environment 0 was never reset"):
        step()
    pool.reset()
    assert step()[3].all()
    with pytest.raises(SequenceError, match="over"):
        step()
    pool.close()
    for call in (step, lambda: pool.bind(action, pool.make_batch())):
        with pytest.raises(ClosedError):
            call()
