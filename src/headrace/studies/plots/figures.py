"""Plots of many runs, for a page or a paper."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np

from headrace.errors import OptionError
from headrace.studies.plots.bands import COVERAGE, RESAMPLES, Mean, band, smoothed
from headrace.studies.plots.baselines import Baseline
from headrace.studies.plots.curves import Group
from headrace.train.logging.plot import (
    COLOURS,
    GREYS,
    PANEL,
    Axis,
    Source,
    add_legend,
    finish_axes,
    plot_style,
    points_of,
)
from headrace.train.runs.files import replacing, writing

STYLES = ("-", "--", "-.", ":")  # line styles; the next one is taken after all colours have been used
SEEDS_SHOWN = 8  # maximum number of seeds whose curves are drawn beside their band
MOST_COLUMNS = 3
FORMATS = (".png", ".svg", ".pdf")
MEANS: dict[Mean, str] = {"iqm": "interquartile mean", "mean": "mean", "median": "median"}


@dataclass(frozen=True)
class PlotOptions:
    """The options of a plot of several runs.

    Attributes:
        mean: the kind of mean over seeds.
        source: the source of returns.
        axes: the horizontal axes; each task has a panel for each.
        smooth: length of the mean, see `headrace.studies.plots.bands.smoothed`.
    """

    mean: Mean = "iqm"
    source: Source = "training"
    axes: tuple[Axis, ...] = ("steps", "seconds")
    smooth: float = 0.0


def check_format(path: Path) -> None:
    """Raises `OptionError` unless a plot's file name has the suffix of a supported format."""
    if path.suffix.lower() not in FORMATS:
        raise OptionError(f"{path} must end in {', '.join(FORMATS)}, which says what kind of file is written")


def plot_groups(
    tasks: Mapping[str, Sequence[Group]],
    out: Path,
    look: PlotOptions = PlotOptions(),
    baselines: Sequence[Baseline] = (),
) -> str:
    """Draws a panel for each task and axis, a line with a band for each group; returns the caption.

    Args:
        tasks: task → groups, as `headrace.studies.plots.curves.grouped` returns.
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
    with plot_style():
        figure = Figure(figsize=(PANEL[0] * columns, PANEL[1] * rows + 0.2), layout="constrained")
        sharey = "row" if len(look.axes) > 1 else "none"
        grid = figure.subplots(rows, columns, squeeze=False, sharey=sharey).flat
        for ax, (task, axis) in zip(grid, panels, strict=False):
            for group in tasks[task]:
                _draw_group(ax, group, axis, look, looks[group.label])
            for baseline in baselines:
                if baseline.task in ("", task):
                    _draw_baseline(ax, baseline, axis, looks[baseline.name])
            finish_axes(ax, axis, f"{'evaluation' if look.source == 'evaluation' else 'mean'} return")
            ax.set_title(task)
        for ax in list(grid)[len(panels) :]:
            ax.set_axis_off()
        add_legend(figure)
        with writing(out), replacing(out) as temporary:
            figure.savefig(temporary, metadata=_metadata(out), format=out.suffix.removeprefix("."))
    return _caption([group for groups in tasks.values() for group in groups], look)


def _looks(tasks: Mapping[str, Sequence[Group]], baselines: Sequence[Baseline]) -> dict[str, dict[str, str]]:
    """Returns the label of a group or the name of a baseline → colour and style, which are the same in all panels."""
    labels = dict.fromkeys(group.label for groups in tasks.values() for group in groups)
    styles = [{"color": colour, "linestyle": style} for style in STYLES for colour in COLOURS]
    looks = dict(zip(labels, cycle(styles), strict=False))
    greys = cycle({"color": grey, "linestyle": style} for style in ("--", ":", "-.") for grey in GREYS)
    return dict(zip(dict.fromkeys(each.name for each in baselines), greys, strict=False)) | looks


def _draw_group(ax: Any, group: Group, axis: Axis, look: PlotOptions, style: dict[str, str]) -> None:
    """Draws the mean and its band, and, if there are few seeds, the curve of each in a faint colour."""
    curves = [points for curve in group.curves if len((points := points_of(curve, axis))[0])]
    if not curves:
        return
    count = len(curves)
    if 1 < count <= SEEDS_SHOWN:
        for x, y in curves:
            ax.plot(x, smoothed(x, y, look.smooth), color=style["color"], alpha=0.25, linewidth=0.7)
    middle = band(curves, look.mean, look.smooth)
    seeds = group.counted(count)
    if middle is None:  # the curves share no part of the axis
        ax.plot([], [], label=f"{group.label} ({seeds})", **style)
        return
    if count > 1:
        ax.fill_between(middle.x, middle.low, middle.high, color=style["color"], alpha=0.2, linewidth=0)
    marker = "o" if len(middle.x) == 1 else None
    ax.plot(middle.x, middle.middle, label=f"{group.label} ({seeds})", marker=marker, markersize=4, **style)


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
