"""The results of a sweep for tables and pages, read from its folder without importing torch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import optuna
from optuna.importance import PedAnovaImportanceEvaluator, get_param_importances
from optuna.trial import FrozenTrial, TrialState

from headrace.studies.jobs.processes import MetricsTail
from headrace.studies.sweep.plan import Plan
from headrace.studies.sweep.study import STATES, best_of, load_study, run_name, value_of
from headrace.train.runs import trust

LEAST = 8  # minimum number of trials for importances


def summary(folder: str | Path) -> dict[str, Any]:
    """Returns the plan, trials and importances of a sweep, in types that JSON can represent.

    Returns:
        ``task``, ``algo``, ``metric``, ``sampler``, ``pruner``, ``total_steps``, ``planned`` (number of trials);
        ``space``: name → ``{"low", "high", "log"}`` or ``{"values"}``; ``trials``: dicts with ``number``, ``run`` (the
        name of its folder), ``settings``, ``state`` (``"running"``, also if it was interrupted, ``"complete"``,
        ``"pruned"`` or ``"failed"``), ``value``, ``steps``, ``seconds`` and ``note``, the reason why it was pruned or
        failed; the value of a running or a pruned trial is the one that it has reached;
        ``best``: number of the best trial, or None; ``importance``: ``{"measure": text, "values": name → share}``, or
        None for too few trials.

    Raises:
        OptionError: there is no sweep in this folder, or it is one of an earlier version.
        StateError: the files of the sweep are damaged.
        TrustError: its algorithm is code that the user has not agreed to run.
    """
    folder = Path(folder)
    plan = Plan.read(folder)
    trust.admit({"algo": plan.algo}, folder, trust=False)  # whose settings are those of the space
    study = load_study(folder, plan)
    best = best_of(study)
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
        "trials": [_shown(folder, plan, trial) for trial in study.trials],
        "best": None if best is None else best.number,
        "importance": importance(study),
    }


def _shown(folder: Path, plan: Plan, trial: FrozenTrial) -> dict[str, Any]:
    known = {"steps": 0, "seconds": 0.0, "note": ""} | trial.user_attrs
    shown = {"number": trial.number, "run": run_name(trial), "settings": trial.params, "state": STATES[trial.state]}
    shown |= {name: known[name] for name in ("steps", "seconds", "note")} | {"value": trial.value}
    if trial.state == TrialState.RUNNING:
        lines = MetricsTail(folder / shown["run"] / "metrics.jsonl").refresh()
        shown |= {"value": value_of(plan.metric, lines), "steps": lines[-1]["step"] if lines else 0}
    return shown


def importance(study: optuna.Study) -> dict[str, Any] | None:
    """Returns the importance of each setting for the values of complete trials; None for too few trials.

    It is PED-ANOVA (Watanabe, Bansal and Hutter, IJCAI 2023), a measure of how much the values of a setting in the best
    trials differ from its values in all trials. Shares add up to 1.
    """
    values = [trial.value for trial in study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))]
    if len(values) < LEAST or len({*values}) == 1:
        return None
    found = get_param_importances(study, evaluator=PedAnovaImportanceEvaluator())
    return {"measure": "PED-ANOVA, of the best tenth of trials against all", "values": found}
