"""Writers killed at any moment, a hundred times, while others read: rows that are read are whole and in order."""

from __future__ import annotations

import time

import gymnasium as gym
import numpy as np
import pytest
import torch

from headrace.pool.shared import SharedArrays
from headrace.train.processes.weight_buffer import WeightBuffer
from headrace.train.storage.step_replay import StepReplay
from headrace.train.storage.writer import StepWriter
from killing import kill_again_and_again, started

ENVS, SEGMENTS, STEPS = 8, 2, 128
STRIDE = ENVS * SEGMENTS
LIVES = 25  # of each writer; there are four in all, and one of weights
SIZE = 50_000


def raise_steps(replay: StepReplay, index: int) -> None:
    writer = replay.writer(index)
    kill_again_and_again(write_steps, writer, LIVES, lambda: writer.written, seed=index)


def raise_weights(buffer: WeightBuffer) -> None:
    kill_again_and_again(write_weights, buffer, LIVES, lambda: buffer.version, seed=7)


def write_steps(writer: StepWriter, restarts: int) -> None:
    """Fill a segment with numbers of rows, each written in two halves, as fast as possible."""
    writer.begin()
    no, ends = np.zeros(ENVS, bool), np.zeros(ENVS, bool)
    columns = np.arange(ENVS) + writer.index * ENVS
    images = writer.layout.images
    while True:
        numbers, row = columns + writer.written * STRIDE, writer.row
        pattern = (numbers % 251)[:, None, None, None] if images else numbers[:, None]
        middle = row.observation.shape[-1] // 2
        row.observation[..., :middle] = pattern
        row.action[:], row.reward[:] = restarts, numbers
        row.observation[..., middle:] = pattern
        ends[:] = numbers // STRIDE % 7 == 3
        writer.publish(no, ends, restarts)


def check(replay: StepReplay, numbers: torch.Tensor) -> None:
    """Assert that the contents of transitions follow from their numbers."""
    inputs, _, rewards, discounts, following = replay.read(numbers)[:5]
    torch.testing.assert_close(rewards, numbers.float(), rtol=0, atol=0)
    assert discounts.unique().tolist() == [np.float32(0.99)]
    wanted = numbers[:, None], numbers[:, None] + STRIDE
    if not replay.layout.images:
        for seen, number in zip((inputs, following), wanted, strict=True):
            torch.testing.assert_close(seen, number.float().expand_as(seen), rtol=0, atol=0)
        return
    for seen, number in zip((inputs, following), wanted, strict=True):
        assert (seen == seen[:, :, :1, :1]).all()
        frames = seen[:, :, 0, 0].long()
        assert (frames[:, -1:] == number % 251).all()
        back = (frames[:, 1:] - frames[:, :-1]) % 251
        assert ((back == STRIDE) | (back == 0)).all()
        assert (back[:, 0] <= back[:, 1]).all()  # only the first image of an episode is there twice


@pytest.mark.parametrize("images", [False, True])
def test_steps_of_killed_writers_are_whole(images):
    space = gym.spaces.Box(0, 255, (1, 8, 8), np.uint8) if images else gym.spaces.Box(-1, 1, (40,), np.float32)
    stack = 3 if images else 1
    replay = StepReplay(space, gym.spaces.Discrete(LIVES), SEGMENTS, STEPS, ENVS, frame_stack=stack)
    starters = [started(raise_steps, replay, s) for s in range(SEGMENTS)]
    generator, read = torch.Generator().manual_seed(0), 0
    while any(process.is_alive() for process in starters):
        if replay.held < 2 * STRIDE:
            continue
        numbers = replay.draw((4, 64), generator)
        for batch in numbers:
            check(replay, batch)
            read += 1
    for process in starters:
        process.join()
        assert process.exitcode == 0
    assert read > 0 and replay.arrays["written"].min() > STEPS  # in both, rows were overwritten
    # and no transition leads from one writer to the next
    numbers = replay.draw((500,), generator)
    versions = replay.staleness(numbers, 0).versions
    torch.testing.assert_close(versions, replay.staleness(numbers + STRIDE, 0).versions)


def write_weights(buffer: WeightBuffer, restarts: int) -> None:
    vector, extras = torch.zeros(SIZE), torch.zeros(3, dtype=torch.float64)
    while True:
        version = buffer.version + 1
        assert buffer.publish(vector.fill_(version), extras.fill_(version)) == version


def read_weights(buffer: WeightBuffer, result: SharedArrays, index: int) -> None:
    """Count whole and torn reads, until told to stop."""
    torch.set_num_threads(1)
    vector, extras, before = torch.zeros(SIZE), torch.zeros(3, dtype=torch.float64), 0
    while not result["stop"]:
        version = buffer.read(vector, extras)
        if version is not None:
            whole = bool((vector == version).all() and (extras == version).all()) and version > before
            result["whole" if whole else "torn"][index] += 1
            before = version


def test_weights_of_killed_writers_are_whole():
    readers = 2
    buffer = WeightBuffer(SIZE, 3)
    counts = ((readers,), np.dtype(np.int64))
    result = SharedArrays({"whole": counts, "torn": counts, "stop": ((1,), np.dtype(np.bool_))})
    reading = [started(read_weights, buffer, result, i) for i in range(readers)]
    writing = started(raise_weights, buffer)
    writing.join()
    vector = torch.zeros(SIZE)
    last = buffer.read(vector)
    # whoever comes late still reads the last
    while not (result["whole"] > 0).all() and all(process.is_alive() for process in reading):
        time.sleep(0.01)
    result["stop"][0] = True
    for process in reading:
        process.join()
    assert writing.exitcode == 0 and [process.exitcode for process in reading] == [0] * readers
    assert not result["torn"].any()
    assert last is not None and last >= LIVES and (vector == last).all()
