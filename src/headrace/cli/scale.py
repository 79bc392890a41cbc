"""``headrace scale``: finds the number of environments and the minibatch that train a task fastest on this machine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import tyro
from rich.console import Console

from headrace.cli.options import TaskOptions, optional, parse_options
from headrace.errors import OptionError
from headrace.machine import readable
from headrace.studies.tuning.measure import Probe
from headrace.studies.tuning.scale import Scale, cache_file, forget, scale
from headrace.train.config.command import option_of
from headrace.train.config.settings import Config, make_config
from headrace.train.processes.torchrun import refuse

COLUMNS = f"{'environments':>12}  {'minibatch':>9}  {'steps/s':>11}  {'memory':>9}"


@dataclass(frozen=True)
class ScaleArgs:
    """Find the number of environments and the minibatch size that train fastest, by short trainings.

    num_envs is doubled as long as training becomes at least 5 % faster, then minibatch_size, within the memory
    allowed. The result is stored; headrace train TASK --scale trains with it.

    examples:
      headrace scale CartPole-v1
      headrace scale TagGridWorld-v0 --device cuda --option num_taggers=4
      headrace scale Pong-v5 --seconds 5 --again
      headrace scale CartPole-v1 --forget
    """

    task: Annotated[str, tyro.conf.Positional, optional("TASK")] = ""
    """name of the task; headrace envs lists them"""
    device: Annotated[str | None, optional("DEVICE")] = None
    """device to train on: cpu, cuda or cuda:i; this and the next four have the defaults of headrace train"""
    algo: Annotated[str | None, optional("NAME")] = None
    """learning algorithm"""
    network: Annotated[str | None, optional("NAME")] = None
    """network"""
    hidden: Annotated[tuple[int, ...] | None, optional("INT …")] = None
    """widths of the network's hidden layers"""
    num_steps: Annotated[int | None, optional("INT")] = None
    """steps of each environment in one rollout"""
    option: TaskOptions = ()
    seconds: float = 2.0
    """duration of one measurement"""
    memory_share: float = 0.8
    """fraction of the free memory that training may use"""
    again: bool = False
    """measure again, even if there is a stored result"""
    forget: bool = False
    """delete the stored results for TASK, or for all tasks, without measuring"""


def run(argv: list[str]) -> int:
    """Measures, and prints a row for each size; returns the exit status."""
    refuse("headrace scale")
    args = tyro.cli(ScaleArgs, prog="headrace scale", args=argv)
    if args.forget:
        count = forget(args.task or None)
        print(f"{count} finding{'' if count == 1 else 's'} forgotten ({cache_file()})")
        return 0
    if not args.task:
        raise OptionError("which task? headrace scale TASK, such as CartPole-v1; headrace envs lists them")
    names = ("device", "algo", "network", "hidden", "num_steps")
    overrides: dict[str, Any] = {name: getattr(args, name) for name in names if getattr(args, name) is not None}
    if args.option:
        overrides["env_options"] = parse_options(args.option)
    config = make_config(args.task, **overrides)
    found = find_scale(config, seconds=args.seconds, memory_share=args.memory_share, again=args.again)
    words = " ".join(f"{option_of(name)} {value}" for name, value in found.settings(config).items())
    print(f"  train with it:  headrace train {args.task} --scale   (or: {words})")
    return 0


def find_scale(config: Config, **how: Any) -> Scale:
    """Returns the result of `headrace.studies.tuning.scale.scale`, and prints its probes and its result.

    ``how`` are that function's other keywords.
    """
    console = Console(highlight=False)
    console.print(f"{config.task}, {config.algo}, training on {config.devices[0] if config.devices else config.device}")
    shown = False
    with console.status("measuring"):

        def show(probe: Probe) -> None:
            nonlocal shown
            if not shown:
                console.print(COLUMNS)
            shown = True
            console.print(_row(probe), soft_wrap=True)

        found = scale(config, show=show, **how)
    if found.remembered:
        console.print(COLUMNS)
        for probe in found.probes:
            console.print(_row(probe), soft_wrap=True)
    best = found.best
    memo = "  (measured earlier; headrace scale --again measures anew)" if found.remembered else ""
    console.print(
        f"best: {best.size.num_envs:,} environments, minibatches of {best.size.minibatch_size:,}: "
        f"{best.sampling:,.0f} steps/s{memo}\n  {'; '.join(found.ended)}",
        soft_wrap=True,
    )
    return found


def _row(probe: Probe) -> str:
    size, speed = probe.size, probe.note or f"{probe.sampling:,.0f}"
    return f"{size.num_envs:>12,}  {size.minibatch_size:>9,}  {speed:>11}  {readable(probe.memory):>9}"
