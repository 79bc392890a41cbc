"""Groups of runs that differ only in their seed: a plot shows each as one line with a band.

The grouping is defined here for the command and for all plots.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.errors import HeadraceError, OptionError
from headrace.train.logging.plot import Curve, Source, read_curve
from headrace.train.runs import files
from headrace.train.settings.config import Config

MOST_NAMED = 3  # maximum number of settings in a label
SWEEP = "sweep.json"  # the plan of a sweep, beside its trials


@dataclass(frozen=True)
class Group:
    """Runs that differ only in their seed.

    Attributes:
        label: the settings in which the group differs from the other groups of its task.
        curves: the curves of its runs, sorted by seed.
    """

    label: str
    curves: tuple[Curve, ...]

    @property
    def task(self) -> str:
        return self.curves[0].config.task

    def counted(self, count: int) -> str:
        """Returns in words how many seeds so many of its curves have, or runs, where two have the same seed."""
        seeds = {curve.config.seed for curve in self.curves}
        return f"{count} {'seed' if len(seeds) == len(self.curves) else 'run'}{'s' if count > 1 else ''}"


def read_curves(
    runs: Iterable[Path], source: Source = "training", skipped: Callable[[str], object] = print
) -> list[Curve]:
    """Returns the curves of runs, without runs that cannot be read or have no returns.

    Args:
        source: the source of returns.
        skipped: called with a message for each run that is left out.
    """
    curves = []
    for path in runs:
        try:
            curve = read_curve(path, source)
        except (HeadraceError, json.JSONDecodeError) as error:
            skipped(f"left out: {error}")
            continue
        if len(curve.steps):
            curves.append(curve)
        else:
            skipped(f"left out: {path} has no {'episode that ended' if source == 'training' else 'evaluation'}")
    return curves


# -- groups --------------------------------------------------------------------------------------


def grouped(curves: Iterable[Curve], labels: Sequence[str] = ()) -> dict[str, list[Group]]:
    """Returns task → groups of its runs, in the order of their first runs.

    Args:
        labels: labels of the groups of each task, in their order; derived from the settings by default.

    Raises:
        OptionError: the number of labels differs from the number of a task's groups.
    """
    tasks: dict[str, dict[str, list[Curve]]] = {}
    for curve in curves:
        key = json.dumps(deciding(curve.config), sort_keys=True, default=str)
        tasks.setdefault(curve.config.task, {}).setdefault(key, []).append(curve)
    return {task: _labelled(list(groups.values()), labels) for task, groups in tasks.items()}


def deciding(config: Config) -> dict[str, Any]:
    """Returns the settings that affect a run's learning or its speed: all but the seed and those of its output."""
    known = config.algorithm.settings
    return {
        name: value
        for name, value in vars(config).items()
        if name != "seed" and known[name].group != "files" and not name.startswith("viewer")
    }


def _labelled(groups: list[list[Curve]], labels: Sequence[str]) -> list[Group]:
    if labels and len(labels) != len(groups):
        task, count = groups[0][0].config.task, len(groups)
        raise OptionError(f"{len(labels)} labels were given, but {task} has {count} group{'s' if count > 1 else ''}")
    swept = sorted({name for curves in groups for curve in curves for name in _swept(curve.path.parent / SWEEP)})
    labels = labels or labels_of([deciding(curves[0].config) for curves in groups], swept)
    return [
        Group(label, tuple(sorted(curves, key=lambda curve: curve.config.seed)))
        for label, curves in zip(labels, groups, strict=True)
    ]


def _swept(plan: Path) -> list[str]:
    """Returns the names of the settings that a sweep with this plan varies; empty if there is no such file."""
    try:
        return list(json.loads(files.read(plan))["space"])
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return []


def labels_of(settings: Sequence[Mapping[str, Any]], swept: Sequence[str] = ()) -> list[str]:
    """Returns a label for each of several runs' settings: the algorithm, and differences from other runs with it.

    Differences that follow from another algorithm are left out. All settings that were ``swept`` are named, at first.
    """
    labels = []
    for own in settings:
        alike = [other for other in settings if other["algo"] == own["algo"]]
        differing = [name for name in own if any(other.get(name) != own[name] for other in alike)]
        differing.sort(key=lambda name: name not in swept)
        most = max(MOST_NAMED, len(swept))
        words = [f"{name.replace('_', ' ')} {_word(own[name])}" for name in differing[:most]]
        more = [f"and {len(differing) - most} more"] if len(differing) > most else []
        several = len({other["algo"] for other in settings}) > 1
        algo = own["algo"].rpartition(":")[2] if ":" in own["algo"] else own["algo"].upper()
        labels.append(", ".join([*([algo] if several or not words else []), *words, *more]))
    return [label if labels.count(label) == 1 else f"{label} ({i})" for i, label in enumerate(labels, 1)]


def _word(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.3g}"
    return "×".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
