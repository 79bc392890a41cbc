"""Games for two players at 1,024 environments, beside EnvPool and, where it is installed, pgx compiled by XLA.

Columns or cells at random, of which some are not allowed and end a game; in Go and chess, where few games would last,
each plays what it allows itself, and is not charged for the choice. All play one game after another, and answer with
both players' observations and what is allowed; pgx with those of the player whose turn it is.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
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
    "Go9x9-v0": ("Go9x9-v1", "go_9x9"),
    "Chess-v1": ("Chess-v1", "chess"),
}
"""our task → EnvPool's and pgx's"""
ALLOWED = ("Go9x9-v0", "Chess-v1")
"""games in which only allowed moves are played"""
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


def playing(step: Callable[[np.ndarray], np.ndarray], mask: np.ndarray, n: int) -> Contender:
    """A contender that plays allowed moves at random; its clock runs in ``step``, which answers with the next mask."""
    rng, latest = np.random.default_rng(0), mask

    def run(seconds: float) -> float:
        nonlocal latest
        calls, elapsed = 0, 0.0
        while elapsed < seconds:
            rows = latest.reshape(-1, latest.shape[-1])
            row, action = np.nonzero(rows)
            numbers = np.bincount(row, minlength=len(rows))
            drawn = np.cumsum(numbers) - 1 - (rng.random(len(rows)) * numbers).astype(int)
            actions = action[drawn].reshape(latest.shape[:-1])
            start = time.perf_counter()
            latest = step(actions)
            elapsed += time.perf_counter() - start
            calls += 1
        return calls * n / elapsed

    return run


def xla(game: str, n: int, actions: np.ndarray, allowed: bool) -> Contender:
    """A contender that steps pgx's game, as one compiled program a step."""
    import jax
    import pgx  # pyright: ignore[reportMissingImports]
    from pgx.experimental.wrappers import auto_reset  # pyright: ignore[reportMissingImports]

    env: Any = pgx.make(game)  # type: ignore[arg-type]
    step = jax.jit(jax.vmap(auto_reset(env.step, env.init)))
    keys = jax.random.split(jax.random.PRNGKey(0), n)
    state = jax.jit(jax.vmap(env.init))(keys)

    def act(action: Any) -> Any:
        nonlocal state
        state = jax.block_until_ready(step(state, action, keys))
        return state.legal_action_mask

    if allowed:
        return playing(lambda action: np.asarray(act(action.astype(np.int32))), np.asarray(state.legal_action_mask), n)
    return stepping(act, [jax.numpy.asarray(each, np.int32) for each in actions], n)


def comparisons(args: BoardsArgs) -> Iterator[Comparison]:
    """One for each game."""
    n = args.num_envs
    sizes: dict[str, Any] = {"num_envs": n, "num_threads": args.num_threads, "seed": 0}
    for task, (theirs, pgx) in GAMES.items():
        with ExitStack() as stack:
            mine = stack.enter_context(headrace.make(task, **sizes))
            mask = mine.reset()[1]["action_mask"]
            peer = envpool.make_gymnasium(theirs, **sizes)
            masks = peer.reset()[1]["legal_action_mask"]
            actions = np.random.default_rng(0).integers(0, mask.shape[-1], (SETS, n))
            if task in ALLOWED:
                ours = playing(lambda action, pool=mine: pool.step(action)[4]["action_mask"], mask, n)
                act = lambda action, pool=peer: pool.step(action.astype(np.int32))[4]["legal_action_mask"]  # noqa: E731
                peers = {"envpool": playing(act, masks, n)}
            else:
                ours = stepping(mine.step, list(np.repeat(actions[:, :, None], 2, 2)), n)
                peers = {"envpool": stepping(peer.step, list(actions.astype(np.int32)), n)}
            if find_spec("pgx"):
                peers["pgx"] = xla(pgx, n, actions, task in ALLOWED)
            yield Comparison(f"{task} N={n}", ours, peers, wanted=LEAST)


if __name__ == "__main__":
    chosen = tyro.cli(BoardsArgs)
    measure("boards_pool", "Board games", comparisons(chosen), chosen)
