"""Mistakes in calls of a torch pool are named, at once or, as on a GPU, later.

Tests that need a GPU are in tests/gpu; here the checks that a GPU makes in its kernels run on the CPU.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from headrace.errors import ActionError, ClosedError, EnvIdError, OptionError, SequenceError

torch = pytest.importorskip("torch")

from torch_pools import N, assert_same, deferred  # noqa: E402

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
def test_wrong_calls_raise_their_error_and_change_no_state(make_torch: Any, error: type[Exception], call: Any) -> None:
    pool = make_torch("CartPole-v1", N, seed=1)
    pool.reset()
    before = pool.save_state()
    with pytest.raises(error):
        call(pool)
    assert pool.save_state() == before


def test_calls_before_a_reset_or_after_close_are_refused(make_torch: Any) -> None:
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


def test_wrong_actions_are_clipped_and_reported_later(make_torch: Any) -> None:
    wrong, right = deferred(make_torch("CartPole-v1", 3, seed=1)), make_torch("CartPole-v1", 3, seed=1)
    for pool in (wrong, right):
        pool.reset()
    given = torch.tensor([0, 1 << 40, -7])
    assert_same(wrong.step(given)[0], right.step(torch.tensor([0, 1, 0]))[0].numpy())
    assert given.tolist() == [0, 1 << 40, -7]
    for call in (wrong.check_errors, wrong.reset, wrong.save_state):
        with pytest.raises(ActionError, match="row 1"):
            call()
        wrong.check_errors()  # it is reported only once
        wrong.step(given)
    with pytest.raises(ActionError):
        wrong.close()


def test_actions_that_are_not_finite_are_replaced_by_zero(make_torch: Any) -> None:
    wrong, right = deferred(make_torch("Pendulum-v1", 3, seed=1)), make_torch("Pendulum-v1", 3, seed=1)
    for pool in (wrong, right):
        pool.reset()
    obs = wrong.step(torch.tensor([[9.0], [torch.nan], [-torch.inf]]))[0]
    assert_same(obs, right.step(torch.tensor([[9.0], [0.0], [0.0]]))[0].numpy())  # 9 is the environment's to clip
    with pytest.raises(ActionError, match="row 1"):
        wrong.check_errors()


@pytest.mark.parametrize(("ids", "match"), [([0, 99], "row 1"), ([-1, 2], "row 0"), ([2, 2], "another row")])
@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_wrong_env_ids_are_reported_later(make_torch: Any, ids: list[int], match: str, dtype: Any) -> None:
    pool = deferred(make_torch("CartPole-v1", N, seed=1))
    pool.reset()
    pool.step(torch.ones(2, dtype=torch.int64), torch.tensor(ids, dtype=dtype))
    with pytest.raises(EnvIdError, match=match):
        pool.check_errors()
    with pytest.raises(EnvIdError, match="integers"):
        pool.step(torch.ones(2, dtype=torch.int64), torch.ones(2))
    pool.reset()


@pytest.mark.parametrize(
    ("task", "given", "wanted"),
    [
        ("Pendulum-v1", torch.float64, torch.float32),
        ("Pendulum-v1", torch.bfloat16, torch.float32),
        ("CartPole-v1", torch.int32, torch.int64),
        ("CartPole-v1", torch.bool, torch.int64),
    ],
)
def test_actions_of_another_dtype_are_converted(make_torch: Any, task: str, given: Any, wanted: Any) -> None:
    """As `Pool.step` converts arrays; what would round, such as a float to a choice, is still an error."""
    pools = [make_torch(task, N, seed=1) for _ in range(3)]
    bound = torch.zeros(N, *pools[0].action_space.shape, dtype=given)
    step = pools[2].bind(bound, pools[2].make_batch())
    for pool in pools:
        pool.reset()
    for value in (0, 1):
        action = torch.full_like(bound, value)
        bound.copy_(action)
        results = [pools[0].step(action.to(wanted))[0], pools[1].step(action)[0], step()[0]]
        assert all(torch.equal(results[0], each) for each in results[1:])
