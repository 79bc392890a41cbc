"""Published or other results from a CSV file, for comparison with runs in plots."""

from __future__ import annotations

import csv
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from headrace.errors import OptionError

COLUMNS = ("name", "step", "return", "low", "high", "seconds", "task")
NEEDED = ("name", "return")


@dataclass(frozen=True)
class Baseline:
    """A result for comparison: a curve, or a single return as a horizontal line.

    Attributes:
        task: the task of the result; empty for all tasks.
        steps, seconds, returns, low, high: float64 [M]; nan where the file has no value. A horizontal line has one row
            without a step.
    """

    name: str
    task: str
    steps: np.ndarray
    seconds: np.ndarray
    returns: np.ndarray
    low: np.ndarray
    high: np.ndarray

    @property
    def is_level(self) -> bool:
        """Whether the result is a single return without a step."""
        return len(self.steps) == 1 and math.isnan(self.steps[0]) and math.isnan(self.seconds[0])


def read_baselines(file: str | Path) -> list[Baseline]:
    """Returns the baselines of a CSV file with the columns name, step, return and optionally low, high, seconds, task.

    Rows of one name (and task) are a curve, in the order of their steps; a single row without a step is a horizontal
    line.

    Raises:
        OptionError: the file cannot be read, lacks a column, or has a value that is not a number.
    """
    try:
        with Path(file).open(newline="", encoding="utf-8-sig") as lines:
            reader = csv.DictReader(lines, skipinitialspace=True)
            names = [name.strip() for name in reader.fieldnames or ()]
            reader.fieldnames = names
            rows = list(reader)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise OptionError(f"the baselines in {file} cannot be read: {error}") from error
    missing = [name for name in NEEDED if name not in names]
    unknown = [name for name in names if name not in COLUMNS]
    if missing or unknown:
        wrong = f"has no column {missing[0]}" if missing else f"has a column {unknown[0]!r} that means nothing here"
        raise OptionError(f"{file} {wrong}; the columns are {', '.join(COLUMNS)}, of which name and return are needed")
    curves: dict[tuple[str, str], list[list[float]]] = {}
    for number, row in enumerate(rows, 2):
        values = [_number(file, number, name, row.get(name)) for name in ("step", "seconds", "return", "low", "high")]
        if math.isnan(values[2]):
            raise OptionError(f"{file}, line {number}: the return is missing")
        curves.setdefault(((row["name"] or "").strip(), (row.get("task") or "").strip()), []).append(values)
    return [_baseline(file, name, task, np.array(sorted(values))) for (name, task), values in curves.items()]


def _number(file: str | Path, line: int, name: str, text: str | None) -> float:
    """Returns the number in a cell; nan for an empty one."""
    try:
        return float(text) if text and text.strip() else math.nan
    except ValueError:
        raise OptionError(f"{file}, line {line}: {name} must be a number, not {text!r}") from None


def _baseline(file: str | Path, name: str, task: str, values: np.ndarray) -> Baseline:
    steps, seconds, returns, low, high = values.T
    if len(values) > 1 and np.isnan(steps).any() and np.isnan(seconds).any():
        raise OptionError(f"{file}: {name!r} has several rows: each needs a step (a single row without one is a level)")
    return Baseline(name, task, steps, seconds, returns, low, high)
