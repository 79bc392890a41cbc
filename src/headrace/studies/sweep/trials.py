"""The files of a sweep: the plan in ``sweep.json``, and a file with a line for each change of a trial's state.

An interrupted sweep continues from these files and the metrics of its runs, from which samplers and pruners are made.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from headrace.errors import OptionError, StateError
from headrace.train.runs import files, writing

FILE = "sweep.json"
TRIALS = "trials.jsonl"
Line = dict[str, Any]
"""a line of a run's metrics"""


@dataclass(frozen=True)
class Plan:
    """The plan of a sweep, as ``sweep.json`` holds it.

    Attributes:
        settings: keyword arguments of `headrace.train.train` that all trials share.
        space: name → the values to choose from, as `headrace.studies.sweep.space.plain_space` returns them.
        total_steps: agent steps of a trial that is not pruned.
        sampler, pruner: names of the sampler and the pruning rule.
        metric: the quantity to maximise: ``final``, the last mean return, or ``area``, the mean return over all steps.
    """

    task: str
    settings: dict[str, Any]
    space: dict[str, Any]
    total_steps: int
    trials: int = 20
    sampler: str = "tpe"
    pruner: str = "median"
    metric: str = "final"
    seed: int = 1

    @property
    def algo(self) -> str:
        return self.settings["algo"]

    @classmethod
    def read(cls, folder: Path) -> Plan:
        """Returns the plan of a sweep's folder.

        Raises:
            OptionError: there is no plan in the folder.
            StateError: the plan is damaged.
        """
        file = folder / FILE
        if not file.is_file():
            raise OptionError(f"{folder} holds no sweep: it has no {FILE}")
        try:
            plan = cls(**json.loads(files.read(file)))
            described = isinstance(plan.settings["algo"], str) and isinstance(plan.space, dict) and plan.space
            if not (described and plan.trials > 0 and plan.total_steps > 0):
                raise ValueError("it must hold a task, settings with an algo, a space and numbers of trials and steps")
            return plan
        except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
            raise StateError(f"{file} cannot be read: {error}") from error

    def write(self, folder: Path) -> None:
        """Writes the plan into a folder; raises `StorageError` if the folder cannot be written."""
        writing.replace(folder / FILE, json.dumps(asdict(self), indent=2) + "\n")


@dataclass(frozen=True)
class Trial:
    """A trial of a sweep: a run with its own settings.

    Attributes:
        number: its number, from 0.
        settings: the settings that the sweep varies, name → value.
        state: ``"running"``, also if it was interrupted; ``"complete"``, ``"pruned"`` or ``"failed"``.
        value: value of the metric at its end, also for a pruned trial; None if no episode ended.
        seconds: seconds of training.
        note: the reason why it was pruned or failed.
    """

    number: int
    settings: dict[str, Any]
    state: str = "running"
    value: float | None = None
    steps: int = 0
    seconds: float = 0.0
    note: str = ""

    @property
    def name(self) -> str:
        return f"trial-{self.number}"


def append(folder: Path, trial: Trial) -> None:
    """Appends the present state of a trial; raises `StorageError` if the file cannot be written."""
    with writing.writing(folder / TRIALS):
        files.append(folder / TRIALS, json.dumps(asdict(trial)).encode() + b"\n")
    writing.flush(folder / TRIALS)


def read_trials(folder: Path, names: set[str]) -> list[Trial]:
    """Returns the present states of a sweep's trials by number; an incomplete last line is ignored.

    Args:
        names: names of the settings that the sweep varies.

    Raises:
        StateError: the file cannot be read, or another line is damaged.
    """
    file = folder / TRIALS
    trials: dict[int, Trial] = {}
    try:
        lines = files.read(file).split(b"\n")
    except FileNotFoundError:
        return []
    except OSError as error:
        raise StateError(f"{file} cannot be read: {error}") from error
    for number, line in enumerate(lines, 1):
        try:
            trial = Trial(**json.loads(line))
            if trial.settings.keys() != names:
                raise ValueError(f"its settings must be {', '.join(sorted(names))}")
            if trial.value is not None and files.number(trial.value) is None:
                raise ValueError(f"its value {trial.value!r} must be a number, or null")
            trials[int(trial.number)] = trial
        except (ValueError, TypeError, AttributeError, OverflowError, RecursionError) as error:
            if number == len(lines):  # a line that was being written when the sweep was killed, or an empty one
                break
            raise StateError(f"{file}, line {number}: no trial: {error}") from error
    return [trials[number] for number in sorted(trials)]


def drop_incomplete_line(folder: Path) -> None:
    """Removes an incomplete last line, so that further lines can be appended."""
    file = folder / TRIALS
    with writing.writing(file), suppress(FileNotFoundError):
        if (text := files.read(file)) and not text.endswith(b"\n"):
            os.truncate(files.regular(file), text.rfind(b"\n") + 1)


def value_of(metric: str, lines: list[Line]) -> float | None:
    """Returns the metric of a run from its lines; None if no episode has ended.

    Args:
        metric: ``"final"`` or ``"area"``, as for `Plan`.
        lines: the lines of the run's ``metrics.jsonl``.
    """
    known = [(files.number(line["step"]), files.number(line.get("return"))) for line in lines]
    known = [pair for pair in known if None not in pair]
    if not known:
        return None
    steps, returns = np.array(known, dtype=np.float64).T
    if metric == "final" or len(known) == 1 or steps[-1] == steps[0]:
        return float(returns[-1])
    return float(np.trapezoid(returns, steps) / (steps[-1] - steps[0]))


def ended(trial: Trial, state: str, value: float | None, steps: int, seconds: float, note: str = "") -> Trial:
    """Returns a trial with its final state, whose attributes are the other arguments; see `Trial`."""
    return replace(trial, state=state, value=value, steps=steps, seconds=seconds, note=note)
