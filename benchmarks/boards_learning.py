"""Board games by self-play: `headrace train TASK` for so many seconds, then games against a player who moves at random.

Agents play their most likely moves after two at random, so that games differ, and begin half of the games. Points are
those of all games, a draw half of one; Elo is what makes them most likely, with one point lent to each side: 400 points
are ten times the odds, and the random player has 0. In tic-tac-toe they also play someone who never errs.

A checkpoint is kept every two seconds. The first that has the goal's share of points says when the goal was reached,
by the clock of training and in processor seconds. Rows of other tasks stay in the file. Games of chess take minutes for
each checkpoint: `--tasks Chess-v1 --every 60` looks at the last alone.

    python benchmarks/boards_learning.py [--tasks Othello-v0 --seconds 60 --seeds 1 2 3]
"""

from __future__ import annotations

import functools
import itertools
import random
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tyro

import headrace
from common import RESULTS, earlier, heading, tell
from connect_four import at_random, score
from headrace.studies.leaderboard.scores import core_seconds
from headrace.train.play.ladder import player, ratings
from headrace.train.runs.metrics import read_metrics, seconds_of

TASKS = ("TicTacToe-v0", "ConnectFour-v0", "Othello-v0", "Hex-v0", "Go9x9-v0", "Chess-v1")
NAME, GOAL, EVERY = "boards_learning", 0.9, 2.0  # share of points; seconds of training between checkpoints
LINES = (0b111, 0b111000, 0b111000000, 0b1001001, 0b10010010, 0b100100100, 0b100010001, 0b1010100)


@dataclass
class BoardsLearningArgs:
    """Self-play of board games."""

    tasks: tuple[str, ...] = TASKS
    seconds: float = 60.0
    """of training each"""
    goal: float = GOAL
    """share of the points to reach"""
    every: float = EVERY
    """seconds of training between checkpoints"""
    games: int = 200
    seeds: tuple[int, ...] = (1, 2, 3)
    """a run of each"""
    out: Path = RESULTS
    """folder for the JSON file"""


class Until(headrace.train.Callback):
    """Ends a run after so many seconds."""

    def __init__(self, seconds: float):
        self.seconds = seconds

    def on_update(self, training: Any) -> None:
        if training.seconds >= self.seconds:
            training.stop()


def row_of(task: str, seed: int, args: BoardsLearningArgs) -> dict[str, Any]:
    """Trains an agent and lets its checkpoints play; returns what it has learnt, and when."""
    random.seed(seed)
    how: dict[str, Any] = {"video": False, "viewer": False, "evaluate_episodes": 0, "quiet": True}
    how |= {"checkpoint_seconds": args.every, "keep_checkpoints": 10_000}
    with tempfile.TemporaryDirectory() as folder:
        run = headrace.train(task, seed=seed, run_dir=Path(folder) / "run", callback=Until(args.seconds), **how)
        lines = list(read_metrics(run.run_dir / "metrics.jsonl"))
        kept = sorted((run.run_dir / "checkpoints").glob("step-*"))
        points = (points_of(task, run.run_dir, each.name, seed, args.games) for each in kept)
        first = next((each for each, share in zip(kept, points, strict=True) if share >= args.goal), None)
        when = first and next((seconds_of(line) for line in lines if line["step"] >= int(first.name[5:])), run.seconds)
        share = points_of(task, run.run_dir, "newest", seed, args.games)
        learnt = player(headrace.load(run.run_dir, which="newest"))
        solved = task == "TicTacToe-v0"
        drawn = round(score(learnt, perfect, args.games, seed, task), 3) if solved else None  # of 0.5 at best
    return {
        "task": task,
        "seed": seed,
        "goal": args.goal,
        "seconds to it": when and round(when, 1),
        "processor seconds to it": core_seconds(lines, when),
        "seconds": round(run.seconds),
        "agent steps": run.steps,
        "points against random": round(share, 3),
        "Elo": round(ratings(np.array([[0.5, 1 - share], [share, 0.5]]), args.games)[1]),
        "against perfect play": drawn,
    }


def points_of(task: str, run: Path, which: Any, seed: int, games: int) -> float:
    """The share of points of one of a run's checkpoints against random moves."""
    return score(player(headrace.load(run, which=which)), at_random, games, seed, task)


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
    known = [row for row in earlier(args.out, NAME, "rows") or [] if row["task"] not in args.tasks]
    for task, seed in itertools.product(args.tasks, args.seeds):
        known.append(row_of(task, seed, args))
        print(known[-1], flush=True)
    rows = sorted(known, key=lambda row: TASKS.index(row["task"]) if row["task"] in TASKS else len(TASKS))
    tell(args.out, heading(NAME, "Board games by self-play") | {"settings": {"games": args.games}, "rows": rows})


if __name__ == "__main__":
    main()
