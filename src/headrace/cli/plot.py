"""``headrace plot``: plots the return curves of runs, with bands over their seeds."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from headrace.cli.options import check_file, optional
from headrace.errors import OptionError
from headrace.studies.plots.bands import Mean
from headrace.studies.plots.baselines import read_baselines
from headrace.studies.plots.curves import grouped, read_curves
from headrace.studies.plots.figures import PlotOptions, check_format, plot_groups
from headrace.train.logging.plot import Axis, Source
from headrace.train.runs.choice import find_runs


@dataclass(frozen=True)
class PlotArgs:
    """Plot the returns of runs over agent steps and over seconds.

    Runs that differ only in their seed are one line, with a band over the seeds; labels are the settings in which
    groups differ. Each task has its own panel. Prints a caption that describes the lines.

    examples:
      headrace plot runs/CartPole-v1-20260101-120000
      headrace plot runs --out curves.pdf
      headrace plot runs/ppo runs/a2c --out compared.svg --mean mean --x steps
      headrace plot runs --baseline published.csv --returns evaluation
    """

    runs: Annotated[tuple[Path, ...], tyro.conf.Positional, optional("RUNS…")] = (Path("runs"),)
    """run folders, or folders of runs; runs/ by default"""
    out: Path = Path("plot.png")
    """the file to write: .png, .svg or .pdf"""
    mean: Mean = "iqm"
    """the mean over seeds; iqm is the interquartile mean"""
    x: Literal["both", "steps", "seconds"] = "both"
    """the horizontal axis: agent steps, seconds of training, or one panel for each"""
    returns: Source = "training"
    """the returns of training episodes, or of evaluations, which runs with samplers have"""
    smooth: float = 0.0
    """smooth each curve by a mean over this fraction of its length, such as 0.05; the caption mentions it"""
    baseline: Annotated[
        tyro.conf.UseAppendAction[tuple[Path, ...]],
        tyro.conf.arg(
            metavar="FILE",
            help="a CSV file of results to compare with: columns name, step, return, and optionally low, high, "
            "seconds, task; a single row without a step is a horizontal line",
        ),
    ] = ()
    labels: Annotated[tuple[str, ...], optional("NAME …")] = ()
    """labels of the groups in the legend, in the order in which the command prints the groups"""


def run(argv: list[str]) -> int:
    """Draws the plot and prints its groups and caption; returns the exit status."""
    args = tyro.cli(PlotArgs, prog="headrace plot", args=argv)
    if not 0 <= args.smooth < 1:
        raise OptionError(f"--smooth {args.smooth} must be at least 0 and below 1: it is a share of a run's length")
    check_format(args.out)
    check_file("--out", args.out)
    baselines = [baseline for file in args.baseline for baseline in read_baselines(file)]
    curves = read_curves(find_runs(args.runs), args.returns)
    if not curves:
        raise OptionError("no run has returns to draw")
    tasks = grouped(curves, args.labels)
    axes: tuple[Axis, ...] = ("steps", "seconds") if args.x == "both" else (args.x,)
    try:
        caption = plot_groups(tasks, args.out, PlotOptions(args.mean, args.returns, axes, args.smooth), baselines)
    except ModuleNotFoundError as error:
        if error.name != "matplotlib":
            raise
        raise OptionError("headrace plot needs matplotlib: pip install 'headrace[plots]'") from error
    for task, groups in tasks.items():
        print(task)
        for group in groups:
            seeds = ", ".join(str(curve.config.seed) for curve in group.curves)
            print(f"  {group.label}: seed{'s' if len(group.curves) > 1 else ''} {seeds}")
    print(f"{caption}\nplot {args.out}")
    return 0
