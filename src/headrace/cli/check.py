"""``headrace check``: runs the conformance checks on a task."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import tyro
from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

import headrace
from headrace.cli.options import TaskOptions, optional, parse_args, parse_options
from headrace.errors import OptionError
from headrace.testing import CHECKS
from headrace.testing.report import MARKS, Report, Result, run_checks
from headrace.testing.trial import Trial

STYLES = {"passed": "green", "failed": "bold red", "skipped": "yellow"}


@dataclass(frozen=True)
class CheckArgs:
    """Run the conformance suite on a task: determinism, seeds, autoreset, spaces, saved states and more.

    The task may be registered by a file of yours. Each failure is reported with the call that reproduces it.

    examples:
      headrace check CartPole-v1
      headrace check my_env.py
      headrace check my_env.py:MyTask-v0 --only seeds resets --seed 3
      headrace check Pong-v5 --steps 50 --option frame_skip=2
    """

    task: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="TASK")]
    """name of the task, or the file that registers it"""
    only: Annotated[tuple[str, ...], optional("CHECK …")] = ()
    """names of the checks to run; all by default"""
    seed: int = 0
    """seed of the environments and of the random actions"""
    num_envs: int = 5
    """number of environments in a pool"""
    steps: int = 100
    """number of steps in one run"""
    option: TaskOptions = ()


def run(argv: list[str]) -> int:
    """Runs the checks and prints a row for each; returns the exit status, 1 if any failed."""
    args = parse_args(CheckArgs, "check", argv)
    checks = {check.__name__: check for check in CHECKS}
    for name in args.only:
        if name not in checks:
            raise OptionError(f"there is no check {name!r}; there are {', '.join(checks)}")
    options: dict[str, Any] = parse_options(args.option)
    settings = {"seed": args.seed, "num_envs": args.num_envs, "steps": args.steps}
    chosen = [checks[name] for name in args.only] or list(CHECKS)
    headrace.make_spec(args.task, **options)  # raises for invalid arguments before the table is shown
    Trial(args.task, options, **settings)
    console, table = Console(highlight=False), _table(args.task)
    with Live(table, console=console, transient=True):
        report = run_checks(args.task, chosen, watch=lambda result: _add(table, result), **settings, **options)
    console.print(table)
    _print_failures(report)
    return 1 if report.failures else 0


def _table(task: str) -> Table:
    table = Table(title=task, title_justify="left")
    table.add_column("")
    table.add_column("check", no_wrap=True)
    table.add_column("seconds", justify="right")
    table.add_column("")
    return table


def _add(table: Table, result: Result) -> None:
    note = result.note.splitlines()[0] if result.note else ""
    mark = Text(MARKS[result.verdict], style=STYLES[result.verdict])
    table.add_row(mark, result.name, f"{result.seconds:.2f}", Text(note))


def _print_failures(report: Report) -> None:
    """Prints failures as plain text, so that the calls in them can be copied."""
    for result in report.failures:
        print(f"\n{result.name}: {result.note}")
    if not report.failures:
        print("all checks that were run passed")
