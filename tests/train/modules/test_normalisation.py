"""Running statistics equal those of all data at once, and survive a checkpoint exactly."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from headrace.train.modules.normalisation import ObservationNormaliser, RewardScaler, RunningStatistics, ValueNormaliser


def test_statistics_of_batches_equal_those_of_all_rows():
    data = torch.randn(1000, 3, generator=torch.Generator().manual_seed(0)) * torch.tensor([1.0, 10.0, 0.1]) + 100
    running = RunningStatistics((3,))
    for part in data.split([1, 9, 400, 590]):
        running.update(part)
    torch.testing.assert_close(running.mean, data.double().mean(0), rtol=1e-12, atol=0)
    torch.testing.assert_close(running.variance, data.double().var(0, correction=0), rtol=1e-9, atol=0)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("before", [0, 50])
def test_a_batch_without_agents_changes_nothing(weighted: bool, before: int):
    """All agents of a policy may be out of the game for a whole rollout, the first included."""
    normaliser = ObservationNormaliser(3)
    if before:
        normaliser.update(torch.randn(before, 3))
    known = {name: tensor.clone() for name, tensor in normaliser.tensors().items()}
    rows = torch.full((7, 3), 9.0) if weighted else torch.empty(0, 3)
    normaliser.update(rows, torch.zeros(7) if weighted else None)
    for name, tensor in normaliser.tensors().items():
        torch.testing.assert_close(tensor, known[name], rtol=0, atol=1e-6, msg=name)
    data = torch.randn(40, 3)
    normaliser.update(data)
    if not before:
        torch.testing.assert_close(normaliser.statistics.mean, data.double().mean(0))


def test_observations_are_scaled_and_clipped():
    normaliser = ObservationNormaliser(2)
    data = torch.randn(5000, 2) * torch.tensor([3.0, 0.01]) + torch.tensor([5.0, -1.0])
    normaliser.update(data)
    scaled = normaliser(data, torch.empty_like(data))
    torch.testing.assert_close(scaled.mean(0), torch.zeros(2), atol=1e-3, rtol=0)
    torch.testing.assert_close(scaled.std(0), torch.ones(2), atol=1e-2, rtol=0)
    far = torch.tensor([[1e6, -1e6]])
    assert normaliser(far, torch.empty_like(far)).tolist() == [[10.0, -10.0]]


def test_a_restored_normaliser_is_bitwise_the_same():
    one, two = ObservationNormaliser(3), ObservationNormaliser(3)
    one.update(torch.randn(100, 3))
    two.load({name: tensor.clone() for name, tensor in one.state().items()})
    more = torch.randn(50, 3)
    one.update(more)
    two.update(more)
    x = torch.randn(4, 3)
    assert torch.equal(one(x, torch.empty_like(x)), two(x, torch.empty_like(x)))


def test_a_column_that_is_nearly_always_0_is_not_blown_up():
    rare = torch.zeros(10_000, 2)
    rare[::1000] = 0.5
    scales = []
    for floor in (0.0, 0.1):
        normaliser = ObservationNormaliser(2, floor=floor)
        normaliser.update(rare)
        scales.append(normaliser(torch.full((1, 2), 0.5), torch.empty(1, 2)))
    assert scales[0][0, 0] == 10 and scales[1][0, 0] == pytest.approx(5, abs=0.01)


def test_values_are_normalised_and_brought_back():
    normaliser, returns = ValueNormaliser(), torch.randn(500) * 40 + 300
    torch.testing.assert_close(normaliser.restored(returns), returns)
    normaliser.update(returns)
    wanted = normaliser.normalised(returns)
    assert abs(wanted.mean()) < 1e-3 and abs(wanted.std() - 1) < 1e-2
    torch.testing.assert_close(normaliser.restored(wanted), returns)
    other = ValueNormaliser()
    other.unpack(normaliser.pack())
    assert torch.equal(other.normalised(returns), wanted)


def test_rewards_are_divided_by_the_deviation_of_the_discounted_return():
    rng = np.random.default_rng(0)
    rewards, done = rng.normal(2, 1, (6, 4)).astype(np.float32), rng.random((6, 4)) < 0.3
    returns, running = [], np.zeros(4)
    for t in range(6):
        running = running + rewards[t]
        returns.append(running)
        running = np.where(done[t], 0.0, 0.9 * running)
    expected = np.clip(rewards / np.sqrt(np.var(returns) + 1e-8), -10, 10)
    scaler = RewardScaler(4, 0.9)
    np.testing.assert_allclose(scaler(torch.from_numpy(rewards), torch.from_numpy(done)).numpy(), expected, rtol=1e-5)
    np.testing.assert_allclose(scaler.running.numpy(), running, rtol=1e-5)


def test_a_sum_of_rewards_is_clipped_to_the_sum_of_their_bounds():
    """Their sum is no longer that of one reward: only what exceeds the bound of all of them is cut."""
    scaler = RewardScaler(1, 0.9)  # which has seen nothing yet, and divides by 1
    rewards = torch.tensor([-40.0, -25.0, 9.0, 12.0, 35.0])
    torch.testing.assert_close(scaler.scaled(rewards, 3), torch.tensor([-30.0, -25.0, 9.0, 12.0, 30.0]))
    torch.testing.assert_close(scaler.scaled(rewards), torch.tensor([-10.0, -10.0, 9.0, 10.0, 10.0]))
