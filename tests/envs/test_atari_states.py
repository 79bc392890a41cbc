"""Saved states of games in which bytes were changed by someone who knows how they are sealed."""

from __future__ import annotations

import subprocess
import sys

import pytest

from nightly import rest_nightly

pytest.importorskip("ale_py")
pytest.importorskip("headrace_atari._atari")

# loads states with changed bytes, and plays on; says how many were taken and how many refused
FUZZ = """
import random, sys
import numpy as np
import headrace
from headrace.errors import StateError
from headrace.pool.state import HEADER, seal

def sealed(payload, key):
    "As the engine and the pool seal it."
    body, mask = bytes(payload[:-8]), 2**64 - 1
    total = len(body)
    for i in range(0, len(body), 8):
        total = (total ^ int.from_bytes(body[i : i + 8], "little")) * 0x9E3779B97F4A7C15 & mask
        total ^= total >> 32
    return seal(body + total.to_bytes(8, "little"), key, False)

def play(pool, steps):
    return [[a.copy() for a in pool.step(np.full(2, t % 2))[:4]] for t in range(steps)]

task, rounds = sys.argv[1], int(sys.argv[2])
options = {"num_envs": 2, "num_threads": 1, "repeat_action_probability": 0.25}
pool, twin = (headrace.make(task, seed=4, **options) for _ in "ab")
for p in (pool, twin):
    p.reset()
    play(p, 30)
blobs = pool.save_state()
payload = blobs[0][HEADER.size :]
assert sealed(payload, pool._key) == blobs[0]
console = payload.index(b"System")  # from here on lies what the emulator reads, and behind its pictures what we do
rng = random.Random(0)
taken = refused = 0
for i in range(rounds):
    changed = bytearray(payload)
    for _ in range(rng.choice([1, 1, 1, 5])):
        where = rng.choice([rng.randrange(len(changed)), rng.randrange(console + 8600), -9 - rng.randrange(120)])
        changed[where] = rng.choice([changed[where] ^ 1 << rng.randrange(8), rng.randrange(256), 255, 128])
    if i % 10 == 0:
        at = rng.randrange(len(changed))
        del changed[at : at + rng.randrange(1, 9)]
    before = pool.save_state()
    try:
        pool.load_state([1, 0], [blobs[1], sealed(changed, pool._key)])
    except StateError as error:
        assert "environment 0" in str(error), error
        assert pool.save_state() == before
        refused += 1
    else:
        taken += 1
        try:
            play(pool, 3)
        except headrace.errors.EnvironmentFailure:
            pool.reset()
for p in (pool, twin):
    p.load_state(None, blobs)
for ours, theirs in zip(play(pool, 20), play(twin, 20)):
    for a, b in zip(ours, theirs):
        assert np.array_equal(a, b)
assert taken > rounds / 10 and refused > rounds / 10, (taken, refused)
"""


# cartridges of every kind; TicTacToe3d cuts frames short
TASKS = [f"{game}-v5" for game in "Pong Asteroids MontezumaRevenge Pitfall2 TicTacToe3d Klax ElevatorAction".split()]


@pytest.mark.parametrize(
    "task",
    rest_nightly(TASKS, "Pong-v5", "Pitfall2-v5", "TicTacToe3d-v5"),
)
def test_changed_states_are_refused_or_played(task: str) -> None:
    command = [sys.executable, "-c", FUZZ, task, "150"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
