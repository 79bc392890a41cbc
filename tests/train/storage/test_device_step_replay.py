"""A replay's copy on a device returns its transitions; here the device is the CPU, in tests/gpu it is a GPU."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
import torch

from headrace.train.storage import device_step_replay as mirror
from headrace.train.storage.device_step_replay import DeviceStepReplay
from headrace.train.storage.prioritised import PrioritisedReplay
from headrace.train.storage.step_replay import StepReplay
from headrace.train.storage.transitions import Transitions

FLOATS = gym.spaces.Box(-np.inf, np.inf, (3,), np.float32)
IMAGES = gym.spaces.Box(0, 255, (1, 5, 4), np.uint8)


def go_on(writer, rows: int, random: np.random.Generator) -> None:
    for _ in range(rows):
        row = writer.row
        row.observation[...] = random.integers(0, 256, row.observation.shape)
        row.action[...], row.reward[...] = random.integers(0, 3, row.action.shape), random.random(row.reward.shape)
        writer.publish(random.random(2) < 0.1, random.random(2) < 0.1)


def assert_same(one, two) -> None:
    for a, b in zip(one[:5], two[:5], strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=0)


@pytest.mark.parametrize(("space", "stack", "n_step"), [(FLOATS, 1, 1), (FLOATS, 1, 3), (IMAGES, 3, 1), (IMAGES, 2, 2)])
def test_a_copy_returns_the_transitions_of_the_replay(space, stack, n_step, monkeypatch):
    monkeypatch.setattr(mirror, "STAGED", 2000)  # bytes: many small copies
    replay = StepReplay(space, gym.spaces.Discrete(3), 2, 64, 2, n_step, frame_stack=stack)
    copy, random = DeviceStepReplay(replay, "cpu"), np.random.default_rng(0)
    segments = [replay.writer(s) for s in range(2)]
    for writer in segments:
        writer.begin()
    for turn, rows in enumerate((20, 30, 1, 0, 13, 40, 200, 5, 50)):
        go_on(segments[0], rows, random)
        go_on(segments[1], max(rows // 2, 9 * (turn == 0)), random)
        numbers = copy.draw((100,), torch.Generator().manual_seed(turn))
        if rows < 64:  # otherwise all that it had is gone, and it begins anew
            assert copy.held == replay.held
            plain = replay.draw((100,), torch.Generator().manual_seed(turn))
            assert torch.equal(numbers, plain)
        assert_same(copy.read(numbers.clone()), replay.read(numbers))
        assert copy.steps == replay.steps


def test_a_late_copy_begins_with_the_rows_of_the_replay():
    replay, random = StepReplay(IMAGES, gym.spaces.Discrete(3), 1, 64, 2, frame_stack=4), np.random.default_rng(1)
    writer = replay.writer(0)
    writer.begin()
    go_on(writer, 150, random)
    copy = DeviceStepReplay(replay, "cpu")
    assert replay.held - 2 * 4 <= copy.held <= replay.held
    numbers = copy.draw((500,), torch.Generator().manual_seed(0))
    read = copy.read(numbers)
    assert_same(replay.read(numbers), read)
    before = [None if column is None else column.clone() for column in read]
    go_on(writer, 60, random)
    again = copy.read(numbers)  # the writer has overwritten some, but the copy is as it was drawn from
    assert_same(Transitions(*before), again)  # type: ignore[arg-type]
    assert replay.lost(numbers) is not None


@pytest.mark.parametrize(("space", "stack"), [(FLOATS, 1), (IMAGES, 4)])
def test_an_overtaken_copy_follows_the_replay_again(space, stack, monkeypatch):
    replay, random = StepReplay(space, gym.spaces.Discrete(3), 1, 70, 2, frame_stack=stack), np.random.default_rng(1)
    writer = replay.writer(0)
    writer.begin()
    go_on(writer, 20, random)
    copy, laps = DeviceStepReplay(replay, "cpu"), [70, 100, 80, 71]
    rows = copy._copy

    def overtaken(*args: int) -> None:
        rows(*args)
        if laps:
            go_on(writer, laps.pop(), random)

    monkeypatch.setattr(copy, "_copy", overtaken)
    numbers = copy.draw((50,), torch.Generator().manual_seed(0))
    assert not laps
    assert_same(copy.read(numbers.clone()), replay.read(numbers))


def test_a_copy_can_be_drawn_from_by_priority():
    replay, random = StepReplay(FLOATS, gym.spaces.Discrete(3), 1, 64, 2), np.random.default_rng(1)
    writer = replay.writer(0)
    writer.begin()
    go_on(writer, 40, random)
    one, two = (PrioritisedReplay(kind, 0.6) for kind in (replay, DeviceStepReplay(replay, "cpu")))
    for turn in range(5):
        numbers, same = (each.draw((30,), torch.Generator().manual_seed(turn)) for each in (one, two))
        assert torch.equal(numbers, same)
        a, b = one.read(numbers), two.read(same)
        assert a.weights is not None and b.weights is not None
        assert_same(a, b)
        torch.testing.assert_close(a.weights, b.weights)
        for each in (one, two):
            each.update(numbers, a.rewards)
        go_on(writer, 10, random)
