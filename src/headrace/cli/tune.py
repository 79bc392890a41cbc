"""``headrace tune``: finds the numbers of samplers and threads for this machine."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import tyro
from rich.console import Console

from headrace.cli.options import COUNT, TaskOptions, optional, parse_args, parse_options
from headrace.errors import OptionError
from headrace.pool.registry import build_task
from headrace.train.launch.checks import check_cluster, resolved
from headrace.train.processes.place import refuse
from headrace.train.recipes.make import make_config
from headrace.train.recipes.recipes import another, recipe_of
from headrace.train.settings.algorithm import find_settings
from headrace.train.settings.command import option_of
from headrace.train.settings.config import Config

if TYPE_CHECKING:
    from headrace.studies.tuning.measure import Probe
    from headrace.studies.tuning.tune import Tuning

COLUMNS = (
    ("samplers", 8), ("envs each", 9), ("threads", 7), ("steps/s", 9), ("updates/s", 9), ("cores", 5), ("GPU", 4),
    ("staleness", 9),
)  # fmt: skip
"""headings of the columns, and their widths"""


@dataclass(frozen=True)
class TuneArgs:
    """Find the numbers of samplers and threads with which training is fastest on this machine, by short runs.

    The learner's threads are doubled as long as its updates per second grow by at least 5 %; then the samplers, which
    share the environments, and the threads of their pools, as long as sampling becomes faster and learning does not
    become slower. None of this affects what is learned. The result is stored for this machine, for similar tasks and
    for the algorithm, unless other programs used much of the machine meanwhile; headrace train uses it.

    Threads are those of a sampler's environments + those of the learner; staleness is in versions of the weights.

    examples:
      headrace tune HalfCheetah-v5
      headrace tune Pong-v5 --algo dqn --device cuda
      headrace tune HalfCheetah-v5 --replay-ratio None --again
      headrace tune HalfCheetah-v5 --ray auto
      headrace tune HalfCheetah-v5 --forget
    """

    task: Annotated[str, tyro.conf.Positional, optional("TASK")] = ""
    """name of the task; headrace envs lists them"""
    algo: Annotated[str, optional("ALGO")] = ""
    """learning algorithm, one with a replay; by default that of the task's recipe or, if it has none, dqn or sac"""
    device: Annotated[str | None, optional("DEVICE")] = None
    """device of the learner: cpu, cuda or cuda:i; this and the next four have the defaults of headrace train"""
    hidden: Annotated[tuple[int, ...] | None, optional("INT …")] = None
    """widths of the network's hidden layers"""
    total_steps: Annotated[int | None, COUNT, optional("INT")] = None
    """agent steps of the run to tune for"""
    replay_ratio: Annotated[str, optional("FLOAT|None")] = ""
    """updates per step; with None, neither samplers nor learner wait for each other"""
    ray: Annotated[str, optional("CLUSTER")] = ""
    """Ray cluster whose nodes run the samplers: auto, an address, or local; by default they run on this machine"""
    num_envs: Annotated[int | None, optional("INT")] = None
    """environments of the run, which all samplers share"""
    option: TaskOptions = ()
    seconds: float = 1.0
    """duration of one measurement, after its warm-up"""
    limit: Annotated[float | None, optional("FLOAT")] = None
    """seconds after which no further measurement begins; by default 50, and 200 with --ray"""
    again: bool = False
    """measure again, even if there is a stored result"""
    forget: bool = False
    """delete the stored results for tasks similar to TASK, or all, without measuring"""


def run(argv: list[str]) -> int:
    """Measures, and prints a row for each size; returns the exit status."""
    refuse("headrace tune")
    args = parse_args(TuneArgs, "tune", argv)
    if args.forget:
        from headrace.studies.tuning.tune import CACHE, forget  # imports torch

        count = forget(args.task or None)
        print(f"{count} measurement{'' if count == 1 else 's'} removed from {CACHE.file}")
        return 0
    if not args.task:
        raise OptionError("which task? headrace tune TASK, such as HalfCheetah-v5; headrace envs lists them")
    overrides = _overrides(args)
    config = resolved(make_config(args.task, **{"algo": _algorithm(args.task, overrides), **overrides}))
    check_cluster(config)
    console = Console(highlight=False)
    how: dict[str, Any] = {} if args.limit is None else {"limit": args.limit}
    found = find_tuning(config, console, table=True, seconds=args.seconds, again=args.again, **how)
    for words in found.ended:
        console.print(f"  {words}", soft_wrap=True)
    chosen = found.settings(config) | ({"samplers": found.best.size.samplers, "ray": args.ray} if args.ray else {})
    settings = " ".join(f"{option_of(name)} {_word(value)}" for name, value in chosen.items())
    console.print(f"the same by hand:  headrace train {args.task} --algo {config.algo} {settings}", soft_wrap=True)
    return 0


def find_tuning(
    config: Config, console: Console, keep: Collection[str] = (), table: bool = False, **how: Any
) -> Tuning:
    """Returns the result of `headrace.studies.tuning.tune.tune`, and prints its probes and a summary.

    Probes of a stored result are printed only with ``table``. ``keep`` and ``how`` are that function's keywords.
    """
    from headrace.studies.tuning.tune import tune  # imports torch

    shown = []

    def show(probe: Probe) -> None:
        if not shown:
            console.print(f"{config.task}, {config.algo}, training on {config.device}: measuring sizes")
            console.print("  ".join(f"{name:>{width}}" for name, width in COLUMNS), soft_wrap=True)
        shown.append(probe)
        console.print(_row(probe), soft_wrap=True)

    with console.status("measuring"):
        found = tune(config, show=show, keep=keep, **how)
    for probe in found.probes if found.remembered and table else ():
        show(probe)
    console.print(_summary(found), soft_wrap=True)
    return found


def _summary(found: Tuning) -> str:
    """Returns a summary of the result and of where it is stored."""
    from headrace.studies.tuning.tune import CACHE

    best, size = found.best, found.best.size
    samplers = f"{size.samplers} sampler{'s' if size.samplers > 1 else ''} of {size.num_envs:,} environments"
    threads = f"threads {size.num_threads}+{size.torch_threads}"
    speeds = f"{best.sampling:,.0f} steps/s, {best.updates:,.0f} updates/s"
    if found.remembered:
        memo = f"measured earlier ({CACHE.file}); headrace tune --again measures anew"
    elif found.kept:
        memo = f"remembered in {CACHE.file}; headrace train --tune none does without"
    elif found.disturbed:
        memo = f"not remembered: other programs took {found.disturbed:.1f} cores meanwhile"
    else:
        memo = f"not remembered: {found.ended[0]}"
    return f"tuned: {samplers}, {threads}: {speeds}\n  {memo}"


def _row(probe: Probe) -> str:
    size = probe.size
    values = [f"{size.samplers:,}", f"{size.num_envs:,}", f"{size.num_threads}+{size.torch_threads}"]
    if not probe.note:
        values += [f"{speed:,.0f}" for speed in (probe.sampling, probe.updates)]
        values.append("-" if probe.cores is None else f"{probe.cores:.1f}")
        values.append("-" if probe.gpu is None else f"{probe.gpu:.0%}")
        values.append("-" if probe.staleness is None else f"{probe.staleness:,.1f}")
    words = "  ".join(f"{value:>{width}}" for value, (_, width) in zip(values, COLUMNS, strict=False))
    return f"{words}  {probe.note}" if probe.note else words


def _overrides(args: TuneArgs) -> dict[str, Any]:
    names = ("device", "hidden", "total_steps", "num_envs")
    overrides: dict[str, Any] = {name: getattr(args, name) for name in names if getattr(args, name) is not None}
    if args.ray:
        overrides["ray"] = args.ray
    if args.replay_ratio:
        try:
            overrides["replay_ratio"] = None if args.replay_ratio == "None" else float(args.replay_ratio)
        except ValueError:
            raise OptionError(f"--replay-ratio must be a number or None, not {args.replay_ratio!r}") from None
    if args.option:
        overrides["env_options"] = parse_options(args.option)
    if args.algo:
        overrides["algo"] = args.algo
    return overrides


def _algorithm(task: str, given: dict[str, Any]) -> str:
    """Returns the algorithm of the task's recipe or, if it has no replay, one that has, for the task's actions."""
    algo = recipe_of(task, given).algo
    if find_settings(algo).replays:
        return algo
    spec = build_task(task, **given.get("env_options", {})).spec
    return another(algo, (spec.agents[0] if spec.agents else spec).action)


def _word(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
