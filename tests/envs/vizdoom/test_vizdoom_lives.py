"""`episodic_life`, in games that go on after a death: those of several players."""

from __future__ import annotations

import socket
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import headrace

pytest.importorskip("vizdoom")

TASK = "HealthGathering-v1"  # whose floor hurts, so that standing still is deadly after 48 steps of eight tics
SMALL: dict[str, Any] = {"img_height": 24, "img_width": 32, "stack_num": 1, "frame_skip": 8, "num_threads": 1}
NOTHING = np.zeros(1, np.int64)
PLAYER = f"""
import sys
import numpy as np
import headrace

settings = dict({SMALL!r}, use_combined_action=True, num_envs=1, seed=0, episodic_life=True)
with headrace.make({TASK!r}, game_args=sys.argv[1], **settings) as pool:
    pool.reset()
    ends, deaths = [], []
    while len(ends) < 2:
        _, _, terminated, truncated, info = pool.step(np.zeros(1, np.int64))
        assert not truncated.any()
        if terminated[0]:
            ends.append(int(info["elapsed_step"][0]))
            deaths.append(int(info["DEATHCOUNT"][0]))
    for _ in range(40):  # so that the other player's second life can end, too
        pool.step(np.zeros(1, np.int64))
print("ends", min(ends), deaths)
"""


def ends(life: bool, steps: int = 160) -> tuple[list[int], list[float]]:
    """The steps at which episodes terminated in a game that one player hosts, and the deaths counted at each step."""
    settings = SMALL | {"use_combined_action": True, "game_args": "-host 1", "episodic_life": life}
    with headrace.make(TASK, num_envs=1, seed=0, **settings) as pool:
        pool.reset()
        found, deaths = [], []
        for step in range(steps):
            _, _, terminated, truncated, info = pool.step(NOTHING)
            assert not truncated.any()
            found += [step] if terminated[0] else []
            deaths.append(float(info["DEATHCOUNT"][0]))
        return found, deaths


def test_a_death_ends_an_episode_and_the_game_goes_on() -> None:
    found, deaths = ends(life=True)
    assert len(found) == 3, "each episode is a life"
    assert np.ptp(np.diff(found)) <= 4
    assert max(deaths) == 1, "infos are of one episode"


def test_without_episodic_life_a_death_ends_no_episode() -> None:
    found, deaths = ends(life=False, steps=80)
    assert found == [] and deaths[0] == 0 and deaths[-1] == 1


@pytest.mark.nightly
def test_two_players_lose_their_lives_independently() -> None:
    """Two programs with a pool each, in one game: each must step by itself, as the engines wait for one another."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    joined = f"-host 2 -port {port}", f"-join 127.0.0.1 -port {port}"
    programs = [
        subprocess.Popen([sys.executable, "-c", PLAYER, args], stdout=subprocess.PIPE, text=True) for args in joined
    ]
    try:
        told = [program.communicate(timeout=250)[0].splitlines()[-1] for program in programs]
    finally:
        for program in programs:
            program.kill()
            program.wait()
    for words in told:
        name, shortest, *_ = words.split()
        assert name == "ends" and int(shortest) > 20, words
