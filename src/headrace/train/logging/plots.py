"""Plots the return curve of a run."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from headrace.train.logging.metrics import read_metrics
from headrace.train.runs.folder import RunFolder

FEW = 60  # most points of a curve whose points are marked


def plot_returns(run_dir: str | Path) -> Path:
    """Plot mean return over agent steps, and over seconds, into ``curve.png``; returns its path.

    Returns of evaluations, which are played without exploration, are a second curve.

    Raises:
        ImportError: matplotlib is not installed.
        StateError: the run's settings or metrics are damaged.
    """
    from matplotlib.figure import Figure
    from matplotlib.ticker import EngFormatter, MaxNLocator

    run, config = RunFolder.read(run_dir)
    lines = read_metrics(run.metrics_file)
    trained = [(line["step"], _seconds(line), line.get("return")) for line in lines]
    evaluated = _evaluations(lines)
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    axes = figure.subplots(1, 2, sharey=True)
    for ax, column in zip(axes, (0, 1), strict=True):
        _draw(ax, trained, column, f"training, last {config.stop_episodes} episodes", "C0")
        _draw(ax, evaluated, column, "evaluation, without exploration", "C1")
        if config.stop_at_return is not None:
            ax.axhline(config.stop_at_return, color="grey", linestyle=":", label="goal")
        ax.xaxis.set_major_locator(MaxNLocator(7))
        ax.xaxis.set_major_formatter("{x:,g}" if column else EngFormatter(sep=""))
        ax.set(xlim=(0, None), xlabel="seconds of training" if column else "agent steps")
        ax.grid(alpha=0.3)
    axes[0].set(ylabel="mean return", title=config.task)
    if axes[0].get_legend_handles_labels()[0]:
        axes[1].legend(loc="best", fontsize="small")
    else:
        axes[0].text(0.5, 0.5, "no episode ended", transform=axes[0].transAxes, ha="center")
    figure.savefig(run.plot_file, dpi=120)
    return run.plot_file


def _draw(ax: Any, points: list[tuple[float, Any, Any]], column: int, name: str, colour: str) -> None:
    """One curve; its points are marked if there are few, so that a single one is visible."""
    known = [point for point in points if _finite(point[2]) and _finite(point[column])]
    if known:
        marker = "o" if len(known) <= FEW else None
        ax.plot(
            [p[column] for p in known], [p[2] for p in known], color=colour, marker=marker, markersize=3, label=name
        )


def _evaluations(lines: list[dict[str, Any]]) -> list[tuple[float, Any, Any]]:
    """(step, seconds, return) of each evaluation, at the time of its first record."""
    found: dict[Any, tuple[float, Any, Any]] = {}
    for line in lines:
        if isinstance(known := line.get("evaluation"), dict) and "step" in known:
            found.setdefault(known["step"], (known["step"], _seconds(line), known.get("return")))
    return list(found.values())


def _seconds(line: dict[str, Any]) -> Any:
    time = line.get("time")
    return time.get("seconds") if isinstance(time, dict) else None


def _finite(number: Any) -> bool:
    return isinstance(number, int | float) and math.isfinite(number)
