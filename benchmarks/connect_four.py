"""Connect Four by self-play: `headrace train ConnectFour-v0`, then a tournament of what it was on the way.

All of a run's checkpoints that were kept, a player who moves at random, and minimax of several depths play each other,
as often with the first move as without. An Elo table orders them: 400 points are ten times the odds, and the random
player has 0. Agents play their most likely moves after two at random, so that games differ.

    python benchmarks/connect_four.py [--seconds 600]
"""

from __future__ import annotations

import itertools
import random
import tempfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import tyro

import headrace
from common import RESULTS, heading, tell
from headrace.train.play.ladder import Player, play, player, ratings

TASK = "ConnectFour-v0"
WIDTH, HEIGHT = 7, 6
VERSIONS = 5  # that play, evenly spaced in time, the last one among them
LINES = [
    sum(1 << (x + i * dx) * (HEIGHT + 1) + y + i * dy for i in range(4))
    for x, y, (dx, dy) in itertools.product(range(WIDTH), range(HEIGHT), ((1, 0), (0, 1), (1, 1), (1, -1)))
    if 0 <= x + 3 * dx < WIDTH and 0 <= y + 3 * dy < HEIGHT
]
CENTRE_FIRST = (3, 2, 4, 1, 5, 0, 6)
WON = 1000.0


@dataclass
class ConnectFourArgs:
    """Self-play of Connect Four, and a tournament."""

    seconds: float = 600.0
    """of training, unless the recipe ends before"""
    games: int = 100
    """of each pair"""
    depths: tuple[int, ...] = (1, 2, 4)
    """of minimax, in moves of both players"""
    seed: int = 1
    out: Path = RESULTS
    """folder for the JSON file"""


def trained(args: ConnectFourArgs, run: Path) -> dict[str, Player]:
    """Trains by the plain command; returns versions by their seconds of training."""

    class Until(headrace.train.Callback):
        """Ends the run after so many seconds."""

        def on_update(self, training: Any) -> None:
            if training.seconds >= args.seconds:
                training.stop()

    keeps: dict[str, Any] = {"checkpoint_seconds": args.seconds / 20, "keep_checkpoints": 100}
    headrace.train(TASK, seed=args.seed, run_dir=run, callback=Until(), video=False, viewer=False, **keeps)
    kept = sorted((run / "checkpoints").glob("step-*"))
    chosen = [kept[round(i)] for i in np.linspace(0, len(kept) - 1, VERSIONS + 1)[1:]]
    return {f"step {int(each.name[5:]):,}": player(headrace.load(run, which=each.name)) for each in chosen}


def at_random(seen: np.ndarray, masks: np.ndarray) -> np.ndarray:
    """Moves any piece that may be moved."""
    return np.array([random.choice(np.flatnonzero(mask)) for mask in masks])


def minimax(depth: int, seen: np.ndarray, masks: np.ndarray) -> np.ndarray:
    """Moves by alpha-beta search of so many moves, and one of the best at random."""
    return np.array([best_move(bits(mine), bits(theirs), depth) for mine, theirs, *_ in seen])


def bits(plane: np.ndarray) -> int:
    """The pieces [6, 7] as bits, column by column from the bottom."""
    return sum(1 << int(x) * (HEIGHT + 1) + HEIGHT - 1 - int(y) for y, x in np.argwhere(plane))


def best_move(mine: int, theirs: int, depth: int) -> int:
    """A column with the highest value for who is to move."""
    values = {}
    for column, bit in moves(mine | theirs):
        values[column] = WON if wins(mine | bit) else -value(theirs, mine | bit, depth - 1, -2 * WON, 2 * WON)
    return random.choice([column for column, found in values.items() if found == max(values.values())])


def moves(taken: int) -> list[tuple[int, int]]:
    """Columns and bits of the cells where a piece may fall, the middle ones first."""
    found = []
    for column in CENTRE_FIRST:
        bottom = 1 << column * (HEIGHT + 1)
        if bit := (taken + bottom) & ~taken & ((1 << HEIGHT) - 1) * bottom:
            found.append((column, bit))
    return found


def wins(stones: int) -> bool:
    """Whether four are in a line."""
    for shift in (1, HEIGHT, HEIGHT + 1, HEIGHT + 2):
        pairs = stones & stones >> shift
        if pairs & pairs >> 2 * shift:
            return True
    return False


def value(mine: int, theirs: int, depth: int, low: float, high: float) -> float:
    """A position's value for who is to move: a won game sooner is better; else by lines that can still be filled."""
    open_moves = moves(mine | theirs)
    if not open_moves:
        return 0.0
    if depth == 0:
        own = sum((mine & line).bit_count() ** 2 for line in LINES if not theirs & line)
        return (own - sum((theirs & line).bit_count() ** 2 for line in LINES if not mine & line)) / WON
    if any(wins(mine | bit) for _, bit in open_moves):
        return WON - 1 + depth / 100
    for _, bit in open_moves:
        low = max(low, -value(theirs, mine | bit, depth - 1, -high, -low))
        if low >= high:
            break
    return low


def score(one: Player, two: Player, games: int, seed: int, task: str = TASK) -> float:
    """The first player's share of points in games, half of which it begins; a draw is half a point."""
    with headrace.make(task, num_envs=games, seed=seed) as pool:
        return float(play(pool, one, two, opening=at_random).mean())


def main() -> None:
    args = tyro.cli(ConnectFourArgs)
    random.seed(args.seed)
    players: dict[str, Player] = {"random": at_random}
    players |= {f"minimax, depth {depth}": partial(minimax, depth) for depth in args.depths}
    with tempfile.TemporaryDirectory() as folder:
        players |= trained(args, Path(folder) / "run")
        table = {
            (a, b): score(players[a], players[b], args.games, args.seed) for a, b in itertools.combinations(players, 2)
        }
    names = list(players)
    shares = np.full((len(names), len(names)), 0.5)
    for (a, b), share in table.items():
        shares[names.index(a), names.index(b)], shares[names.index(b), names.index(a)] = share, 1 - share
    elo = dict(zip(names, ratings(shares, args.games).round().astype(int).tolist(), strict=True))
    last = list(players)[-1]
    rows = [
        {"player": name, "Elo": elo[name], f"points against it of {last}": round(1 - table[name, last], 2)}
        for name in sorted(players, key=lambda name: -elo[name])
        if name != last
    ]
    rows.insert(0, {"player": last, "Elo": elo[last], f"points against it of {last}": None})
    title = f"Connect Four after {args.seconds:.0f} s of self-play"
    settings = {"seconds": args.seconds, "games": args.games, "seed": args.seed}
    runs = {f"{a} - {b}": share for (a, b), share in table.items()}
    tell(args.out, heading("connect_four", title) | {"settings": settings, "rows": rows, "runs": runs})


if __name__ == "__main__":
    main()
