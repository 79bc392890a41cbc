"""Episode statistics, against counting step by step."""

from __future__ import annotations

from collections import deque

import numpy as np
import pytest
import torch

from headrace.train.logging.episode_tracker import EpisodeTracker, pooled


@pytest.mark.parametrize("often", [0.0, 0.02, 0.3, 1.0])
@pytest.mark.parametrize("window", [4, 1000])
def test_episodes_are_counted_across_rollouts_as_step_by_step(often, window):
    rng = np.random.default_rng(0)
    tracker = EpisodeTracker(3, window)
    earned, length, count = np.zeros(3), np.zeros(3, int), 0
    returns: deque[float] = deque(maxlen=window)
    lengths: deque[int] = deque(maxlen=window)
    assert tracker.mean_return() is None and tracker.mean_length() is None
    for _ in range(6):
        rewards, ends = rng.normal(size=(8, 3)).astype(np.float32), rng.random((8, 3)) < often
        tracker.update(torch.from_numpy(rewards), torch.from_numpy(ends))
        for t in range(8):
            earned += rewards[t]
            length += 1
            for i in np.flatnonzero(ends[t]):
                returns.append(earned[i])
                lengths.append(int(length[i]))
                earned[i], length[i] = 0, 0
                count += 1
        ours = tracker.last()
        np.testing.assert_allclose(ours[0], list(returns), atol=1e-5)
        assert ours[1] == list(lengths)
        assert tracker.episodes == count and tracker.full == (count >= window)
        if count:
            assert tracker.mean_return() == pytest.approx(np.mean(returns), abs=1e-5)
            assert tracker.mean_length() == pytest.approx(np.mean(lengths))


def test_tracker_state_round_trip():
    generator = torch.Generator().manual_seed(0)

    def rollout() -> tuple[torch.Tensor, torch.Tensor]:
        return torch.randn(8, 3, generator=generator), torch.rand(8, 3, generator=generator) < 0.3

    one, two = EpisodeTracker(3, 5), EpisodeTracker(3, 5)
    one.update(*rollout())
    two.load({name: tensor.clone() for name, tensor in one.state().items()})
    more = rollout()
    one.update(*more)
    two.update(*more)
    assert one.last() == two.last() and one.mean_return() == two.mean_return()


def test_rollouts_may_be_on_another_device_than_the_tracker():
    """Environments on the host, policies on a GPU: the meta device, too, mixes with no other."""
    tracker = EpisodeTracker(3, 5, "meta")
    tracker.update(torch.zeros(8, 3), torch.zeros(8, 3, dtype=torch.bool))
    assert tracker.state()["measured"].device.type == "meta"


def test_forgotten_episodes_leave_the_means_once_another_has_ended() -> None:
    tracker, other = EpisodeTracker(1, 3), EpisodeTracker(1, 3)
    for value in (5.0, 6.0, 7.0, 8.0):
        tracker.add(torch.tensor([value]), torch.tensor([10]))
    tracker.forget_episodes()
    assert (tracker.mean_return(), tracker.counted, tracker.full) == (7.0, 0, False)
    tracker.add(torch.tensor([1.0, 2.0]), torch.tensor([3, 4]))
    other.load(tracker.state())
    for each in (tracker, other):
        assert (each.mean_return(), each.mean_length()) == (1.5, 3.5)
        assert (each.episodes, each.counted, each.full) == (6, 2, False)
        each.add(torch.tensor([6.0, 1.0]), torch.tensor([3, 3]))
        assert (each.mean_return(), each.full) == (3.0, True)
    whole = pooled([tracker.state(), {name: value for name, value in other.state().items() if name != "forgotten"}], 6)
    assert int(whole["count"]) == 16 and int(whole["forgotten"]) == 4
