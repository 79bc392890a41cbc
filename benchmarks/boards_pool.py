"""Games for two players at 1,024 environments, beside EnvPool and, where it is installed, pgx compiled by XLA.

Columns or cells at random, of which some are not allowed and end a game. All play one game after another, and answer
with both players' observations and what is allowed; pgx with those of the player whose turn it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import envpool
import numpy as np
import tyro

import headrace
from common import Args, Comparison, Contender, measure, stepping

GAMES = {
    "ConnectFour-v0": ("ConnectFour-v1", "connect_four"),
    "TicTacToe-v0": ("TicTacToe-v1", "tic_tac_toe"),
    "Othello-v0": ("Othello-v1", "othello"),
    "Hex-v0": ("Hex-v1", "hex"),
}
"""our task → EnvPool's and pgx's"""
LEAST = {"envpool": 10.0, "pgx": 1.0}
SETS = 64


@dataclass
class BoardsArgs(Args):
    """Board games beside other libraries."""

    seconds: float = 1.0
    """length of one turn"""
    num_threads: int = 2
    """threads of the pools"""
    num_envs: int = 1024
    """environments of the pools"""


def xla(game: str, n: int, actions: np.ndarray) -> Contender:
    """A contender that steps pgx's game, as one compiled program a step."""
    import jax
    import pgx  # pyright: ignore[reportMissingImports]
    from pgx.experimental.wrappers import auto_reset  # pyright: ignore[reportMissingImports]

    env: Any = pgx.make(game)  # type: ignore[arg-type]
    step = jax.jit(jax.vmap(auto_reset(env.step, env.init)))
    keys = jax.random.split(jax.random.PRNGKey(0), n)
    state = jax.jit(jax.vmap(env.init))(keys)

    def act(action: Any) -> None:
        nonlocal state
        state = jax.block_until_ready(step(state, action, keys))

    return stepping(act, [jax.numpy.asarray(each, np.int32) for each in actions], n)


def comparisons(args: BoardsArgs) -> Iterator[Comparison]:
    """One for each game."""
    n = args.num_envs
    sizes: dict[str, Any] = {"num_envs": n, "num_threads": args.num_threads, "seed": 0}
    for task, (theirs, pgx) in GAMES.items():
        with ExitStack() as stack:
            mine = stack.enter_context(headrace.make(task, **sizes))
            mine.reset()
            choices = int(np.max(mine.action_space.nvec if hasattr(mine.action_space, "nvec") else mine.action_space.n))
            actions = np.random.default_rng(0).integers(0, choices, (SETS, n))
            peer = envpool.make_gymnasium(theirs, **sizes)
            peer.reset()
            peers = {"envpool": stepping(peer.step, list(actions.astype(np.int32)), n)}
            if find_spec("pgx"):
                peers["pgx"] = xla(pgx, n, actions)
            ours = stepping(mine.step, list(np.repeat(actions[:, :, None], 2, 2)), n)
            yield Comparison(f"{task} N={n}", ours, peers, wanted=LEAST)


if __name__ == "__main__":
    chosen = tyro.cli(BoardsArgs)
    measure("boards_pool", "Board games", comparisons(chosen), chosen)
