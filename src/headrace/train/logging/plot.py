"""The plot of a run's returns, and how all plots of returns look.

Colours are those of Okabe and Ito ("Color Universal Design", 2008), which colour-blind people can distinguish. PDFs
embed their fonts, so that text can be searched; SVGs contain text as paths.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from headrace.train.runs import files
from headrace.train.runs.files import replacing
from headrace.train.runs.folder import RunFolder
from headrace.train.runs.metrics import read_metrics, seconds_of
from headrace.train.settings.config import Config

Axis = Literal["steps", "seconds"]
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
GREYS = ("#555555", "#999999")  # for baselines
STYLE: dict[str, Any] = {
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.8,
    "axes.grid": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "legend.frameon": False,
    "lines.linewidth": 1.6,
    "pdf.fonttype": 42,
    "ps.fonttype": 42,
    "svg.fonttype": "path",
    "savefig.dpi": 200,
}
FEW = 60  # maximum number of points of a curve that has markers
PANEL = (3.6, 2.7)  # inches
AXES: dict[Axis, str] = {"steps": "agent steps", "seconds": "seconds of training"}


Source = Literal["training", "evaluation"]
"""the source of returns: episodes of training, or evaluations, which have no exploration"""


@dataclass(frozen=True)
class Curve:
    """The returns of one run.

    Attributes:
        steps, seconds, returns: agent steps, seconds of training and mean returns, float64 [M], without nan.
    """

    path: Path
    config: Config
    steps: np.ndarray
    seconds: np.ndarray
    returns: np.ndarray


def read_curve(path: str | Path, source: Source = "training") -> Curve:
    """Returns the curve of a run, possibly of length 0."""
    run, config = RunFolder.read(path)
    lines = read_metrics(run.metrics_file)
    points = _evaluations(lines) if source == "evaluation" else [(line["step"], line, line) for line in lines]
    rows = [(step, seconds_of(line), measured.get("return")) for step, line, measured in points]
    known = [row for row in rows if None not in (files.number(row[0]), files.number(row[2]))]
    kept = np.array(known, dtype=np.float64).reshape(-1, 3)  # None becomes nan
    return Curve(Path(path), config, kept[:, 0], kept[:, 1], kept[:, 2])


def _evaluations(lines: Sequence[dict[str, Any]]) -> list[tuple[Any, dict[str, Any], dict[str, Any]]]:
    found: dict[Any, tuple[Any, dict[str, Any], dict[str, Any]]] = {}
    for line in lines:
        known = line.get("evaluation")
        if isinstance(known, dict) and files.number(known.get("step")) is not None:
            found.setdefault(known["step"], (known["step"], line, known))
    return list(found.values())


def plot_returns(run_dir: str | Path) -> Path:
    """Plots a run's mean return over agent steps, and over seconds, into its ``curve.png``; returns the path.

    The returns of evaluations, which have no exploration, are a second curve.

    Raises:
        ImportError: matplotlib is not installed.
        StateError: the run's settings or metrics are damaged.
    """
    from matplotlib.figure import Figure

    run, config = RunFolder.read(run_dir)
    curves = [
        (f"training, last {config.stop_episodes} episodes", read_curve(run_dir)),
        ("evaluation, without exploration", read_curve(run_dir, "evaluation")),
    ]
    with plot_style():
        figure = Figure(figsize=(2 * PANEL[0] + 1, PANEL[1] + 0.4), layout="constrained")
        for ax, axis in zip(figure.subplots(1, 2, sharey=True), AXES, strict=True):
            for (name, curve), colour in zip(curves, COLOURS, strict=False):
                x, y = points_of(curve, axis)
                if len(x):  # with markers if there are few points, so that a single one is visible
                    ax.plot(x, y, marker="o" if len(x) <= FEW else None, markersize=3, label=name, color=colour)
            if config.stop_at_return is not None:
                ax.axhline(config.stop_at_return, color=GREYS[0], linestyle=":", linewidth=1, label="goal")
            finish_axes(ax, axis, "mean return")
        if not any(len(curve.steps) for _, curve in curves):
            figure.axes[0].text(0.5, 0.5, "no episode ended", transform=figure.axes[0].transAxes, ha="center")
        figure.suptitle(f"{config.task}, {config.algo}, seed {config.seed}")
        add_legend(figure)
        with replacing(run.plot_file) as temporary:
            figure.savefig(temporary, dpi=120, format="png")
    return run.plot_file


def plot_style() -> AbstractContextManager[None]:
    """Returns a context with matplotlib's settings for these plots, independent of the user's."""
    import matplotlib as mpl

    settings: dict[Any, Any] = {**mpl.rcParamsDefault, **STYLE, "backend": mpl.rcParams["backend"]}
    return mpl.rc_context(settings)


def points_of(curve: Curve, axis: Axis) -> tuple[np.ndarray, np.ndarray]:
    """Returns x and y, float64 [M], of the points with a known x."""
    x = curve.steps if axis == "steps" else curve.seconds
    known = np.isfinite(x)
    return x[known], curve.returns[known]


def finish_axes(ax: Any, axis: Axis, what: str) -> None:
    from matplotlib.ticker import EngFormatter, MaxNLocator

    ax.xaxis.set_major_locator(MaxNLocator(6))
    ax.xaxis.set_major_formatter(EngFormatter(sep="") if axis == "steps" else "{x:,g}")
    ax.set(xlim=(0, None), xlabel=AXES[axis])
    if ax.get_subplotspec().is_first_col():
        ax.set_ylabel(what)


def add_legend(figure: Any) -> None:
    each = [pair for ax in figure.axes for pair in zip(*ax.get_legend_handles_labels(), strict=True)]
    handles = {label: handle for handle, label in reversed(each)}
    handles = {
        label: handles[label] for label in sorted(handles, key=lambda label: handles[label].get_color() in GREYS)
    }
    if handles:
        longest = max(map(len, handles))
        columns = max(1, min(len(handles), math.floor(figure.get_size_inches()[0] * 13 / (longest + 6))))
        figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=columns)
