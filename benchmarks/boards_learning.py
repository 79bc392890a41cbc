"""Board games by self-play: `headrace train TASK` for so many seconds, then games against a player who moves at random.

Agents play their most likely moves after two at random, so that games differ, and begin half of the games. Points are
those of all games, a draw half of one; Elo is what makes them most likely, with one point lent to each side: 400 points
are ten times the odds, and the random player has 0. In tic-tac-toe they also play someone who never errs.

    python benchmarks/boards_learning.py [--tasks Othello-v0 --seconds 60]
"""

from __future__ import annotations

import functools
import random
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tyro

import headrace
from common import RESULTS, heading, tell
from connect_four import at_random, score
from headrace.train.play.ladder import player, ratings

TASKS = ("TicTacToe-v0", "ConnectFour-v0", "Othello-v0", "Hex-v0", "Go9x9-v0", "Chess-v1")
LINES = (0b111, 0b111000, 0b111000000, 0b1001001, 0b10010010, 0b100100100, 0b100010001, 0b1010100)


@dataclass
class BoardsLearningArgs:
    """Self-play of board games."""

    tasks: tuple[str, ...] = TASKS
    seconds: float = 60.0
    """of training each"""
    games: int = 200
    seed: int = 1
    out: Path = RESULTS
    """folder for the JSON file"""


class Until(headrace.train.Callback):
    """Ends a run after so many seconds."""

    def __init__(self, seconds: float):
        self.seconds = seconds

    def on_update(self, training: Any) -> None:
        if training.seconds >= self.seconds:
            training.stop()


def row_of(task: str, args: BoardsLearningArgs) -> dict[str, Any]:
    """Trains an agent and lets it play; returns what it has learnt."""
    random.seed(args.seed)
    how: dict[str, Any] = {"video": False, "viewer": False, "evaluate_episodes": 0, "quiet": True}
    with tempfile.TemporaryDirectory() as folder:
        run = headrace.train(task, seed=args.seed, run_dir=Path(folder) / "run", callback=Until(args.seconds), **how)
        learnt = player(headrace.load(run.run_dir, which="newest"))
    points = score(learnt, at_random, args.games, args.seed, task)
    solved = task == "TicTacToe-v0"
    drawn = round(score(learnt, perfect, args.games, args.seed, task), 3) if solved else None  # of 0.5 at best
    return {
        "task": task,
        "seconds": round(run.seconds),
        "agent steps": run.steps,
        "points against random": round(points, 3),
        "Elo": round(ratings(np.array([[0.5, 1 - points], [points, 0.5]]), args.games)[1]),
        "against perfect play": drawn,
    }


def perfect(seen: np.ndarray, masks: np.ndarray) -> np.ndarray:
    """Moves in tic-tac-toe as well as can be, one of the best moves at random."""
    planes = seen.reshape(len(seen), -1, 9)
    cells = [[sum(1 << int(i) for i in np.flatnonzero(plane)) for plane in each[:2]] for each in planes]
    return np.array([best_cell(mine, theirs) for mine, theirs in cells])


def best_cell(mine: int, theirs: int) -> int:
    values = {cell: -worth(theirs, mine | 1 << cell) for cell in range(9) if not (mine | theirs) >> cell & 1}
    return random.choice([cell for cell, found in values.items() if found == max(values.values())])


@functools.cache
def worth(mine: int, theirs: int) -> int:
    """How tic-tac-toe ends for who is to move: 1, 0 or -1."""
    if any(theirs & line == line for line in LINES):
        return -1
    free = [cell for cell in range(9) if not (mine | theirs) >> cell & 1]
    return max((-worth(theirs, mine | 1 << cell) for cell in free), default=0)


def main() -> None:
    args = tyro.cli(BoardsLearningArgs)
    rows = [row_of(task, args) for task in args.tasks]
    settings = {"seconds": args.seconds, "games": args.games, "seed": args.seed}
    tell(args.out, heading("boards_learning", "Board games by self-play") | {"settings": settings, "rows": rows})


if __name__ == "__main__":
    main()
