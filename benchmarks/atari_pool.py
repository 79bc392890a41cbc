"""Pong and Breakout through a pool, beside EnvPool, ale-py's vector environment and the bare emulator.

Equal settings for all: 84x84 grey frames resized over pixel areas, 4 stacked, frame
skip 4 with the maximum of the last two, no sticky actions, up to 30 no-ops after a
reset, no FIRE after a reset, whole games (not lives), rewards clipped, next-step
autoreset, two threads, and random actions that change with every step.

The bare emulator is the limit: as many threads, each with an emulator of its own,
doing nothing but `frame_skip` emulated frames a step and a reset at each game's end.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import envpool
import numpy as np
import tyro
from ale_py import roms
from ale_py.vector_env import AtariVectorEnv
from headrace_atari import _atari

import headrace
from common import Args, Comparison, Contender, measure, random_actions, stepping

ACTION_SETS = 32
FRAME_SKIP = 4
WANTED = {"envpool": 1.4, "ale-py vector": 1.25, "bare emulator": 0.93}
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
    num_threads: int = 2
    """threads of every contender"""
    sync_envs: int = 16
    """environments of a synchronous pool"""
    async_envs: int = 32
    """environments of an asynchronous pool"""
    async_batch: int = 16
    """rows that an asynchronous pool receives at a time"""


def exchange(pool: Any) -> Callable[[np.ndarray], None]:
    """One asynchronous step as a function of the next actions: receive, then send to whoever came."""

    def step(action: np.ndarray) -> None:
        pool.send(action, pool.recv()[4]["env_id"])

    return step


def pool_steps(pool: Any, num_envs: int, batch: int) -> Contender:
    """A pool of ours or EnvPool's, started; synchronous when batch == num_envs."""
    actions = random_actions(pool.action_space, batch, ACTION_SETS)
    if batch < num_envs:
        pool.async_reset()
        return stepping(exchange(pool), actions, batch)
    pool.reset()
    return stepping(pool.step, actions, batch)


def ale_vector(game: str, num_envs: int, batch: int, threads: int) -> Contender:
    """ale-py's AtariVectorEnv; its step is send and recv, so the same call serves both modes."""
    env: Any = AtariVectorEnv(
        game.lower(), num_envs, batch_size=batch, num_threads=threads, stack_num=4, frameskip=FRAME_SKIP,
        noop_max=30, use_fire_reset=False, episodic_life=False, repeat_action_probability=0.0,
        reward_clipping=True, maxpool=True, grayscale=True, img_height=84, img_width=84,
    )  # fmt: skip
    env.reset(seed=0)
    return stepping(env.step, random_actions(env.single_action_space, batch, ACTION_SETS, np.int32), batch)


def bare_emulator(game: str, threads: int) -> Contender:
    """Emulators alone on as many threads; the emulator is the one that our pool uses."""
    rom = str(roms.get_rom_path(game.lower()))

    def run(seconds: float) -> float:
        steps, elapsed = _atari.bare_emulator(rom, num_threads=threads, seconds=seconds, frame_skip=FRAME_SKIP)
        return steps / elapsed

    return run


def comparisons(args: AtariArgs) -> Iterator[Comparison]:
    """One for each game, synchronous and asynchronous."""
    for game, (num_envs, batch) in itertools.product(
        args.games, ((args.sync_envs, args.sync_envs), (args.async_envs, args.async_batch))
    ):
        sizes: dict[str, Any] = {"num_envs": num_envs, "batch_size": batch, "num_threads": args.num_threads, "seed": 0}
        ours = headrace.make(f"{game}-v5", **sizes, reward_clip=True, **SHARED)
        own = {"use_inter_area_resize": True, "gray_scale": True}
        peer = envpool.make_gymnasium(f"{game}-v5", **sizes, reward_clip=True, **own, **SHARED)
        yield Comparison(
            f"{game}-v5 " + (f"sync N={num_envs}" if batch == num_envs else f"async {num_envs}/{batch}"),
            pool_steps(ours, num_envs, batch),
            {
                "envpool": pool_steps(peer, num_envs, batch),
                "ale-py vector": ale_vector(game, num_envs, batch, args.num_threads),
            },
            {"bare emulator": bare_emulator(game, args.num_threads)},
            WANTED,
            frame_skip=FRAME_SKIP,
        )


if __name__ == "__main__":
    chosen = tyro.cli(AtariArgs)
    title = "Atari, 84x84x4 grey, frame skip 4, random actions"
    measure("atari_pool", title, comparisons(chosen), chosen, reward_clip=True, **SHARED)
