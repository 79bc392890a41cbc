"""The trials of a sweep as an Optuna study, which lies in the sweep's folder as a journal."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import optuna
from optuna.pruners import BasePruner, MedianPruner, NopPruner, SuccessiveHalvingPruner
from optuna.samplers import BaseSampler, GPSampler, RandomSampler, TPESampler
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import FrozenTrial, TrialState

from headrace.errors import OptionError, StateError
from headrace.studies.sweep.plan import FILE, JOURNAL, Plan, PrunerName, SamplerName
from headrace.studies.sweep.space import space_of
from headrace.train.runs import files
from headrace.train.runs.files import writing

OLD_TRIALS = "trials.jsonl"  # of sweeps without a study
NAME = "sweep"  # of the only study in the journal
Line = dict[str, Any]
"""a line of a run's metrics"""
SAMPLERS: dict[SamplerName, Callable[[int], BaseSampler]] = {
    "random": lambda seed: RandomSampler(seed),
    "tpe": lambda seed: TPESampler(seed=seed, multivariate=True, constant_liar=True),
    "gp": lambda seed: GPSampler(seed=seed),
}
"""name → a function that returns the sampler for a seed"""
PARTS: dict[PrunerName, int] = {"median": 10, "halving": 27, "none": 10}
"""the number of equal parts of a run, after each of which its return is reported"""
STATES = {
    TrialState.RUNNING: "running",
    TrialState.WAITING: "running",
    TrialState.COMPLETE: "complete",
    TrialState.PRUNED: "pruned",
    TrialState.FAIL: "failed",
}
"""the words for the states of trials; a trial that was interrupted is running"""
ENDED = (TrialState.COMPLETE, TrialState.PRUNED)

optuna.logging.set_verbosity(optuna.logging.WARNING)


def begin_study(folder: Path) -> None:
    """Makes an empty study in a folder; raises `StorageError` if it cannot be written."""
    with writing(folder / JOURNAL):
        files.touch(folder / JOURNAL)
        optuna.create_study(storage=_storage(folder / JOURNAL), study_name=NAME, direction="maximize")


def load_study(folder: Path, plan: Plan) -> optuna.Study:
    """Returns the study in a folder.

    Raises:
        OptionError: the folder holds a sweep of an earlier version, or no sweep can have the plan's space.
        StateError: there is no study, or it is damaged.
    """
    file, space = folder / JOURNAL, space_of(plan.space, plan.algo)
    if (folder / OLD_TRIALS).exists():
        raise OptionError(f"{folder} is a sweep of an earlier version, which cannot go on: begin another one")
    try:
        files.read(file)  # raises for a link, which another process could follow out of the folder
        pruner = _pruner(plan.pruner, plan.total_steps)
        study = optuna.load_study(storage=_storage(file), study_name=NAME, pruner=pruner)
        for trial in study.trials:
            known = trial.distributions
            if not known.items() <= space.items() or (trial.state in ENDED and known.keys() != space.keys()):
                raise ValueError(f"the settings of trial {trial.number} are none of {FILE}")
        return study
    except Exception as error:  # whatever the file holds
        raise StateError(f"{file} cannot be read: {error}") from error


def repair(folder: Path) -> None:
    """Removes what a sweep leaves that is killed while it writes: an incomplete line, and the lock of the journal.

    Only for the process that holds the lock of the sweep, the only one that writes.
    """
    file = folder / JOURNAL
    with writing(file), suppress(FileNotFoundError):
        file.with_name(f"{JOURNAL}.lock").unlink(missing_ok=True)
        if (text := files.read(file)) and not text.endswith(b"\n"):
            os.truncate(files.regular(file), text.rfind(b"\n") + 1)


def rungs(rule: PrunerName, total_steps: int) -> list[int]:
    """Returns the agent steps after which the returns of trials are compared."""
    parts = PARTS[rule]
    return sorted({total_steps * part // parts for part in range(1, parts)} - {0})


def run_name(trial: FrozenTrial | optuna.Trial) -> str:
    return f"trial-{trial.number}"


def best_of(study: optuna.Study) -> FrozenTrial | None:
    """Returns the complete trial with the highest value, the first of equals; None if there is none."""
    return study.best_trial if study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,)) else None


def return_at(step: int, lines: list[Line]) -> float | None:
    """Returns the return of a run at an agent step, between the lines before and after it; None before its first.

    A run writes its lines at steps of its own, which may be far from those at which trials are compared.

    Args:
        lines: the lines of the run's ``metrics.jsonl``, up to one at this step or later.
    """
    steps, returns = _returns(lines)
    return float(np.interp(step, steps, returns)) if len(steps) and step >= steps[0] else None


def value_of(metric: str, lines: list[Line]) -> float | None:
    """Returns the metric of a run from its lines; None if no episode has ended.

    Args:
        metric: ``"final"`` or ``"area"``, as for `Plan`.
        lines: the lines of the run's ``metrics.jsonl``.
    """
    steps, returns = _returns(lines)
    if not len(steps):
        return None
    if metric == "final" or steps[-1] == steps[0]:
        return float(returns[-1])
    return float(np.trapezoid(returns, steps) / (steps[-1] - steps[0]))


def _returns(lines: list[Line]) -> np.ndarray:
    """Returns the steps and the returns of lines that have both, float64[2, lines]."""
    known = [(files.number(line["step"]), files.number(line.get("return"))) for line in lines]
    return np.array([pair for pair in known if None not in pair], dtype=np.float64).reshape(-1, 2).T


def _storage(file: Path) -> JournalStorage:
    return JournalStorage(JournalFileBackend(str(file)))


def _pruner(rule: PrunerName, total_steps: int) -> BasePruner:
    if rule == "median":
        return MedianPruner(n_startup_trials=4, n_warmup_steps=total_steps * 2 // PARTS[rule])
    if rule == "halving":
        return SuccessiveHalvingPruner(min_resource=max(1, total_steps // PARTS[rule]), reduction_factor=3)
    return NopPruner()
