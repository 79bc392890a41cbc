"""Plots of return curves: of one run into its folder, and of many runs for a page or a paper.

Colours are those of Okabe and Ito ("Color Universal Design", 2008), which colour-blind people can distinguish. PDFs
embed their fonts, so that text can be searched; SVGs contain text as paths.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import Any, Literal

import numpy as np

from headrace.errors import OptionError
from headrace.train.plots.bands import COVERAGE, RESAMPLES, Mean, band, smoothed
from headrace.train.plots.baselines import Baseline
from headrace.train.plots.curves import Curve, Group, Source, read_curve
from headrace.train.runs.folder import RunFolder
from headrace.train.runs.writing import replacing, writing

Axis = Literal["steps", "seconds"]
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
GREYS = ("#555555", "#999999")  # for baselines
STYLES = ("-", "--", "-.", ":")  # line styles; the next one is taken after all colours have been used
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
SEEDS_SHOWN = 8  # maximum number of seeds whose curves are drawn beside their band
PANEL = (3.6, 2.7)  # inches
MOST_COLUMNS = 3
FORMATS = (".png", ".svg", ".pdf")
MEANS: dict[Mean, str] = {"iqm": "interquartile mean", "mean": "mean", "median": "median"}
AXES: dict[Axis, str] = {"steps": "agent steps", "seconds": "seconds of training"}


@dataclass(frozen=True)
class PlotOptions:
    """The options of a plot of several runs.

    Attributes:
        mean: the kind of mean over seeds.
        source: the source of returns.
        axes: the horizontal axes; each task has a panel for each.
        smooth: length of the mean, see `headrace.train.plots.bands.smoothed`.
    """

    mean: Mean = "iqm"
    source: Source = "training"
    axes: tuple[Axis, ...] = ("steps", "seconds")
    smooth: float = 0.0


def check_format(path: Path) -> None:
    """Raises `OptionError` unless a plot's file name has the suffix of a supported format."""
    if path.suffix.lower() not in FORMATS:
        raise OptionError(f"{path} must end in {', '.join(FORMATS)}: which kind of file is it to be?")


def plot_groups(
    tasks: Mapping[str, Sequence[Group]],
    out: Path,
    look: PlotOptions = PlotOptions(),
    baselines: Sequence[Baseline] = (),
) -> str:
    """Draws a panel for each task and axis, a line with a band for each group; returns the caption.

    Args:
        tasks: task → groups, as `headrace.train.plots.curves.grouped` returns.
        out: the file; its suffix selects the format.
        baselines: results for comparison; one with a task is drawn in the task's panels, others in all panels.

    Raises:
        ImportError: matplotlib is not installed.
        OptionError: the file's suffix is none of `FORMATS`.
        StorageError: the file cannot be written.
    """
    check_format(out)
    from matplotlib.figure import Figure

    panels: list[tuple[str, Axis]] = [(task, axis) for task in tasks for axis in look.axes]
    columns = len(look.axes) if len(look.axes) > 1 else min(len(panels), MOST_COLUMNS)
    rows = -(-len(panels) // columns)
    looks = _looks(tasks, baselines)
    with _style():
        figure = Figure(figsize=(PANEL[0] * columns, PANEL[1] * rows + 0.2), layout="constrained")
        sharey = "row" if len(look.axes) > 1 else "none"
        grid = figure.subplots(rows, columns, squeeze=False, sharey=sharey).flat
        for ax, (task, axis) in zip(grid, panels, strict=False):
            for group in tasks[task]:
                _draw_group(ax, group, axis, look, looks[group.label])
            for baseline in baselines:
                if baseline.task in ("", task):
                    _draw_baseline(ax, baseline, axis, looks[baseline.name])
            _finish(ax, axis, f"{'evaluation' if look.source == 'evaluation' else 'mean'} return")
            ax.set_title(task)
        for ax in list(grid)[len(panels) :]:
            ax.set_axis_off()
        _legend(figure)
        with writing(out), replacing(out) as temporary:
            figure.savefig(temporary, metadata=_metadata(out), format=out.suffix.removeprefix("."))
    return _caption([group for groups in tasks.values() for group in groups], look)


def plot_returns(run_dir: str | Path) -> Path:
    """Plots a run's mean return over agent steps, and over seconds, into its ``curve.png``; returns the path.

    The returns of evaluations, which have no exploration, are a second curve.

    Raises:
        ImportError: matplotlib is not installed.
        StateError: the run's settings or metrics are damaged.
    """
    from matplotlib.figure import Figure

    run, config = RunFolder.read(run_dir)
    names = {
        "training": f"training, last {config.stop_episodes} episodes",
        "evaluation": "evaluation, without exploration",
    }
    sources: tuple[Source, ...] = ("training", "evaluation")
    curves = [(names[source], read_curve(run_dir, source)) for source in sources]
    with _style():
        figure = Figure(figsize=(2 * PANEL[0] + 1, PANEL[1] + 0.4), layout="constrained")
        axes: tuple[Axis, ...] = ("steps", "seconds")
        for ax, axis in zip(figure.subplots(1, 2, sharey=True), axes, strict=True):
            for (name, curve), colour in zip(curves, COLOURS, strict=False):
                _draw_curve(ax, curve, axis, label=name, color=colour)
            if config.stop_at_return is not None:
                ax.axhline(config.stop_at_return, color=GREYS[0], linestyle=":", linewidth=1, label="goal")
            _finish(ax, axis, "mean return")
        if not any(len(curve.steps) for _, curve in curves):
            figure.axes[0].text(0.5, 0.5, "no episode ended", transform=figure.axes[0].transAxes, ha="center")
        figure.suptitle(f"{config.task}, {config.algo}, seed {config.seed}")
        _legend(figure)
        with replacing(run.plot_file) as temporary:
            figure.savefig(temporary, dpi=120, format="png")
    return run.plot_file


def _style() -> AbstractContextManager[None]:
    """Returns a context with matplotlib's settings for these plots, independent of the user's."""
    import matplotlib as mpl

    settings: dict[Any, Any] = {**mpl.rcParamsDefault, **STYLE, "backend": mpl.rcParams["backend"]}
    return mpl.rc_context(settings)


def _looks(tasks: Mapping[str, Sequence[Group]], baselines: Sequence[Baseline]) -> dict[str, dict[str, str]]:
    """Returns the label of a group or the name of a baseline → colour and style, which are the same in all panels."""
    labels = dict.fromkeys(group.label for groups in tasks.values() for group in groups)
    styles = [{"color": colour, "linestyle": style} for style in STYLES for colour in COLOURS]
    looks = dict(zip(labels, cycle(styles), strict=False))
    greys = cycle({"color": grey, "linestyle": style} for style in ("--", ":", "-.") for grey in GREYS)
    return dict(zip(dict.fromkeys(each.name for each in baselines), greys, strict=False)) | looks


def _points(curve: Curve, axis: Axis) -> tuple[np.ndarray, np.ndarray]:
    """Returns x and y, float64 [M], of the points with a known x."""
    x = curve.steps if axis == "steps" else curve.seconds
    known = np.isfinite(x)
    return x[known], curve.returns[known]


def _draw_group(ax: Any, group: Group, axis: Axis, look: PlotOptions, style: dict[str, str]) -> None:
    """Draws the mean and its band, and, if there are few seeds, the curve of each in a faint colour."""
    curves = [points for curve in group.curves if len((points := _points(curve, axis))[0])]
    if not curves:
        return
    count = len(curves)
    if 1 < count <= SEEDS_SHOWN:
        for x, y in curves:
            ax.plot(x, smoothed(x, y, look.smooth), color=style["color"], alpha=0.25, linewidth=0.7)
    middle = band(curves, look.mean, look.smooth)
    seeds = f"{count} seed{'s' if count > 1 else ''}"
    if middle is None:  # the curves share no part of the axis
        ax.plot([], [], label=f"{group.label} ({seeds})", **style)
        return
    if count > 1:
        ax.fill_between(middle.x, middle.low, middle.high, color=style["color"], alpha=0.2, linewidth=0)
    marker = "o" if len(middle.x) == 1 else None
    ax.plot(middle.x, middle.middle, label=f"{group.label} ({seeds})", marker=marker, markersize=4, **style)


def _draw_curve(ax: Any, curve: Curve, axis: Axis, **style: Any) -> None:
    """Draws a run's curve, with markers if it has few points, so that a single point is visible."""
    x, y = _points(curve, axis)
    if len(x):
        ax.plot(x, y, marker="o" if len(x) <= FEW else None, markersize=3, **style)


def _draw_baseline(ax: Any, baseline: Baseline, axis: Axis, style: dict[str, str]) -> None:
    has_interval = np.isfinite(baseline.low) & np.isfinite(baseline.high)
    if baseline.is_level:
        ax.axhline(baseline.returns[0], label=baseline.name, linewidth=1.2, **style)
        if has_interval[0]:
            ax.axhspan(baseline.low[0], baseline.high[0], color=style["color"], alpha=0.12, linewidth=0)
        return
    x = baseline.steps if axis == "steps" else baseline.seconds
    if np.isnan(x).any():  # the baseline has no values of this axis
        return
    ax.plot(x, baseline.returns, label=baseline.name, linewidth=1.2, **style)
    if has_interval.all():
        ax.fill_between(x, baseline.low, baseline.high, color=style["color"], alpha=0.12, linewidth=0)


def _finish(ax: Any, axis: Axis, what: str) -> None:
    from matplotlib.ticker import EngFormatter, MaxNLocator

    ax.xaxis.set_major_locator(MaxNLocator(6))
    ax.xaxis.set_major_formatter(EngFormatter(sep="") if axis == "steps" else "{x:,g}")
    ax.set(xlim=(0, None), xlabel=AXES[axis])
    if ax.get_subplotspec().is_first_col():
        ax.set_ylabel(what)


def _legend(figure: Any) -> None:
    each = [pair for ax in figure.axes for pair in zip(*ax.get_legend_handles_labels(), strict=True)]
    handles = {label: handle for handle, label in reversed(each)}
    handles = {
        label: handles[label] for label in sorted(handles, key=lambda label: handles[label].get_color() in GREYS)
    }
    if handles:
        longest = max(map(len, handles))
        columns = max(1, min(len(handles), math.floor(figure.get_size_inches()[0] * 13 / (longest + 6))))
        figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=columns)


def _metadata(out: Path) -> dict[str, Any]:
    """Returns the file's metadata, without a date, so that the same runs result in the same file."""
    dates = {".svg": {"Date": None}, ".pdf": {"CreationDate": None, "ModDate": None}}
    return dates.get(out.suffix.lower(), {})


def _caption(groups: Sequence[Group], look: PlotOptions) -> str:
    first = groups[0].curves[0].config
    if look.source == "evaluation":
        what = "Returns of evaluations, which are played without exploration."
    else:
        episodes = {group.curves[0].config.stop_episodes for group in groups}
        each = f"the last {first.stop_episodes}" if len(episodes) == 1 else "each run's last (stop_episodes)"
        what = f"Each point is the mean return of {each} episodes of training."
    words = [what]
    if any(len(group.curves) > 1 for group in groups):
        words.append(
            f"Lines: {MEANS[look.mean]} over seeds, as far as all of them have come; bands: {COVERAGE:.0%} intervals "
            f"by bootstrap over seeds ({RESAMPLES:,} resamples)."
        )
    if look.smooth:
        words.append(f"Smoothed: mean over the last {look.smooth:.0%} of each run's length.")
    return " ".join(words)
