"""Rows and rollouts that travel arrive as if they had been written where they are read."""

from __future__ import annotations

import threading
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch

from headrace.pool.shared import Fence
from headrace.train.storage.blocks import append_rows, put_rollout, ring_of, take_rollout, take_rows
from headrace.train.storage.rollout_slots import Rollouts
from headrace.train.storage.step_replay import StepReplay
from headrace.train.storage.writer import StepWriter

FLOATS = gym.spaces.Box(-np.inf, np.inf, (3,), np.float32)
IMAGES = gym.spaces.Box(0, 255, (1, 4, 4), np.uint8)
TORQUES = gym.spaces.Box(-1, 1, (2,), np.float32)
ENVS = 2


def write(writer: StepWriter, seen: np.ndarray, ends: np.ndarray, version: int) -> None:
    """Publish a row; the observations after it are in the next row before that is published, as samplers do it."""
    row = writer.row
    row.action[:], row.reward[:] = version / 7, version
    writer.following.observation[:] = seen
    writer.publish(ends, np.roll(ends, 1) & ends, version)


def lives(space: gym.Space, count: int, rows: int, seed: int) -> list[list[tuple[Any, Any]]]:
    """What successive writers see: of each its first observations, and after every row observations and ends."""
    random = np.random.default_rng(seed)
    shape = (ENVS, *(space.shape or ()))
    return [[(random.integers(0, 200, shape), random.random(ENVS) < 0.2) for _ in range(rows)] for _ in range(count)]


@pytest.mark.parametrize(("space", "stack"), [(FLOATS, 1), (IMAGES, 3)])
def test_sent_rows_equal_rows_written_in_place(space, stack):
    here, there = (StepReplay(space, TORQUES, 2, 64, ENVS, frame_stack=stack) for _ in range(2))
    layout, fence, random = here.layout, Fence(), np.random.default_rng(1)
    for life in lives(space, 4, 70, seed=2):
        direct = here.writer(1)
        ring = ring_of(layout.__class__(space, TORQUES, 1, 32, ENVS, stack))
        remote, sent = StepWriter(layout.__class__(space, TORQUES, 1, 32, ENVS, stack), ring, 0), 0
        for writer in (direct, remote):
            writer.row.observation[:] = life[0][0]
            writer.begin()
        for version, (seen, ends) in enumerate(life):
            write(direct, seen, ends, version)
            write(remote, seen, ends, version)
            if random.random() < 0.2 or remote.written - sent == 16:
                append_rows(layout, there.arrays, 1, take_rows(ring, sent, remote.written), fence)
                sent = remote.written
        append_rows(layout, there.arrays, 1, take_rows(ring, sent, remote.written), fence)
    assert (there.arrays["written"] == here.arrays["written"]).all()
    whole = here.whole_rows()[1]
    assert there.whole_rows()[1] == whole
    places = np.arange(whole, int(here.arrays["written"][1])) % layout.steps
    for name in ("record", "flags", "version", "gaps", *(("frame", "age") if stack > 1 else ())):
        assert (here.arrays[name][places, 1] == there.arrays[name][places, 1]).all(), name
    assert here.held == there.held and here.steps == there.steps
    drawn = [replay.draw((500,), torch.Generator().manual_seed(3)) for replay in (here, there)]
    assert drawn[0].equal(drawn[1])
    for one, two in zip(here.read(drawn[0]), there.read(drawn[1]), strict=True):
        assert (one is None and two is None) or (one is not None and two is not None and torch.equal(one, two))


def test_a_reader_never_sees_half_replaced_rows():
    """Every number of a row is its version: a transition of two versions was torn."""
    replay = StepReplay(FLOATS, TORQUES, 1, 128, ENVS)
    layout, fence, stop = replay.layout, Fence(), threading.Event()

    def bring() -> None:
        ring = ring_of(layout)
        writer, sent, version = StepWriter(layout, ring, 0), 0, 0
        writer.row.observation[:] = 0
        writer.begin()
        while not stop.is_set():
            for _ in range(40):
                version += 1
                writer.row.action[:], writer.row.reward[:] = version - 1, version - 1
                writer.following.observation[:] = version
                writer.publish(np.zeros(ENVS, bool), np.zeros(ENVS, bool), version - 1)
            append_rows(layout, replay.arrays, 0, take_rows(ring, sent, writer.written), fence)
            sent = writer.written

    thread = threading.Thread(target=bring)
    thread.start()
    try:
        generator, read = torch.Generator().manual_seed(0), 0
        while read < 2000:
            if not replay.held:
                continue
            inputs, actions, rewards, _, following, *_ = replay.read(replay.draw((64,), generator))
            assert (inputs[:, 0] == rewards).all() and (actions[:, 0] == rewards).all()
            assert (following[:, 2] == rewards + 1).all()
            read += 1
    finally:
        stop.set()
        thread.join()


def test_a_sent_rollout_equals_the_original():
    source, target = (Rollouts(FLOATS, (2,), np.dtype(np.float32), 1, 1, 4, ENVS) for _ in range(2))
    slot, into = source.free(0), target.free(0)
    assert slot is not None and into is not None
    into.final_observations[...], into.places[...] = -1, -1
    random = np.random.default_rng(0)
    slot.begin(True)
    for array in (slot.observations, slot.actions, slot.log_probs, slot.rewards):
        array[...] = random.random(array.shape)
    slot.add_final_observations(2, np.array([1]), np.full((1, 3), 7.0))
    put_rollout(into, take_rollout(slot))
    for name, array in vars(slot).items():
        counts = slice(1) if name in ("final_observations", "places") else ...
        assert (getattr(into, name)[counts] == array[counts]).all(), name
    assert (into.final_observations[1:] == -1).all()  # of what does not count, nothing travels
