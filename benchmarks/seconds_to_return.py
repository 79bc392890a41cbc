"""How long training takes to a return: agent steps, updates, seconds, and seconds of the processor.

    python benchmarks/seconds_to_return.py Ant-v4:ppo:5000 HalfCheetah-v5:crossq:6000 --seeds 1 2 3

A run begins with a preset of the algorithm (``fast`` unless told otherwise), and the agent as it is plays deterministic
episodes every so often; the time of that is taken off. A mark is reached when their mean return is. Processor seconds
are those of all the run's processes, and do not depend on what else a machine does; seconds of the clock do.
Each run is added to the JSON file, in place of an earlier one of the same task, algorithm, settings and seed.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tyro
from rich.console import Console
from rich.table import Table

from common import RESULTS, machine
from headrace.cli.options import parse_options
from headrace.train import Callback, Training, train
from headrace.train.logging.hardware import family_of, processor_seconds
from headrace.train.play.evaluate import play_episodes, playing_pool

NAME = "seconds_to_return"


@dataclass(frozen=True)
class Args:
    """Train until a return is reached, and tell what it took."""

    marks: tyro.conf.Positional[tuple[str, ...]] = ("Ant-v4:ppo:5000", "HalfCheetah-v5:crossq:6000")
    """what to reach, as TASK:ALGORITHM:RETURN"""
    seeds: tuple[int, ...] = (1,)
    """a run of each mark with each seed"""
    preset: str = "fast"
    """of the algorithm"""
    set: tuple[str, ...] = ()
    """further settings, name=value"""
    every: int = 40_000
    """agent steps between two evaluations"""
    episodes: int = 10
    """of an evaluation"""
    whole: bool = False
    """train on after the mark, to the end of the run"""
    note: str = ""
    """what else is to be said of the machine, such as what ran beside"""
    out: Path = RESULTS
    """folder for the JSON file"""


@dataclass
class Measured(Callback):
    """Plays beside a run, keeps the clocks, and ends the run once the mark is reached.

    Attributes:
        curve: [steps, updates, seconds, processor seconds, mean return, least return] of each evaluation.
        spent: seconds, and processor seconds, of evaluations.
    """

    args: Args
    goal: float
    curve: list[list[float]] = field(default_factory=list)
    spent: list[float] = field(default_factory=lambda: [0.0, 0.0])
    due: int = 0
    began: float = 0.0

    def on_start(self, training: Training) -> None:
        """Start the processor's clock."""
        self.began = used()

    def on_log(self, training: Training, line: Mapping[str, Any]) -> None:
        """Play, where that is due."""
        if training.step >= self.due:
            self.due = training.step + self.args.every
            self.play(training)

    def play(self, training: Training) -> None:
        """One evaluation: a point of the curve."""
        seconds, processor = training.seconds - self.spent[0], used() - self.began - self.spent[1]
        clock, before = time.perf_counter(), used()
        with playing_pool(training.config, num_envs=self.args.episodes, seed=1000) as pool:
            played = play_episodes(training.agent(), pool, 1)
        assert played is not None
        row = [training.step, training.updates, seconds, processor, played.mean_return, min(played.returns)]
        self.curve.append([round(value, 1) for value in row])
        print(*self.curve[-1], flush=True)
        self.spent[0] += time.perf_counter() - clock
        self.spent[1] += used() - before
        if played.mean_return >= self.goal and not self.args.whole:
            training.stop()


def used() -> float:
    """What this process and those that it has started have used of the cores so far, in seconds."""
    return processor_seconds(family_of(os.getpid())) or time.process_time()


def learn(task: str, algo: str, goal: float, seed: int, args: Args) -> dict[str, Any]:
    """One run until the mark, or to its end."""
    measured, settings = Measured(args, goal), parse_options(args.set)
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made) / "run"
        result = train(
            task, algo, seed=seed, preset=args.preset, callback=measured, run_dir=folder, quiet=True, video=False,
            tensorboard=False, viewer=False, **settings,
        )  # fmt: skip
        config = json.loads((folder / "config.json").read_text())
    reached = next((row for row in measured.curve if row[4] >= goal), None)
    best = max(measured.curve, key=lambda row: row[4], default=None)
    names = ("steps", "updates", "seconds", "processor_seconds", "mean_return", "least_return")
    return {
        "task": task, "algo": algo, "preset": args.preset, "settings": settings, "seed": seed, "mark": goal,
        "reached": None if reached is None else dict(zip(names, reached, strict=True)),
        "best": None if best is None else dict(zip(names, best, strict=True)),
        "steps": result.steps, "columns": names, "curve": measured.curve, "config": config,
        "machine": machine(), "note": args.note,
    }  # fmt: skip


def save(run: dict[str, Any], path: Path) -> None:
    """Put a run into the file, in place of its like."""
    runs = json.loads(path.read_text())["runs"] if path.exists() else []
    same = ("task", "algo", "preset", "settings", "seed")
    runs = [each for each in runs if any(each[name] != run[name] for name in same)]
    path.write_text(json.dumps({"runs": [*runs, run]}, indent=1) + "\n")


def show(runs: list[dict[str, Any]]) -> None:
    """A table of what it took."""
    table = Table()
    for name in ("task", "algorithm", "seed", "mark", "steps", "updates", "seconds", "processor", "best"):
        table.add_column(name, justify="right")
    for run in runs:
        there = run["reached"]
        numbers = [f"{there[name]:,.0f}" if there else "–" for name in ("steps", "updates", "seconds")]
        processor = f"{there['processor_seconds']:,.0f}" if there else "–"
        best = f"{run['best']['mean_return']:,.0f}" if run["best"] else "–"
        algo = f"{run['algo']}, {run['preset']}"
        table.add_row(run["task"], algo, str(run["seed"]), f"{run['mark']:,.0f}", *numbers, processor, best)
    Console().print(table)


def main(args: Args) -> None:
    """Train for each mark with each seed, write and show."""
    args.out.mkdir(parents=True, exist_ok=True)
    runs = []
    for mark in args.marks:
        task, algo, goal = mark.split(":")
        for seed in args.seeds:
            runs.append(learn(task, algo, float(goal), seed, args))
            save(runs[-1], args.out / f"{NAME}.json")
    show(runs)


if __name__ == "__main__":
    main(tyro.cli(Args, description=__doc__))
