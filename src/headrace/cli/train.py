"""``headrace train``: trains an agent and writes a run folder, or continues a run.

The options are the settings of the algorithm that the command line names, and their defaults are its presets for the
task. Task, algorithm and network are therefore read first; the other options override their presets.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from shlex import quote
from typing import Annotated, Any, Literal

import tyro
from rich.console import Console

from headrace.cli.options import COUNT, JSON, TaskOptions, optional, parse_args, parse_json, parse_options
from headrace.cli.seeds import report
from headrace.cli.trust import agreed, asked
from headrace.errors import OptionError
from headrace.pool.registry import family
from headrace.pool.sources import split
from headrace.pool.suggestions import close_names
from headrace.studies.jobs.seeds import Plan, chosen_seeds, is_several, plain, resume_seeds, train_seeds
from headrace.train import Result, resume, train
from headrace.train.launch.checks import preload_workers, resolved
from headrace.train.launch.run import CONTINUABLE
from headrace.train.processes.place import place, refuse
from headrace.train.recipes.make import DECIDING, make_config
from headrace.train.runs import zoo
from headrace.train.runs.folder import RunFolder
from headrace.train.runs.trust import admit
from headrace.train.runs.words import return_text
from headrace.train.settings.algorithm import find_settings
from headrace.train.settings.command import option_of, setting_of
from headrace.train.settings.config import algorithms_of
from headrace.train.settings.owners import described_owners, for_others, options_to_give, other_name

GROUPS = {
    "run": "algorithm, length and device",
    "environments": "number and options of the environments",
    "network": "the policy's network",
    "learning": "optimiser, returns and normalisation",
    "exploration": "how actions explore",
    "replay": "the replay, and the ratio of updates to steps",
    "workers": "samplers, evaluator and learner in separate processes",
    "policies": "several policies, and networks loaded from other runs",
    "files": "files that the run writes",
}
"""group of settings → its description in the help; an algorithm's own group comes after ``learning``"""
COMMON = {
    *"algo preset total_steps stop_at_return seed device num_envs normalise_observations".split(),
    *"hidden learning_rate minibatch_size gamma entropy_coef samplers log video".split(),
}
"""settings that --help shows beside an algorithm's own; --help-all shows all"""
ALL = "--help-all"
WRITTEN = {"env_options": "--option NAME=VALUE here", "callback": "for Python: headrace.train(…, callback=…)"}
"""what has no option of its name → how it is given"""
TYPED = 0.7
"""likeness of an option to one that there is, from which on it counts as misspelt"""
IN_FILES = ("schedules", "policies", "curriculum", "option_schedules")
"""settings that may be in a file"""
ELSEWHERE = {"task", "env_options", "copies"}
"""settings without an option of their name: the argument TASK, those of --option, and a setting of single policies"""


@dataclass(frozen=True)
class RunArgs:
    """The arguments of the command.

    Attributes:
        values: name → setting, including those of the task and the network.
    """

    task: Annotated[str, tyro.conf.Positional, optional("TASK")] = ""
    """name of the task; headrace envs lists them"""
    option: TaskOptions = ()
    run_dir: Annotated[Path | None, optional("PATH")] = None
    """folder of the run; by default a new one in runs/"""
    resume: Annotated[Path | None, optional("PATH")] = None
    """folder of a run to continue, instead of a task"""
    trust: bool = False
    """do what a run of --resume, or a file among the options, asks for, such as running code or loading environments
    that its checkpoint holds, even if you have not agreed to it before"""
    quiet: bool = False
    """show no progress"""
    tune: Literal["speed", "none"] = "speed"
    """speed: before training with a replay, tune threads and samplers, which do not affect learning, as headrace tune
    does; short runs, and those with a given samplers or num_envs, are not tuned, and results are cached"""
    seeds: Annotated[str, optional("SEEDS")] = ""
    """train with several seeds, as runs in one folder: a number of seeds, such as 5, or a list, such as 1,2,7"""
    jobs: int = 0
    """with --seeds: number of simultaneous runs; 0 for as many as the cores allow"""
    values: tyro.conf.Suppress[dict[str, Any]] = field(default_factory=dict)


FOR_NEW = "{} is for new runs: leave it out, or --resume"
DESCRIPTION = """Train an agent on a task.

Shows a live dashboard and writes a run folder with config.json, metrics.jsonl, checkpoints, a plot
of the learning curve and a video. Ctrl-C stops a run cleanly; --resume continues it.
Without --algo, algorithm and settings are the best known for the task: headrace recipes shows them. The
options below are the common settings of TASK and --algo, where these are given before --help, and those of
the algorithm alone; --help-all shows all of them.

examples:
  headrace train CartPole-v1
  headrace train Pong-v5 --total-steps 2000000 --seed 2
  headrace train Pong-v5 --total-steps 100k --option frame_skip=2
  headrace train Pong-v5 --algo ppo --num-envs 32 --batch-size 16
  headrace train HalfCheetah-v5 --algo sac
  headrace train Pendulum-v1 --algo ddpg --tune none
  headrace train CartPole-v1 --algo my_algo.py:Reinforce
  headrace train CartPole-v1 --run-dir runs/mine
  headrace train --resume runs/mine
  headrace train CartPole-v1 --seeds 5
  headrace train TagGridWorld-v0 --schedules '{"entropy_coef": [[0, 0.05], [1000000, 0]]}'
  headrace train TagGridWorld-v0 --policies '{"cats": {"agents": ["tagger"]}, "mouse": {"agents": ["runner"]}}'
  headrace train TagGridWorld-v0 --policies policies.json
  headrace train Pong-v5 --help-all
"""


def run(argv: list[str]) -> int:
    """Trains or continues a run, and prints the paths of its files; returns the exit status."""
    resumed, where = _named(argv).get("resume"), place()
    if resumed and where is not None and not where.leads:
        resume(resumed, quiet=True)  # follows the first process, which alone needs the folder
        return 0
    if resumed and is_several(Path(resumed)):
        return _go_on_with_seeds(Path(resumed), argv)
    args = parse(argv)
    if args.seeds:
        refuse("--seeds")
    if args.jobs and not args.seeds:
        raise OptionError("--jobs is the number of --seeds that are trained at once: give --seeds, too")
    if args.seeds and "seed" in said(argv):
        raise OptionError("--seeds says which seeds are trained, such as --seeds 1,2,7: leave --seed out")
    if args.resume is not None:
        _, config = RunFolder.open(args.resume, trust=args.trust, training=True)
        if args.task not in ("", config.task):
            raise OptionError(f"{args.resume} is a run of {config.task}: leave {args.task} out")
        _check_continued(args, config.env_options)
        result = resume(args.resume, quiet=args.quiet, trust=args.trust, **_changes(args, vars(config)))
    elif args.task:
        asked, tuned = overrides(args), None
        if args.tune != "none":
            tuned, sizes = _tuned(args, asked, argv)
            asked |= sizes
        if args.seeds:
            how: dict[str, Any] = {"jobs": args.jobs, "run_dir": args.run_dir, "quiet": args.quiet}
            return report(train_seeds(args.task, seeds=chosen_seeds(args.seeds), **how, **asked))
        unsaid = {*DECIDING} - _named(argv).keys()  # what the recipe has chosen
        asked = {name: value for name, value in asked.items() if name not in unsaid}
        result = train(args.task, run_dir=args.run_dir, quiet=args.quiet, tuned=tuned, **asked)
    else:
        raise OptionError("which task? headrace train TASK, such as CartPole-v1; headrace envs lists them")
    if result.reason == "interrupted":
        if args.quiet and where is None:
            print(f"stopped; go on with:  headrace train --resume {quote(str(result.run_dir))}")
        return 130 if where is None else 0  # torchrun restarts processes that end with another status
    if where is None or where.leads:
        _report(result)
    return 0


def _check_continued(args: RunArgs, options: Mapping[str, Any]) -> None:
    """Raises `OptionError` for arguments that a run which goes on would ignore."""
    for name, value in parse_options(args.option).items():
        if name not in options or options[name] != value:
            only = ", ".join(map(option_of, CONTINUABLE))
            raise OptionError(f"--option {name} cannot change in the middle of a run; only {only} can")
    for word, value in (("--run-dir", args.run_dir), ("--seeds", args.seeds)):
        if value and value != args.resume:
            raise OptionError(FOR_NEW.format(word))


def _go_on_with_seeds(folder: Path, argv: Sequence[str]) -> int:
    """Continues the runs of several seeds; the command may be the one that began them, with --resume added."""
    plan = Plan.read(folder)
    admit({**plan.settings, "task": plan.task}, folder, "--trust" in argv, training=True)
    kept = [word for word, before in zip(argv, ("", *argv), strict=False) if "--resume" not in (word, before)]
    kept = [word for word in kept if not word.startswith("--resume=")]
    named = _named(kept)
    given = [f"--{name}={plan.settings[name]}" for name in DECIDING if name in plan.settings.keys() - named]
    task = kept[0] if kept and not kept[0].startswith("-") else plan.task
    args = parse([task, *(kept[1:] if kept[:1] == [task] else kept), *given])
    if args.task != plan.task:
        raise OptionError(f"{folder} holds runs of {plan.task}: leave {args.task} out")
    if args.run_dir is not None:
        raise OptionError(FOR_NEW.format("--run-dir"))
    seeds = chosen_seeds(args.seeds) if args.seeds else ()
    changes = plain(overrides(args))
    for name in {*DECIDING} - plan.settings.keys() - named.keys():
        del changes[name]
    return report(resume_seeds(folder, seeds=seeds, jobs=args.jobs, quiet=args.quiet, trust=args.trust, **changes))


def overrides(args: RunArgs) -> dict[str, Any]:
    options = parse_options(args.option)
    named = {name: args.values[name] for name in (*DECIDING, "policies")} | {"env_options": options}
    defaults = _begin_with(args.task, named)
    changes = _changes(args, defaults)
    return {name: args.values[name] for name in DECIDING} | changes | ({"env_options": options} if options else {})


def _tuned(args: RunArgs, asked: dict[str, Any], argv: Sequence[str]) -> tuple[dict[str, Any] | None, dict[str, Any]]:
    """Tunes the sizes that the arguments do not set, if the algorithm has any.

    Returns:
        The tuner's record for the run, or None if there was nothing to tune; and the settings that it found.
    """
    given = said(argv).keys() | asked.keys()
    if not find_settings(args.values["algo"]).replays or given & {"samplers", "num_envs"}:
        return None, {}
    preload_workers(args.task, asked)
    config = resolved(make_config(args.task, **asked))
    if config.frozen or not config.samplers:
        return None, {}
    from headrace.cli.tune import find_tuning

    console = Console(highlight=False, quiet=args.quiet)
    found = find_tuning(config, console, keep=given, briefly=True)
    return found.record(), found.settings(config)


# -- arguments -----------------------------------------------------------------------------------


def parse(argv: list[str]) -> RunArgs:
    """Returns the parsed arguments, with the settings of the task or run that they name as defaults.

    Raises:
        OptionError: an argument is a setting of other algorithms, or a value is invalid.
        TrustError: the run to continue, or a file among the arguments, names code that is not trusted.
    """
    _admit_files(argv)
    named = _named(argv)
    if "resume" in named:
        trust = agreed(Path(named["resume"]), "--trust" in argv, training=True)
        config = RunFolder.open(named["resume"], trust=trust, training=True)[1]
        return dataclasses.replace(_parse_over(vars(config), argv), trust=trust)
    task = argv[0] if argv and not argv[0].startswith("-") else ""
    zoo.check_task(task)
    # the defaults are needed before parsing, as --help shows them
    args = _parse_over(_begin_with(task, named), argv)
    if args.task != task:
        args = _parse_over(_begin_with(args.task, named), argv)
    if args.task:
        family(args.task)  # what is misspelt is answered before anything imports torch
    if "--deterministic" not in argv:
        preload_workers(args.task, named)
    return args


def _admit_files(argv: Sequence[str]) -> None:
    """Asks for agreement to the code that files among the arguments name; raises `TrustError` without it."""
    task = argv[0] if argv and not argv[0].startswith("-") else ""
    for name, (_, value) in said(argv).items():
        if name in IN_FILES and value and not value.lstrip().startswith("{"):
            known = {} if split(task)[0] else {"task": task}  # code of their own task is what the user has named
            given = known | {name: parse_json(value)}
            asked(partial(admit, given, Path(value)), "--trust" in argv)


def said(argv: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Returns the options among arguments: setting → the word that names it, and the value, which may be in the next.

    tyro reads them again, with types; they are needed before, as they decide which options there are.
    """
    pairs = itertools.pairwise((*argv, ""))
    return {setting_of(a): (a, a.partition("=")[2] or b) for a, b in pairs if a.startswith("--")}


def _named(argv: Sequence[str]) -> dict[str, Any]:
    """Returns the values of those options that determine which other options there are."""
    named: dict[str, Any] = {}
    for name, (_, value) in said(argv).items():
        if name in DECIDING or (name == "resume" and value):
            named[name] = value
        elif name == "policies":
            named[name] = parse_json(value)
        elif name == "samplers" and value.removeprefix("-").isdigit():
            named[name] = int(value)
        elif name == "option":
            pairs = itertools.pairwise((*argv, ""))
            words = (a.partition("=")[2] or b for a, b in pairs if a.partition("=")[0] == "--option")
            named["env_options"] = parse_options(words)
    return named


def _begin_with(task: str, named: Mapping[str, Any]) -> dict[str, Any]:
    options = {"env_options": named.get("env_options", {})}
    values = vars(make_config(task, **options, **{name: named[name] for name in DECIDING if name in named}))
    for algo in algorithms_of({"algo": values["algo"], **named}):
        theirs = vars(make_config(task, **options, algo=algo))
        values = theirs | values
    return values


def _parse_over(defaults: Mapping[str, Any], argv: Sequence[str]) -> RunArgs:
    """Parses arguments with these settings as options and their defaults."""
    groups: dict[str, list[tuple[str, Any, Any]]] = {}
    short = bool({"-h", "--help"}.intersection(argv))
    offered = ELSEWHERE | {"help", "help_all", *RunArgs.__dataclass_fields__}
    for algorithm in map(find_settings, algorithms_of(defaults)):
        types = algorithm.types
        for name, known in algorithm.usable.items():
            if name in offered or name not in defaults:  # of a run that goes on, some are its policies' own
                continue
            offered.add(name)
            hint = JSON if name in IN_FILES else COUNT if types[name] is int else None
            default = defaults[name]
            shown = "(default: none)" if default in ("", (), {}) else None
            marks = (
                tyro.conf.arg(help=known.help.replace("%", "%%"), help_behavior_hint=shown),
                *([hint] if hint else []),
                *([tyro.conf.Suppress] if short and name not in COMMON and known.group in GROUPS else []),
            )
            type_ = Literal[tuple(algorithm.presets)] if name == "preset" else types[name]
            kind = Annotated[(Any if hint is JSON else type_, *marks)]
            groups.setdefault(known.group or "", []).append((name, kind, field(default_factory=lambda v=default: v)))
    _check_offered(argv, offered, str(defaults["algo"]), str(defaults["task"]))
    order = list(GROUPS)
    ranks = {name: order.index(name) if name in GROUPS else order.index("learning") + 0.5 for name in groups}
    parts = []
    for name in sorted(groups, key=lambda each: ranks[each]):
        made = dataclasses.make_dataclass(name, groups[name], frozen=True)
        made.__doc__ = GROUPS.get(name, f"settings of {name} alone")
        parts.append((name, Annotated[made, tyro.conf.arg(name=name)], field(default_factory=made)))
    everything = dataclasses.make_dataclass("TrainArgs", parts, bases=(RunArgs,), frozen=True)
    everything.__doc__ = DESCRIPTION
    words = ["--help" if word == ALL else word for word in argv]
    found = parse_args(everything, "train", words, config=(tyro.conf.OmitArgPrefixes,))
    given = {name: value for group, *_ in parts for name, value in vars(getattr(found, group)).items()}
    command = {name: getattr(found, name) for name in RunArgs.__dataclass_fields__ if name != "values"}
    return RunArgs(**command, values={**defaults, **given})


def _check_offered(argv: Sequence[str], offered: set[str], algo: str, task: str) -> None:
    """Checks that the arguments name settings, and those that the algorithm uses.

    Raises:
        OptionError: an argument is a setting of other algorithms only, or an option of the task.
    """
    for name, (word, _) in said(argv).items():
        for each in (name, name.removeprefix("no_")):
            if each in WRITTEN:
                raise OptionError(f"{word.partition('=')[0]} is {WRITTEN[each]}")
            if each in offered:
                continue
            if owners := described_owners(each):
                raise OptionError(f"{word} would not be used by {algo}: it is for {owners}")
            if ours := other_name(each, offered):
                words = WRITTEN.get(ours, f"called {option_of(ours)} here{for_others(ours, algo, offered)}")
                raise OptionError(f"{word.partition('=')[0]} is {words}")
            if close_names(each, offered, 1, TYPED):  # a slip is answered without making the task
                continue
            if (option := each.rpartition(".")[2]) in options_to_give(task):
                raise OptionError(f"{word.partition('=')[0]} is an option of {task}: give --option {option}=…")


def _changes(args: RunArgs, defaults: Mapping[str, Any]) -> dict[str, Any]:
    given = {name: value for name, value in args.values.items() if name != "task"}
    return {name: value for name, value in given.items() if value != defaults[name]}


def _report(result: Result) -> None:
    ends = {"solved": "solved", "finished": "all steps done"}
    mean = "no episode ended" if result.mean_return is None else f"mean return {return_text(result.mean_return)}"
    mean = mean if result.elo is None else f"Elo {result.elo:,.0f}"
    print(f"\n{ends[result.reason]}: {mean} after {result.steps:,} steps in {result.seconds:.1f} s")
    for what, path in (("run", result.run_dir), ("plot", result.plot), ("video", result.video)):
        if path is not None:
            print(f"  {what:<6} {path}")
    folder = quote(str(result.run_dir))
    print(f"  page   headrace watch {folder}\n  play   headrace play {folder}")
