"""Slots of rollouts: each is read once and whole, no writer changes a slot in use, and killed writers leave none."""

from __future__ import annotations

import os
import random
import signal
import time

import gymnasium as gym
import numpy as np
import pytest

from headrace.train.processes.start import worker_context
from headrace.train.storage.rollout_slots import Rollouts, Slot

SPACE = gym.spaces.Box(-1, 1, (3,), np.float32)
STEPS, ENVS = 4, 2


def make(samplers: int = 1, slots: int = 2) -> Rollouts:
    return Rollouts(SPACE, (), np.dtype(np.int64), samplers, slots, STEPS, ENVS)


def write(rollouts: Rollouts, sampler: int, number: int) -> bool:
    slot = rollouts.free(sampler)
    if slot is None:
        return False
    slot.begin(number == 0)
    for array in (slot.observations, slot.actions, slot.log_probs, slot.rewards, slot.versions):
        array[...] = number
    slot.add_final_observations(1, np.array([1]), np.full((1, 3), number))
    slot.add_final_observations(3, np.array([0, 1]), np.full((2, 3), number))
    rollouts.publish(sampler)
    return True


def test_slots_are_read_in_order_and_used_again():
    rollouts = make()
    assert rollouts.next() is None
    for number in range(10):
        assert write(rollouts, 0, 2 * number)
        assert write(rollouts, 0, 2 * number + 1)
        assert not write(rollouts, 0, 99)
        assert rollouts.waiting == 2
        for expected in (2 * number, 2 * number + 1):
            found = rollouts.next()
            assert found is not None
            sampler, slot = found
            assert sampler == 0
            assert (slot.observations == expected).all() and (slot.versions == expected).all()
            assert bool(slot.fresh) == (expected == 0)
            assert slot.places[: int(slot.ended)].tolist() == [1 * ENVS + 1, 3 * ENVS, 3 * ENVS + 1]
            assert (slot.final_observations[: int(slot.ended)] == expected).all()
            rollouts.release(sampler)
    assert rollouts.waiting == 0
    rollouts.close()


def test_samplers_take_turns():
    rollouts = make(samplers=3)
    for sampler in (0, 0, 2, 2, 1):
        assert write(rollouts, sampler, sampler)
    order = []
    while (found := rollouts.next()) is not None:
        order.append(found[0])
        rollouts.release(found[0])
    assert order == [0, 1, 2, 0, 2]


def fill_for_ever(rollouts: Rollouts, sampler: int) -> None:
    """Slots whose every number is the same, written slowly enough to be killed in between."""
    arrays = ("observations", "actions", "log_probs", "rewards", "versions")
    number = 0
    while True:
        slot = rollouts.free(sampler)
        if slot is None:
            time.sleep(1e-4)
            continue
        slot.begin(number == 0)
        number += 1
        for name in arrays:
            array = getattr(slot, name)
            for t in range(len(array)):
                array[t] = 1000 * os.getpid() % 2**20 + number
        rollouts.publish(sampler)


def whole(slot: Slot) -> bool:
    numbers = [
        np.unique(getattr(slot, name)) for name in ("observations", "actions", "log_probs", "rewards", "versions")
    ]
    return all(len(each) == 1 and each[0] == numbers[0][0] for each in numbers)


def test_killed_writers_leave_only_whole_slots():
    rollouts, chance = make(samplers=2, slots=2), random.Random(0)
    context = worker_context()

    def start(sampler: int):
        process = context.Process(target=fill_for_ever, args=(rollouts, sampler), daemon=True)
        process.start()
        return process

    processes = [start(sampler) for sampler in range(2)]
    read = [0, 0]
    try:
        for _ in range(12):
            goal, until = [count + chance.randrange(1, 200) for count in read], time.monotonic() + 60
            while any(count < least for count, least in zip(read, goal, strict=True)):
                assert time.monotonic() < until, "nothing came"
                found = rollouts.next()
                if found is None:
                    continue
                sampler, slot = found
                assert whole(slot)
                rollouts.release(sampler)
                read[sampler] += 1
            victim = chance.randrange(2)
            pid = processes[victim].pid
            assert pid is not None
            os.kill(pid, signal.SIGKILL)
            processes[victim].join()
            processes[victim] = start(victim)
    finally:
        for process in processes:
            process.kill()
            process.join()


def test_slots_beyond_the_shared_memory_are_refused_at_once():
    with pytest.raises(MemoryError, match="shared memory"):
        Rollouts(SPACE, (), np.dtype(np.int64), 1, 1, 1 << 40, 1 << 10)
