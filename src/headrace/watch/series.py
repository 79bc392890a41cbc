"""The metrics of a run as columns of numbers, updated as the run writes them.

Every number of a line belongs to a column named by its path in the line, such as ``loss/entropy`` or ``time/env``, for
any names that an algorithm reports.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from headrace.train.runs.files import number
from headrace.train.runs.metrics import Tail, measurement, sample, seconds_of

DEEPEST = 6  # greatest depth of nested objects
MOST_COLUMNS = 500
SPARK = 40  # number of lines of a file for its small plot
RECENT = 60.0  # seconds over which the rate is measured
SHOWN = 60  # number of bytes of a damaged line that a message shows


class Series:
    """All lines of a ``metrics.jsonl``.

    Args:
        path: the file.

    Attributes:
        generation: a number that increases whenever earlier lines become invalid, as when a run is resumed.
        count: number of lines read.
        problem: a description of the error that stopped reading before the end; empty if there was none.
    """

    def __init__(self, path: Path):
        self._path, self._tail = path, Tail(path)
        self.generation, self.count, self.problem = 0, 0, ""
        self._columns: dict[str, array[float]] = {}

    def refresh(self) -> None:
        """Reads the new lines of the file."""
        try:
            anew, lines = self._tail.read()
        except OSError as error:
            self.problem = f"{self._path.name} cannot be read: {error.strerror}"
            return
        if anew:
            self.generation, self.count, self.problem = self.generation + 1, 0, ""
            self._columns.clear()
        for line in lines:
            if self.problem:
                return
            self._add(line)

    def rows(self, first: int = 0) -> dict[str, np.ndarray]:
        """Returns name → column from row ``first`` on, float64[rows], with NaN where a line lacks the number."""
        return {name: np.array(column[first:]) for name, column in self._columns.items()}

    def evaluations(self) -> dict[str, np.ndarray]:
        """Returns name → column float64[k] of the k rows with a new evaluation, at agent step ``evaluation/step``.

        Returns an empty dict if there are none.
        """
        columns = self.rows()
        if not {"evaluation/step", "evaluation/return"} <= columns.keys():
            return {}
        steps = columns["evaluation/step"]
        known = np.flatnonzero(np.isfinite(steps))
        new = known[np.flatnonzero(np.diff(steps[known], prepend=math.nan))]
        return {name: column[new] for name, column in columns.items()}

    def _add(self, line: bytes) -> None:
        values = measurement(line)
        if values is None:
            shown = line[:SHOWN].decode(errors="replace")
            self.problem = f"{self._path.name}, line {self.count + 1}: no measurement of a run: {shown!r}"
            return
        for name, value in numbers(values):
            column = self._columns.get(name)
            if column is None:
                if len(self._columns) >= MOST_COLUMNS:
                    continue
                column = self._columns[name] = array("d", [math.nan]) * self.count
            column.append(value)
        self.count += 1
        for column in self._columns.values():
            if len(column) < self.count:
                column.append(math.nan)


def numbers(values: Mapping[str, Any], prefix: str = "", depth: int = 0) -> Iterator[tuple[str, float]]:
    """Yields (path, number) for all numbers of nested objects."""
    for name, value in values.items():
        if isinstance(value, dict) and depth < DEEPEST:
            yield from numbers(value, f"{prefix}{name}/", depth + 1)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            try:
                yield prefix + name, float(value)
            except OverflowError:  # an integer outside the range of floats
                yield prefix + name, math.inf if value > 0 else -math.inf


def window(columns: dict[str, np.ndarray], axis: str, low: float, high: float) -> dict[str, np.ndarray]:
    """Returns the rows whose value of column ``axis`` is in [low, high], and one more on each side.

    Returns all rows if there is no such column.
    """
    if axis not in columns or (low == -math.inf and high == math.inf):
        return columns
    below, above = np.flatnonzero(columns[axis] < low), np.flatnonzero(columns[axis] > high)
    first = int(below[-1]) if below.size else 0
    last = int(above[0]) + 1 if above.size else len(columns[axis])
    return {name: column[first:last] for name, column in columns.items()}


def thin(columns: dict[str, np.ndarray], most: int) -> dict[str, np.ndarray]:
    """Returns columns [n] with at most ``most`` values each.

    Rows are divided into groups of successive rows. Of each column, the lowest and the highest value of a group are
    kept, in their order. In an increasing column, such as steps, these are the first and the last value, so that a peak
    is kept, at a position that is wrong by less than a group.
    """
    count = max(map(len, columns.values()), default=0)
    if count <= most:
        return columns
    size = -(-2 * count // max(most - 2, 2))
    groups = count // size  # the remaining rows, at least the last, are kept unchanged
    whole = groups * size
    return {
        name: np.concatenate([_extremes(column[:whole], groups, size), _rest(column[whole:])])
        for name, column in columns.items()
    }


def _extremes(column: np.ndarray, groups: int, size: int) -> np.ndarray:
    grid = column.reshape(groups, size)
    known = np.isfinite(grid)
    low, high = np.where(known, grid, np.inf).argmin(1), np.where(known, grid, -np.inf).argmax(1)
    rows = np.arange(groups)[:, None]
    return grid[rows, np.sort(np.stack([low, high], 1), 1)].reshape(-1)


def _rest(column: np.ndarray) -> np.ndarray:
    return column if len(column) <= 2 else column[[0, -1]]


@dataclass(frozen=True)
class MetricsOverview:
    """An overview of a file of metrics; a long file is not read completely.

    Attributes:
        returns: some returns, evenly spaced from the file's beginning to its end.
        last: the content of the last line; empty if there is none.
        rate: recent agent steps per second; None if unknown.
        problem: a description of an error in the lines that were read; empty if there is none.
    """

    returns: list[float]
    last: dict[str, Any]
    rate: float | None
    problem: str


def glance(path: Path) -> MetricsOverview:
    """Returns an overview of a run's metrics without reading all of them."""
    try:
        lines = sample(path, SPARK)
    except OSError as error:
        return MetricsOverview([], {}, None, f"{path.name} cannot be read: {error.strerror}")
    found = [values for line in lines if (values := measurement(line)) is not None]
    shown = found[:: max(1, len(found) // SPARK)]
    returns = [value for line in [*shown, *found[-1:]] if (value := result(line)) is not None]
    wrong = sum(1 for line in lines if line) - len(found)
    problem = f"{path.name} is damaged: it holds lines that are no measurements" if wrong else ""
    return MetricsOverview(returns, found[-1] if found else {}, _rate(found), problem)


def result(line: Mapping[str, Any]) -> float | None:
    """Returns the mean return of a line of metrics, or the Elo of self-play, whose mean return is always 0."""
    return number(line.get("elo" if "elo" in line else "return"))


def _rate(lines: list[dict[str, Any]]) -> float | None:
    """Returns agent steps per second over the last `RECENT` seconds or more; None if they cannot be computed."""
    moments = [(0.0, 0)] + [(seconds, line["step"]) for line in lines if (seconds := seconds_of(line)) is not None]
    last, step = moments.pop()
    then, before = next((each for each in reversed(moments) if last - each[0] >= RECENT), (moments or [(last, 0)])[0])
    return (step - before) / (last - then) if last > then else None
