"""``headrace train``: train an agent and leave a run folder, or go on with one.

The options are the fields of `headrace.train.config.settings.Config`, with the values tuned for
the task as their defaults: the task is read first, everything else overrides it.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro
from rich.console import Console

from headrace.cli.options import JSON, parse_options
from headrace.cli.trust import agreed
from headrace.errors import OptionError
from headrace.train import Result, expect_workers, resume, settled, train
from headrace.train.config.settings import OFF_POLICY, Config, make_config
from headrace.train.runs.folder import RunFolder


@dataclass(frozen=True)
class TrainArgs(Config):
    """Train an agent on a task.

    Shows a live dashboard and leaves a run folder with config.json, metrics.jsonl, checkpoints, a plot
    of the learning curve and a video. Ctrl-C stops a run cleanly; --resume goes on with it.
    The defaults shown are those of the task, and of the --algo, named before --help.

    examples:
      headrace train CartPole-v1
      headrace train Pong-v5 --total-steps 2000000 --seed 2
      headrace train Pong-v5 --num-envs 32 --batch-size 16 --option frame_skip=2
      headrace train HalfCheetah-v5 --algo sac
      headrace train HalfCheetah-v5 --algo sac --tune all
      headrace train Pendulum-v1 --algo ddpg --tune none
      headrace train CartPole-v1 --run-dir runs/mine --scale
      headrace train --resume runs/mine
      headrace train TagGridWorld-v0 --schedules '{"entropy_coef": [[0, 0.05], [1000000, 0]]}'
      headrace train TagGridWorld-v0 --policies '{"cats": {"agents": ["tagger"]}, "mouse": {"agents": ["runner"]}}'
      headrace train TagGridWorld-v0 --policies policies.json
      headrace train Pong-v5 --help
    """

    task: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="TASK")] = ""
    """name of the task; headrace envs lists them"""
    option: tyro.conf.UseAppendAction[tuple[str, ...]] = ()
    """a task option as name=value; may be repeated"""
    run_dir: Path | None = None
    """folder for the run; a new one in runs/ by default"""
    resume: Path | None = None
    """a run to go on with, instead of a task"""
    trust: bool = False
    """with --resume: run the code of files that the run names, though it was not begun here"""
    quiet: bool = False
    """show no progress"""
    scale: bool = False
    """train with the num_envs and minibatch_size that are fastest here: measured once, then remembered"""
    tune: Literal["speed", "all", "none"] = "speed"
    """for algorithms with a replay, and long runs: what headrace tune is to find, once on this machine. speed: threads,
    and how many samplers share the environments, which does not change what is learnt; all: also num_envs and
    minibatch_size, with what follows from it, which does. Nothing where samplers or num_envs is given; for all, nor
    where minibatch_size is"""
    env_options: tyro.conf.Suppress[dict[str, Any]] = field(default_factory=dict)
    copies: tyro.conf.Suppress[str | None] = None
    schedules: Annotated[Any, JSON] = field(default_factory=dict)
    """settings that change with the agent steps so far, linearly between points: name → [[step, value], …]"""
    policies: Annotated[Any, JSON] = field(default_factory=dict)
    """who plays the agents of a multi-agent task: policy → its own settings, and agents, a list of types or numbers"""

    def __post_init__(self) -> None:
        """Nothing: `Config` checks the values once the overrides are known."""


def run(argv: list[str]) -> int:
    """Train or go on, and say where the run's files are."""
    args = parse(argv)
    if args.resume is not None:
        _, config = RunFolder.read(args.resume)
        if args.task != config.task:
            raise OptionError(f"{args.resume} is a run of {config.task}: leave {args.task} out")
        trust = agreed(args.resume, args.trust)
        result = resume(args.resume, quiet=args.quiet, trust=trust, **_changes(args, dataclasses.asdict(config)))
    elif args.task:
        asked = overrides(args)
        if args.scale:
            asked |= _scaled(args.task, asked)
        elif args.tune != "none":
            asked |= _tuned(args, asked, argv)
        result = train(args.task, run_dir=args.run_dir, quiet=args.quiet, **asked)
    else:
        raise OptionError("which task? headrace train TASK, such as CartPole-v1; headrace envs lists them")
    if result.reason == "interrupted":
        return 130
    _report(result)
    return 0


def overrides(args: TrainArgs) -> dict[str, Any]:
    """What these arguments set otherwise than the task's own defaults, as keywords of `headrace.train.train`."""
    options = parse_options(args.option)
    changes = _changes(args, dataclasses.asdict(make_config(args.task, algo=args.algo, network=args.network)))
    return {"algo": args.algo, "network": args.network, **changes} | ({"env_options": options} if options else {})


def _scaled(task: str, asked: dict[str, Any]) -> dict[str, int]:
    """The sizes that train this task fastest."""
    from headrace.cli.scale import find_scale

    if asked.get("deterministic"):
        raise OptionError(
            "--scale takes what measures best, which may be another size next time: leave --deterministic out"
        )
    if given := asked.keys() & {"num_envs", "minibatch_size"}:
        raise OptionError(f"--scale finds {' and '.join(sorted(given))} itself: leave one of them out")
    config = make_config(task, **asked)
    return find_scale(config).settings(config)


def _tuned(args: TrainArgs, asked: dict[str, Any], argv: Sequence[str]) -> dict[str, Any]:
    """What the tuner finds for this task, where there is something to tune, that nobody has chosen."""
    given = {word[2:].partition("=")[0].replace("-", "_") for word in argv if word.startswith("--")} | asked.keys()
    chosen = {"samplers", "num_envs"} | ({"minibatch_size"} if args.tune == "all" else set())
    if args.algo not in OFF_POLICY or given & chosen:
        return {}
    config = make_config(args.task, **asked)
    expect_workers(config)
    config = settled(config)
    if config.frozen or not config.samplers:
        return {}
    from headrace.cli.tune import find_tuning

    console = Console(highlight=False, quiet=args.quiet)
    return find_tuning(config, console, scope=args.tune, keep=given, briefly=True).settings(config)


def parse(argv: list[str]) -> TrainArgs:
    """Arguments over the defaults of the task (or run) that they name, wherever they name it."""
    named = argv[0] if argv and not argv[0].startswith("-") else ""
    # named before anything else is read: --help shows what the algorithm begins with
    args = _parse_over(_begin_with(named, argv), argv)
    if args.resume is not None:
        return _parse_over(RunFolder.read(args.resume)[1], argv)
    return args if args.task == named else _parse_over(_begin_with(args.task, argv), argv)


def _begin_with(task: str, argv: Sequence[str]) -> Config:
    """The settings tuned for a task with the algorithm and the network that a command line names."""
    named = {}
    for word, following in itertools.pairwise((*argv, "")):
        name, _, value = word.removeprefix("--").partition("=")
        if word.startswith("--") and name in ("algo", "network"):
            named[name] = value or following
    return make_config(task, **named)


def _parse_over(config: Config, argv: list[str]) -> TrainArgs:
    default = TrainArgs(**dataclasses.asdict(config))
    return tyro.cli(TrainArgs, prog="headrace train", args=argv, default=default)


def _changes(args: TrainArgs, defaults: Mapping[str, Any]) -> dict[str, Any]:
    """The training options that differ from the defaults."""
    given = {name: getattr(args, name) for name in defaults if name != "task"}
    return {name: value for name, value in given.items() if value != defaults[name]}


def _report(result: Result) -> None:
    ends = {"solved": "solved", "finished": "all steps done"}
    mean = "no episode ended" if result.mean_return is None else f"mean return {result.mean_return:.1f}"
    print(f"\n{ends[result.reason]}: {mean} after {result.steps:,} steps in {result.seconds:.1f} s")
    for what, path in (("run", result.run_dir), ("plot", result.plot), ("video", result.video)):
        if path is not None:
            print(f"  {what:<6} {path}")
    print(f"  watch  headrace play {result.run_dir}")
