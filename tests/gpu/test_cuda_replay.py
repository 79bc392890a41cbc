"""A replay of steps and its copy on a GPU have the same transitions, and no call waits for the device."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest

torch = pytest.importorskip("torch")

from headrace.train.storage.device_step_replay import DeviceStepReplay  # noqa: E402  (they need torch)
from headrace.train.storage.prioritised import PrioritisedReplay  # noqa: E402
from headrace.train.storage.step_replay import StepReplay  # noqa: E402

CUDA = "cuda:0"
SPACES = {
    "floats": (gym.spaces.Box(-np.inf, np.inf, (17,), np.float32), 1),
    "images": (gym.spaces.Box(0, 255, (1, 42, 42), np.uint8), 4),
}


def go_on(writer, rows: int, random: np.random.Generator) -> None:
    for _ in range(rows):
        row = writer.row
        row.observation[...] = random.integers(0, 256, row.observation.shape)
        row.action[...], row.reward[...] = random.integers(0, 3, row.action.shape), random.random(row.reward.shape)
        writer.publish(random.random(8) < 0.05, random.random(8) < 0.05)


@pytest.mark.parametrize("n_step", [1, 3])
@pytest.mark.parametrize("kind", SPACES)
def test_transitions_read_on_a_gpu_equal_those_read_on_a_cpu(kind, n_step):
    space, stack = SPACES[kind]
    replay = StepReplay(space, gym.spaces.Discrete(3), 2, 256, 8, n_step, frame_stack=stack)
    copy, random = DeviceStepReplay(replay, CUDA), np.random.default_rng(0)
    segments = [replay.writer(s) for s in range(2)]
    for writer in segments:
        writer.begin()
    for turn, rows in enumerate((40, 7, 200, 100, 1, 255)):
        for writer in segments:
            go_on(writer, rows, random)
        numbers = copy.draw((3, 128), torch.Generator().manual_seed(turn))
        for batch in numbers:
            for here, there in zip(replay.read(batch.clone())[:5], copy.read(batch)[:5], strict=True):
                assert there.is_cuda
                torch.testing.assert_close(there.cpu(), here, rtol=0, atol=1e-6)


def test_priorities_follow_errors_on_a_gpu():
    space, _ = SPACES["floats"]
    replay, random = StepReplay(space, gym.spaces.Discrete(3), 1, 64, 8), np.random.default_rng(0)
    writer = replay.writer(0)
    writer.begin()
    go_on(writer, 50, random)
    prioritised = PrioritisedReplay(DeviceStepReplay(replay, CUDA), 1.0)
    numbers = prioritised.draw((4000,), torch.Generator().manual_seed(0)).unique()
    errors = torch.zeros(len(numbers), device=CUDA)
    errors[7] = 1e6
    for _ in range(2):  # errors of one call count from the next
        prioritised.update(numbers, errors)
    drawn = prioritised.draw((100,), torch.Generator().manual_seed(1))
    assert (drawn == numbers[7]).all()
    weights = prioritised.read(drawn).weights
    assert weights is not None and weights.is_cuda and (weights == 1).all()


def test_writing_and_reading_a_replay_never_wait_for_the_gpu():
    space, stack = SPACES["images"]
    replay, random = StepReplay(space, gym.spaces.Discrete(3), 1, 256, 8, frame_stack=stack), np.random.default_rng(0)
    writer = replay.writer(0)
    writer.begin()
    go_on(writer, 100, random)
    copy = DeviceStepReplay(replay, CUDA)
    generator = torch.Generator().manual_seed(0)
    copy.read(copy.draw((128,), generator))
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        for _ in range(5):
            go_on(writer, 3, random)
            copy.read(copy.draw((128,), generator))
    finally:
        torch.cuda.set_sync_debug_mode("default")
