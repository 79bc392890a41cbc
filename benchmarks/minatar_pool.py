"""MinAtar's five games at 1,024 environments, beside the package's own Python environments.

Random actions, precomputed, of the minimal action set; sticky actions and difficulty ramping as the
package has them by default. Every step produces its observation. The package has no batched
form, so it plays one environment in a loop: in this process, and in two processes at once.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
import tyro

import headrace
from common import Args, Comparison, Contender, measure, random_steps, stepping

GAMES = {
    "Asterix": "asterix",
    "Breakout": "breakout",
    "Freeway": "freeway",
    "Seaquest": "seaquest",
    "SpaceInvaders": "space_invaders",
}
LEAST = 15.0  # of the package's rate with two processes, on two cores
ACTION_SETS = 64
PROCESSES = 2


@dataclass
class MinAtarArgs(Args):
    """MinAtar's games beside the package's."""

    num_threads: int = 2
    """threads of the pool"""
    num_envs: int = 1024
    """environments of the pool"""


def package_loop(game: str, seed: int) -> Contender:
    """A contender that plays one of the package's environments, and looks at the screen after every step."""
    import minatar

    env = minatar.Environment(game)
    env.seed(seed)
    env.reset()
    actions = np.random.default_rng(seed).choice(env.minimal_action_set(), 4096).tolist()

    def act(action: int) -> Any:
        over = env.act(action)[1]
        if over:
            env.reset()
        return env.state()

    return stepping(act, actions, 1)


def serve(game: str, seed: int, pipe: Connection) -> None:
    """In a process of its own: take turns of so many seconds until told to end."""
    run = package_loop(game, seed)
    pipe.send(None)
    while (seconds := pipe.recv()) is not None:
        pipe.send(run(seconds))


class Workers:
    """The package's loop in several processes at once; called with the seconds, answers the sum of their rates."""

    def __init__(self, game: str):
        context = multiprocessing.get_context("spawn")
        self.pipes, self.processes = [], []
        for seed in range(PROCESSES):
            ours, theirs = context.Pipe()
            process = context.Process(target=serve, args=(game, seed, theirs), daemon=True)
            process.start()
            self.pipes.append(ours)
            self.processes.append(process)
        for pipe in self.pipes:
            pipe.recv()

    def __call__(self, seconds: float) -> float:
        for pipe in self.pipes:
            pipe.send(seconds)
        return sum(pipe.recv() for pipe in self.pipes)

    def close(self) -> None:
        for pipe in self.pipes:
            pipe.send(None)
        for process in self.processes:
            process.join()


def ours(game: str, n: int, threads: int) -> Contender:
    """A pool of n environments that restart in the step in which they end, as the package's loop does."""
    options = {"num_threads": threads, "seed": 0, "autoreset": "same_step"}
    return random_steps(headrace.make(f"MinAtar-{game}-v1", num_envs=n, **options), n, ACTION_SETS)


def comparisons(args: MinAtarArgs) -> Iterator[Comparison]:
    """One for each game."""
    both = f"minatar, {PROCESSES} processes"
    for game, module in GAMES.items():
        workers = Workers(module)
        peers = {
            "headrace, one thread": ours(game, args.num_envs, 1),
            "minatar": package_loop(module, 0),
            both: workers,
        }
        mine = ours(game, args.num_envs, args.num_threads)
        yield Comparison(f"MinAtar-{game}-v1 N={args.num_envs}", mine, peers, wanted={both: LEAST})
        workers.close()


if __name__ == "__main__":
    chosen = tyro.cli(MinAtarArgs)
    measure("minatar_pool", "MinAtar", comparisons(chosen), chosen)
