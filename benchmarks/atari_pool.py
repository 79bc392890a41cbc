"""Pong and Breakout through a pool, beside EnvPool, ale-py's vector environment and the bare emulator.

Equal settings for all: 84x84 grey frames resized over pixel areas, 4 stacked, frame
skip 4 with the maximum of the last two, no sticky actions, up to 30 no-ops after a
reset, no FIRE after a reset, whole games (not lives), rewards clipped, next-step
autoreset, two threads, and random actions that change with every step.

The bare emulator is the limit: as many threads, each with an emulator of its own,
doing nothing but `frame_skip` emulated frames a step and a reset at each game's end.
`--all-games` goes through the 57 of ``atari_emulator.py``, synchronously. Their geometric means are printed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from statistics import geometric_mean
from typing import Any

import envpool
import numpy as np
import tyro
from ale_py import roms
from ale_py.vector_env import AtariVectorEnv
from headrace_atari import _atari

import headrace
from atari_emulator import GAMES
from common import OURS, Args, Comparison, Contender, exchange, measure, random_actions, stepping

ACTION_SETS = 32
FRAME_SKIP = 4
AT_LEAST = {"envpool": 2.6, "ale-py vector": 2.3, "bare emulator": 0.92}
BESIDE_ENVPOOL = {"Pong": 2.7, "Breakout": 3.3}
"""games whose ratio to EnvPool is to be higher than that of all games' mean"""
SHARED = {
    "stack_num": 4, "frame_skip": FRAME_SKIP, "noop_max": 30, "img_height": 84, "img_width": 84,
    "use_fire_reset": False, "episodic_life": False, "repeat_action_probability": 0.0,
}  # fmt: skip
"""options whose names and meanings Headrace and EnvPool share"""


@dataclass
class AtariArgs(Args):
    """Pong and Breakout beside EnvPool, ale-py's vector environment and the bare emulator."""

    games: tuple[str, ...] = ("Pong", "Breakout")
    """games, by the names of their tasks without version"""
    all_games: bool = False
    """all 57, synchronous pools alone"""
    num_threads: int = 2
    """threads of every contender"""
    sync_envs: int = 16
    """environments of a synchronous pool"""
    async_envs: int = 32
    """environments of an asynchronous pool"""
    async_batch: int = 16
    """rows that an asynchronous pool receives at a time"""


def emulators_name(game: str) -> str:
    """``bank_heist`` for ``BankHeist``."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", game).lower().replace("up_ndown", "up_n_down")


def task_name(game: str) -> str:
    """``BankHeist`` for ``bank_heist``."""
    return "".join(word.capitalize() for word in game.split("_"))


def contenders(game: str, num_envs: int, batch: int, threads: int) -> dict[str, Contender]:
    """Pools of one game, started, by name; synchronous when batch == num_envs."""
    sizes = {"num_envs": num_envs, "batch_size": batch, "num_threads": threads}
    ours = headrace.make(f"{game}-v5", **sizes, seed=0, reward_clip=True, **SHARED)
    peer = envpool.make_gymnasium(
        f"{game}-v5", **sizes, seed=0, reward_clip=True, use_inter_area_resize=True, gray_scale=True, **SHARED
    )
    runs = {}
    for name, pool in (("headrace", ours), ("envpool", peer)):
        actions = random_actions(pool.action_space, batch, ACTION_SETS)
        if batch < num_envs:
            pool.async_reset()
            runs[name] = stepping(exchange(pool), actions, batch)
        else:
            pool.reset()
            runs[name] = stepping(pool.step, actions, batch)
    runs["ale-py vector"] = ale_vector(game, num_envs, batch, threads)
    runs["bare emulator"] = bare_emulator(game, threads)
    return runs


def ale_vector(game: str, num_envs: int, batch: int, threads: int) -> Contender:
    """ale-py's AtariVectorEnv; its step is send and recv, so the same call serves both modes."""
    env: Any = AtariVectorEnv(
        emulators_name(game), num_envs, batch_size=batch, num_threads=threads, stack_num=4, frameskip=FRAME_SKIP,
        noop_max=30, use_fire_reset=False, episodic_life=False, repeat_action_probability=0.0,
        reward_clipping=True, maxpool=True, grayscale=True, img_height=84, img_width=84,
    )  # fmt: skip
    env.reset(seed=0)
    return stepping(env.step, random_actions(env.single_action_space, batch, ACTION_SETS, np.int32), batch)


def bare_emulator(game: str, threads: int) -> Contender:
    """Emulators alone on as many threads; the emulator is the one that our pool uses."""
    rom = str(roms.get_rom_path(emulators_name(game)))

    def run(seconds: float) -> float:
        steps, elapsed = _atari.bare_emulator(rom, num_threads=threads, seconds=seconds, frame_skip=FRAME_SKIP)
        return steps / elapsed

    return run


def comparisons(games: tuple[str, ...], args: AtariArgs) -> Iterator[Comparison]:
    """Of each game a synchronous pool and, unless all are asked for, an asynchronous one."""
    modes = {"sync": (args.sync_envs, args.sync_envs), "async": (args.async_envs, args.async_batch)}
    for game in games:
        for mode, (num_envs, batch) in modes.items():
            if mode == "async" and args.all_games:
                continue
            name = f"{game}-v5 {mode} " + (f"N={num_envs}" if mode == "sync" else f"{num_envs}/{batch}")
            peers = contenders(game, num_envs, batch, args.num_threads)
            wanted = AT_LEAST | {"envpool": BESIDE_ENVPOOL.get(game, AT_LEAST["envpool"])}
            yield Comparison(name, peers.pop(OURS), peers, wanted=wanted, frame_skip=FRAME_SKIP)


def with_means(cases: Iterable[Comparison], extra: dict[str, Any]) -> Iterator[Comparison]:
    """The same comparisons; in the end ``extra`` has the geometric means of their ratios as its note."""
    ratios: dict[str, list[float]] = {}
    for case in cases:
        yield case
        for peer, ratio in case.record()["ratio"].items():
            ratios.setdefault(peer, []).append(ratio)
    count = max(map(len, ratios.values()))
    means = ", ".join(f"{geometric_mean(each):.2f} x {peer}" for peer, each in ratios.items())
    extra["note"] = f"Geometric means of {count} cases: {means}."


if __name__ == "__main__":
    chosen = tyro.cli(AtariArgs)
    name, games = ("atari_games", tuple(map(task_name, GAMES))) if chosen.all_games else ("atari_pool", chosen.games)
    title = "Atari"
    extra: dict[str, Any] = {}
    cases = with_means(comparisons(games, chosen), extra)
    measure(name, title, cases, chosen, extra, **SHARED, reward_clip=True)
    print(extra["note"])
