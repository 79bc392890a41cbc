"""Pong by compiled updates and by torch's: one recipe, several seeds, and returns after equal numbers of steps.

Torch makes the updates of the runs that have `HEADRACE_NO_LEARNER` set; all else is equal. Rounding differs, and so do
the games that follow; the curves of the two, means over seeds, should lie on each other within the range of seeds. A
run ends after so many steps of the recipe, whose rates still fall as for all of them.

    python benchmarks/pictures_curves.py [--seeds 1 2 3] [--steps 600000] [--task Pong-v5] [--algo ppo]
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tyro

from common import OURS, RESULTS, heading, tell
from headrace.studies.plots.curves import Group
from headrace.studies.plots.figures import PlotOptions, plot_groups
from headrace.train import Callback, Training, train
from headrace.train.logging.plot import Curve, read_curve
from headrace.train.modules.compiled import LEFT_OUT

NAME, TORCH = "pictures_curves", "torch"
ROWS = 6  # numbers of steps after which returns are told
POINTS = 100  # of a curve in the file


@dataclass(frozen=True)
class CurvesArgs:
    """Learning curves by compiled code and by torch."""

    seeds: tuple[int, ...] = (1, 2, 3)
    """a run of each with each seed, in turns"""
    steps: int = 600_000
    """of each run"""
    task: str = "Pong-v5"
    algo: str = "ppo"
    preset: str = "fast"
    folder: Path | None = None
    """where run folders stay; None keeps none"""
    run: Path | None = None
    """train the first seed in this process, into this folder"""
    out: Path = RESULTS
    """folder for the JSON file and the picture"""


def learn(args: CurvesArgs, run: Path) -> None:
    """One run of the recipe, which is ended after its steps."""

    class Until(Callback):
        """Ends the run."""

        def on_update(self, training: Training) -> None:
            if training.step >= args.steps:
                training.stop()

    recipe: dict[str, Any] = {"algo": args.algo, "preset": args.preset, "stop_at_return": None}
    recipe["log_steps"] = args.steps // POINTS
    quiet: dict[str, Any] = {"quiet": True, "video": False, "tensorboard": False, "viewer": False}
    train(args.task, **recipe, seed=args.seeds[0], run_dir=run, callback=Until(), **quiet)


def in_process(who: str, seed: int, args: CurvesArgs, folder: Path) -> Curve:
    """The curve of a run in a process of its own."""
    run, environment = folder / f"{who}-{seed}", {**os.environ}
    environment.pop(LEFT_OUT, None)
    environment |= {LEFT_OUT: "1"} if who == TORCH else {}
    same = [f"--{name}={getattr(args, name)}" for name in ("steps", "task", "algo", "preset")]
    command = [sys.executable, __file__, f"--run={run}", f"--seeds={seed}", *same]
    subprocess.run(command, env=environment, check=True)
    curve = read_curve(run)
    print(f"{who}, seed {seed}: {curve.returns[-1]:.1f} after {curve.seconds[-1]:,.0f} s", flush=True)
    return curve


def rows_of(curves: dict[str, list[Curve]], last: int) -> list[dict[str, Any]]:
    """Returns after equal numbers of steps: of each the mean, and the least and the most of its seeds."""
    rows = []
    for step in np.linspace(0, last, ROWS + 1)[1:]:
        of_seeds = {
            who: [float(np.interp(step, curve.steps, curve.returns)) for curve in each] for who, each in curves.items()
        }
        row: dict[str, Any] = {"steps": int(step)}
        for who, found in of_seeds.items():
            row |= {who: round(statistics.fmean(found), 1), f"{who}, seeds": f"{min(found):.1f} … {max(found):.1f}"}
        lows, highs = ([pick(found) for found in of_seeds.values()] for pick in (min, max))
        rows.append(row | {"ranges meet": max(lows) <= min(highs)})
    return rows


def main() -> None:
    args = tyro.cli(CurvesArgs, description=__doc__)
    if args.run is not None:
        learn(args, args.run)
        return
    curves: dict[str, list[Curve]] = {OURS: [], TORCH: []}
    with tempfile.TemporaryDirectory() as made:
        for seed in args.seeds:
            for who, found in curves.items():
                found.append(in_process(who, seed, args, args.folder or Path(made)))
        by_seed = {who: list(zip(args.seeds, each, strict=True)) for who, each in curves.items()}
        kept = {who: [thinned(*each) for each in pairs] for who, pairs in by_seed.items()}
    rows = rows_of(curves, int(min(curve.steps[-1] for each in curves.values() for curve in each)))
    args.out.mkdir(parents=True, exist_ok=True)
    groups = [Group(who, tuple(each)) for who, each in curves.items()]
    plot_groups({args.task: groups}, args.out / f"{NAME}.png", PlotOptions(mean="mean"))
    settings = {name: getattr(args, name) for name in ("seeds", "steps", "task", "algo", "preset")}
    title = f"{args.task}, {args.algo}, by compiled updates and by torch's: mean return"
    tell(args.out, heading(NAME, title) | {"settings": settings, "rows": rows, "runs": kept})


def thinned(seed: int, curve: Curve) -> dict[str, Any]:
    """Some points of a curve as ``[steps, seconds, return]``, and its settings."""
    at = np.unique(np.linspace(0, len(curve.steps) - 1, POINTS).astype(int))
    points = np.stack([curve.steps, curve.seconds, curve.returns], axis=1)[at].round(2).tolist()
    return {"seed": seed, "curve": points, "config": json.loads((curve.path / "config.json").read_text())}


if __name__ == "__main__":
    main()
