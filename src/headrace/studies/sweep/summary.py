"""The results of a sweep for tables and pages, read from its folder without importing torch."""

from __future__ import annotations

import importlib.util
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from headrace.studies.jobs.processes import MetricsTail
from headrace.studies.sweep.samplers import study_of
from headrace.studies.sweep.search import best_of
from headrace.studies.sweep.space import Choice, Range, Space, space_of
from headrace.studies.sweep.trials import FILE, Plan, Trial, read_trials, value_of
from headrace.train.runs import trust

LEAST = 4  # minimum number of trials for importances


def is_sweep(folder: Path) -> bool:
    return (folder / FILE).is_file()


def summary(folder: str | Path) -> dict[str, Any]:
    """Returns the plan, trials and importances of a sweep, in types that JSON can represent.

    Returns:
        ``task``, ``algo``, ``metric``, ``sampler``, ``pruner``, ``total_steps``, ``planned`` (number of trials);
        ``space``: name → ``{"low", "high", "log"}`` or ``{"values"}``; ``trials``: dicts with the fields of `Trial` and
        ``run``, the name of the run's folder; the value of a running trial is the one that it has reached;
        ``best``: number of the best trial, or None; ``importance``: ``{"measure": text, "values": name → share}``, or
        None for too few trials.

    Raises:
        OptionError: there is no sweep in this folder.
        StateError: the files of the sweep are damaged.
        TrustError: its algorithm is code that the user has not agreed to run.
    """
    folder = Path(folder)
    plan = Plan.read(folder)
    trust.admit({"algo": plan.algo}, folder, trust=False)  # whose settings are those of the space
    space = space_of(plan.space, plan.algo)
    trials = read_trials(folder, {*space})
    best = best_of(trials)
    named = {name: value if isinstance(value, dict) else {"values": value} for name, value in plan.space.items()}
    return {
        "task": plan.task,
        "algo": plan.algo,
        "metric": plan.metric,
        "sampler": plan.sampler,
        "pruner": plan.pruner,
        "total_steps": plan.total_steps,
        "planned": plan.trials,
        "space": named,
        "trials": [_shown(folder, plan, trial) for trial in trials],
        "best": None if best is None else best.number,
        "importance": importance(space, trials),
    }


def _shown(folder: Path, plan: Plan, trial: Trial) -> dict[str, Any]:
    values = asdict(trial) | {"run": trial.name}
    if trial.state == "running":
        lines = MetricsTail(folder / trial.name / "metrics.jsonl").new()
        values |= {"value": value_of(plan.metric, lines), "steps": lines[-1]["step"] if lines else 0}
    return values


def importance(space: Space, trials: list[Trial]) -> dict[str, Any] | None:
    """Returns the importance of each setting for the values of complete trials; None for too few trials.

    With Optuna it is PED-ANOVA (Watanabe, Bansal and Hutter, IJCAI 2023), a measure of how much the values of a setting
    in the best trials differ from its values in all trials. Without Optuna it is the square of Spearman's rank
    correlation with the value, or for choices the correlation ratio of the ranks, which do not detect an optimum
    between the ends of a range. Shares add up to 1.
    """
    known = [trial for trial in trials if trial.state == "complete" and trial.value is not None]
    if len(known) < LEAST or len({trial.value for trial in known}) == 1:
        return None
    if importlib.util.find_spec("optuna") is not None and len(known) >= 2 * LEAST:
        from optuna.importance import PedAnovaImportanceEvaluator, get_param_importances

        found = get_param_importances(study_of(space, known), evaluator=PedAnovaImportanceEvaluator())
        measure = "PED-ANOVA, of the best tenth of trials against all"
    else:
        found = {name: _correlation(dimension, name, known) for name, dimension in space.items()}
        measure = "squared rank correlation with the value"
    total = sum(found.values()) or 1.0
    shares = {name: float(found.get(name, 0.0)) / total for name in space}
    return {"measure": measure, "values": dict(sorted(shares.items(), key=lambda pair: -pair[1]))}


def _correlation(dimension: Range | Choice, name: str, trials: list[Trial]) -> float:
    ranks = _ranks(np.array([trial.value for trial in trials], dtype=np.float64))
    if isinstance(dimension, Range):
        own = _ranks(np.array([trial.settings[name] for trial in trials], dtype=np.float64))
        return float(np.corrcoef(own, ranks)[0, 1]) ** 2 if own.std() > 0 else 0.0
    groups = [dimension.values.index(trial.settings[name]) for trial in trials]
    means = np.array([ranks[np.equal(groups, group)].mean() for group in groups])
    return float(means.var() / ranks.var())


def _ranks(values: np.ndarray) -> np.ndarray:
    """Returns the ranks of values, and for equal values their mean rank, float64 [M]."""
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(count) - (count - 1) / 2)[place]
