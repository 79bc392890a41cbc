"""The plan of a sweep, in the file ``sweep.json`` of its folder; read without Optuna."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from headrace.errors import OptionError, StateError
from headrace.train.runs import files

FILE = "sweep.json"
JOURNAL = "trials.journal"  # the study, beside the plan
SamplerName = Literal["random", "tpe", "gp"]
PrunerName = Literal["median", "halving", "none"]


@dataclass(frozen=True)
class Plan:
    """The plan of a sweep, as ``sweep.json`` holds it.

    Attributes:
        settings: keyword arguments of `headrace.train.train` that all trials share.
        space: name → the values to choose from, as `headrace.studies.sweep.space.plain_space` returns them.
        total_steps: agent steps of a trial that is not pruned.
        sampler, pruner: which of Optuna's samplers and pruners choose settings and end trials early.
        metric: the quantity to maximise: ``final``, the last mean return, or ``area``, the mean return over all steps.
    """

    task: str
    settings: dict[str, Any]
    space: dict[str, Any]
    total_steps: int
    trials: int = 20
    sampler: SamplerName = "tpe"
    pruner: PrunerName = "median"
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
            raise OptionError(f"{folder} is not the folder of a sweep: it has no {FILE}")
        try:
            plan = cls(**json.loads(files.read(file)))
            described = isinstance(plan.settings["algo"], str) and isinstance(plan.space, dict) and plan.space
            named = plan.sampler in get_args(SamplerName) and plan.pruner in get_args(PrunerName)
            if not (described and named and plan.trials > 0 and plan.total_steps > 0):
                raise ValueError(
                    "it must hold a task, settings with an algo, a space, numbers of trials and steps, a sampler and a "
                    "pruner"
                )
            return plan
        except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
            raise StateError(f"{file} cannot be read: {error}") from error

    def write(self, folder: Path) -> None:
        """Writes the plan into a folder; raises `StorageError` if the folder cannot be written."""
        files.replace(folder / FILE, json.dumps(asdict(self), indent=2) + "\n")
