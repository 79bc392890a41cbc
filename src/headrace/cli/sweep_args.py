"""The arguments of ``headrace sweep``, for the command and for what it runs once they are right."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from headrace.cli.options import optional
from headrace.studies.sweep.plan import PrunerName, SamplerName


@dataclass(frozen=True)
class SweepArgs:
    """Search for the best hyperparameters with many runs, and stop poor ones early.

    All other options of headrace train apply to every trial; stop_at_return is None unless it is given. The sweep's
    folder contains sweep.json, an Optuna study, and each trial as a run, which headrace watch and headrace plot show.
    Ctrl-C stops all trials with checkpoints; --resume continues a sweep, also after a kill.

    examples:
      headrace sweep CartPole-v1 --space learning_rate=1e-4..1e-2:log num_steps=16,32,64 --trials 30
      headrace sweep Pendulum-v1 --algo sac --space space.toml --sampler random --total-steps 20000
      headrace sweep --resume runs/CartPole-v1-20260101-120000 --trials 60
    """

    task: Annotated[str, tyro.conf.Positional, optional("TASK")] = ""
    """name of the task; headrace envs lists them"""
    space: Annotated[tuple[str, ...], optional("NAME=VALUES …")] = ()
    """settings to vary: name=low..high, name=low..high:log, name=value,value,…, or a TOML or JSON file"""
    trials: int = 20
    """number of runs"""
    sampler: SamplerName = "tpe"
    """method that chooses settings: Optuna's random search, tpe or gp"""
    pruner: PrunerName = "median"
    """trials that stop early: those below the median of the others (median), all but the best third (halving), none"""
    metric: Literal["final", "area"] = "final"
    """objective to maximize: the last mean return (final), or the mean return over all steps (area)"""
    sampler_seed: int = 1
    """seed of the sampler; --seed is that of the runs"""
    jobs: int = 0
    """number of simultaneous runs; 0 for as many as the cores allow"""
    run_dir: Annotated[Path | None, optional("PATH")] = None
    """folder of the sweep; by default a new one in runs/"""
    resume: Annotated[Path | None, optional("PATH")] = None
    """folder of a sweep to continue, instead of a task"""
    trust: bool = False
    """do what a sweep of --resume, or a file among the options, asks for, such as running code, even if you have not
    agreed to it before"""
    quiet: bool = False
    """show no progress"""
