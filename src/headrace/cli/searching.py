"""What ``headrace sweep`` does once its arguments are read: begins a sweep or goes on with one, and reports it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from shlex import quote
from typing import Any

import optuna
from optuna.trial import FrozenTrial, TrialState
from rich.console import Console
from rich.table import Table

from headrace.cli import train as training
from headrace.cli.sweep_args import SweepArgs
from headrace.cli.trust import asked
from headrace.errors import OptionError
from headrace.pool.sources import as_text
from headrace.studies.jobs.processes import side_by_side
from headrace.studies.jobs.seeds import plain
from headrace.studies.sweep.plan import Plan
from headrace.studies.sweep.search import Sweep, setting_word
from headrace.studies.sweep.space import Space, candidates, plain_space, read_space, settings_of, space_of
from headrace.studies.sweep.study import STATES, begin_study, best_of, load_study, run_name
from headrace.studies.sweep.summary import importance
from headrace.train.recipes.make import DECIDING
from headrace.train.recipes.recipes import recipe_of
from headrace.train.runs.folder import make_folder
from headrace.train.runs.trust import admit, remember
from headrace.train.runs.words import return_text
from headrace.train.settings.command import option_of, setting_of, train_command
from headrace.train.settings.config import Config

SHOWN = 10  # largest number of trials in the final table
REFUSED = ("seeds", "tune", "resume", "run_dir")
"""options of headrace train that trials of a sweep cannot have"""


def search(args: SweepArgs, own: list[str], rest: list[str]) -> int:
    """Searches, and prints the best trials; returns the exit status.

    Args:
        args: the command's own arguments.
        own, rest: the words of those, and of the settings of trials.
    """
    folder, plan, config, most = _go_on(args, own, rest) if args.resume is not None else _begin(args, rest)
    if not args.quiet:
        print(f"{plan.task}, {config.algo}: {plan.trials} trials of {plan.total_steps:,} steps in {folder}")
    study = Sweep(folder, plan).run(args.jobs or most, args.quiet, args.trust)
    return _report(folder, plan, study)


def _begin(args: SweepArgs, rest: list[str]) -> tuple[Path, Plan, Config, int]:
    """Begins a sweep; returns its folder, its plan, a run's settings, and the number of runs that the cores allow."""
    if not args.task:
        raise OptionError("which task? headrace sweep TASK --space …, such as CartPole-v1; headrace envs lists them")
    for word in rest:
        if word.startswith("--") and setting_of(word) in REFUSED:
            raise OptionError(f"{word} is for headrace train, not for a sweep")
    given = plain(training.overrides(training.parse([args.task, *rest, *["--trust"] * args.trust])))
    space, _ = asked(lambda trust: read_space(args.space, given["algo"], trust), args.trust)
    if twice := space.keys() & given.keys():
        raise OptionError(f"{min(twice)} is varied by --space: leave {option_of(min(twice))} out")
    defaults = {"stop_at_return": None, "video": False}
    settings = {name: value for name, value in defaults.items() if name not in space} | given
    config, most = _checked(args.task, settings, space)
    plan = Plan(
        args.task, settings, plain_space(space), config.total_steps, args.trials, args.sampler, args.pruner,
        args.metric, args.sampler_seed,
    )  # fmt: skip
    folder = make_folder(args.run_dir, plan.task)
    for each in _settings(plan):
        remember(each)
    begin_study(folder)
    plan.write(folder)
    return folder, plan, config, most


def _settings(plan: Plan) -> list[dict[str, Any]]:
    shared = {**plan.settings, "task": plan.task}
    choices = [(name, value) for name, values in plan.space.items() if isinstance(values, list) for value in values]
    return [shared, *(shared | {name: value} for name, value in choices)]


def _checked(task: str, settings: dict[str, Any], space: Space) -> tuple[Config, int]:
    """Checks all values of the space; returns a run's settings, and the number of runs that the cores allow.

    Raises:
        OptionError: a value of the space is invalid.
    """
    algo, known = settings["algo"], list(candidates(space))
    first = {name: value for each in reversed(known) for name, value in each.items()}
    found = side_by_side(task, settings | settings_of(first, algo))
    for values in known:
        side_by_side(task, settings | settings_of(first | values, algo))
    return found


def _go_on(args: SweepArgs, own: list[str], rest: list[str]) -> tuple[Path, Plan, Config, int]:
    """Continues a sweep, whose number of trials may change; returns the same as `_begin`."""
    folder = args.resume
    assert folder is not None
    plan = Plan.read(folder)
    if args.task not in ("", plan.task):
        raise OptionError(f"{folder} is a sweep of {plan.task}: leave {args.task} out")
    for settings in _settings(plan):
        admit(settings, folder, args.trust, training=True)
    load_study(folder, plan)  # which a sweep of an earlier version has not
    given = {setting_of(word) for word in own if word.startswith("--")}
    for name, value in (("sampler", args.sampler), ("pruner", args.pruner), ("metric", args.metric)):
        if name in given and value != getattr(plan, name):
            raise OptionError(f"--{name} cannot change in the middle of a sweep: it is {getattr(plan, name)}")
    if args.space and plain_space(read_space(args.space, plan.algo, args.trust)) != plan.space:
        raise OptionError("--space cannot change in the middle of a sweep: leave it out")
    if args.run_dir is not None:
        raise OptionError("--run-dir is for new sweeps: leave it out, or --resume")
    if rest:
        now = plain(training.overrides(training.parse([plan.task, *rest])))
        wrong = [name for name, value in now.items() if name not in DECIDING or f"--{name}" in rest]
        wrong = [name for name in wrong if plan.settings.get(name) != now[name]]
        if wrong:
            raise OptionError(f"{wrong[0]} cannot change in the middle of a sweep: leave it out")
    if "trials" in given and args.trials != plan.trials:
        plan = replace(plan, trials=args.trials)
        plan.write(folder)
    config, most = _checked(plan.task, plan.settings, space_of(plan.space, plan.algo))
    return folder, plan, config, most


# -- results -------------------------------------------------------------------------------------


def _report(folder: Path, plan: Plan, study: optuna.Study) -> int:
    """Prints the best trials; returns the exit status: 0 done, 1 no trial succeeded, 130 stopped."""
    console, trials = Console(highlight=False), study.trials
    states = [STATES[trial.state] for trial in trials]
    counts = ", ".join(f"{states.count(state)} {state}" for state in dict.fromkeys(states))
    console.print(f"\n{len(trials)} trials: {counts}" if trials else "\nno trial has begun", soft_wrap=True)
    best = best_of(study)
    if best is not None:
        console.print(_table(plan, trials))
        decided = importance(study)
        if decided is not None:
            words = ", ".join(f"{name} {share:.0%}" for name, share in decided["values"].items())
            console.print(f"importance ({decided['measure']}): {words}", soft_wrap=True)
        console.print(f"train with the best:  {command(plan, best)}", soft_wrap=True)
    elif "failed" in states:
        failed = trials[states.index("failed")]
        words = f"{run_name(failed)} failed: {failed.user_attrs.get('note', '')}"
        console.print(as_text(words), soft_wrap=True, markup=False)
    print(f"  sweep  {folder}")
    if "running" in states or (len(trials) < plan.trials and set(states) != {"failed"}):
        print(f"go on with:  headrace sweep --resume {quote(str(folder))}")
        return 130
    return 0 if best is not None else 1


def _table(plan: Plan, trials: Sequence[FrozenTrial]) -> Table:
    known = [trial for trial in trials if trial.state in (TrialState.COMPLETE, TrialState.PRUNED)]
    order = sorted(known, key=lambda trial: (trial.state != TrialState.COMPLETE, -(trial.value or 0.0)))
    table = Table()
    table.add_column("trial", justify="right")
    for name in (plan.metric, "steps", "seconds", *plan.space):
        table.add_column(name, justify="right")
    table.add_column("end")
    for trial in order[:SHOWN]:
        numbers = (return_text(trial.value), f"{trial.user_attrs['steps']:,}", f"{trial.user_attrs['seconds']:.1f}")
        settings = [setting_word(trial.params[name]) for name in plan.space]
        table.add_row(str(trial.number), *numbers, *settings, STATES[trial.state])
    return table


def command(plan: Plan, trial: FrozenTrial) -> str:
    said = [("network", "auto"), ("preset", recipe_of(plan.task, {"algo": plan.algo}).preset)]
    settings = plan.settings | settings_of(trial.params, plan.algo)
    return train_command(plan.task, {name: value for name, value in settings.items() if (name, value) not in said})
