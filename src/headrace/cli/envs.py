"""``headrace envs``: lists the tasks by family."""

from __future__ import annotations

import contextlib
import fnmatch
from dataclasses import dataclass
from typing import Annotated

import tyro
from rich.columns import Columns
from rich.console import Console
from rich.markup import escape
from rich.table import Table

import headrace
from headrace.cli.options import optional, parse_args
from headrace.errors import OptionError, UnknownTaskError
from headrace.pool.executors.envpool.package import names
from headrace.pool.registry import build_task, families, family_of, tasks_in
from headrace.pool.sources import ENVPOOL, split
from headrace.pool.structure import count_text, space_text
from headrace.pool.suggestions import nearest

DETAILED = 12
"""largest number of tasks that are shown as a table, as it takes time to get a simulator's spaces"""
YOURS = "what your program says"
MISSING = ("-",) * 4
"""the cells of a task whose simulator is not installed"""


EXAMPLE = f"{ENVPOOL}BigfishEasy-v0"


@dataclass(frozen=True)
class EnvsArgs:
    """List the tasks by family, with the observations and actions of one environment.

    examples:
      headrace envs               all families
      headrace envs cart          tasks with "cart" in their name, in any case
      headrace envs 'Mountain*'   tasks that match a pattern
      headrace envs atari         a whole family
      headrace envs '*'           all tasks
      headrace envs envpool:      the tasks of EnvPool, where it is installed
      headrace envs arm.py        the tasks of a file of yours; arm.py:NAME for one of them
    """

    filter: Annotated[str, tyro.conf.Positional, optional("[FILTER]")] = ""
    """part of a name, a pattern with * and ?, the name of a family, or a file or module of yours"""


def run(argv: list[str]) -> int:
    """Prints the matching tasks of each family; returns the exit status."""
    args = parse_args(EnvsArgs, "envs", argv)
    console = Console(highlight=False)
    if _is_source(args.filter):
        tasks = tasks_in(args.filter)
        for task in tasks:
            build_task(task)  # raises for what is wrong with it
        _print_family(console, args.filter, tasks)
        return 0
    listed = _by_family()
    if not args.filter:
        console.print(_overview(listed))
        console.print("headrace envs FAMILY lists its tasks, headrace envs NAME says more of one", markup=False)
        return 0
    if args.filter.lower().startswith(ENVPOOL):
        listed = {ENVPOOL.rstrip(":"): names()}
    chosen = {name: _matching(args.filter, name, tasks) for name, tasks in listed.items()}
    if not any(chosen.values()):
        close = nearest(args.filter, (task for tasks in listed.values() for task in tasks))
        hint = f": did you mean {', '.join(close)}?" if close else ""
        raise UnknownTaskError(f"no task matches {args.filter!r}{hint}")
    for family, tasks in chosen.items():
        if tasks:
            _print_family(console, family, tasks)
    return 0


def _is_source(asked: str) -> bool:
    """Returns whether this is a user's file or module, perhaps with the name of one of its tasks."""
    source, _ = split(asked)
    return bool(source) and f"{source}:" != ENVPOOL


def _overview(listed: dict[str, list[str]]) -> Table:
    """Returns a table of all families: what each runs on, what it needs, and how many tasks it has."""
    table = Table()
    for column in ("family", "tasks", "runs on", "pip install", "such as"):
        table.add_column(column, justify="right" if column == "tasks" else "left", overflow="fold")
    records = families()
    for name, tasks in listed.items():
        if tasks:
            place, needs = (records[name].runs_on, records[name].extra) if name in records else (YOURS, "")
            table.add_row(name, str(len(tasks)), place, escape(needs), ", ".join(_some(tasks)))
    theirs = records[ENVPOOL.rstrip(":")]
    table.add_row(ENVPOOL, _count_of_envpools(), theirs.runs_on, theirs.extra, EXAMPLE)
    return table


def _some(tasks: list[str]) -> list[str]:
    """Returns the shortest names of a family, which are the best known."""
    return sorted(sorted(tasks, key=len)[:2])


def _count_of_envpools() -> str:
    """Returns the number of EnvPool's tasks; a dash where it cannot be imported."""
    with contextlib.suppress(OptionError):
        return str(len(names()))
    return "-"


def _print_family(console: Console, family: str, tasks: list[str]) -> None:
    """Prints a table of a few tasks, or the names of many and the description of one."""
    console.print(f"\n[bold]{family}[/] ({len(tasks)})")
    record = family_of(tasks[0])
    if record is not None and record.tasks and record.extra and _describe(tasks[0]) == MISSING:
        console.print(f"needs what is not installed here: pip install '{record.extra}'", markup=False)
    if len(tasks) <= DETAILED:
        console.print(_table(tasks))
        for said, those in _remarks(tasks).items():
            console.print(f"{', '.join(those)}: {said}", markup=False)
        return
    console.print(Columns(tasks, equal=True, padding=(0, 2)))
    observation, action, *_ = _describe(tasks[0])
    console.print(f"such as {tasks[0]}: observation {observation}, action {action}; headrace envs NAME tells more")


def _by_family() -> dict[str, list[str]]:
    """Returns family → its tasks, and as the last entry the tasks that users registered."""
    listed: dict[str, list[str]] = {name: [] for name in (*families(), "registered")}
    for task in headrace.list_all_envs():
        record = family_of(task)
        listed[record.name if record else "registered"].append(task)
    return listed


def _matching(wanted: str, family: str, tasks: list[str]) -> list[str]:
    wanted = wanted.lower()
    if wanted == family:
        return tasks
    pattern = wanted if set(wanted) & set("*?[") else f"*{wanted}*"
    return [task for task in tasks if fnmatch.fnmatchcase(task.lower(), pattern)]


def _table(tasks: list[str]) -> Table:
    rows = [(task, *_describe(task)) for task in tasks]
    columns = ["task", "observation", "action", "steps", "frames a step"]
    if all(row[-1] in ("1", "-") for row in rows):
        columns.pop()
    table = Table()
    for column in columns:
        table.add_column(column, no_wrap=column in ("task", "action"), overflow="fold")
    for row in rows:
        table.add_row(*row[: len(columns)])
    return table


def _remarks(tasks: list[str]) -> dict[str, list[str]]:
    """Returns what is to be said of how tasks run → those of which it is."""
    said: dict[str, list[str]] = {}
    for task in tasks:
        with contextlib.suppress(ImportError, OptionError):
            remark = build_task(task).remark
            if remark is not None and (words := remark()):
                said.setdefault(words, []).append(task)
    return said


def _describe(task: str) -> tuple[str, ...]:
    """Returns the cells of a task's row after its name; dashes if its simulator is not installed."""
    try:
        spec = headrace.make_spec(task)
    except (ImportError, OptionError):
        return MISSING
    most = str(spec.max_episode_steps or "-")
    kinds = spec.agents
    if not kinds:
        return space_text(spec.observation), space_text(spec.action), most, str(spec.frame_skip)
    alike = all((kind.observation, kind.action) == (kinds[0].observation, kinds[0].action) for kind in kinds)
    described = kinds[:1] if alike else kinds
    counts = [" + ".join(count_text(kind) for kind in kinds)] if alike else [count_text(kind) for kind in kinds]
    seen = "\n".join(f"{n}:\n  {space_text(kind.observation)}" for n, kind in zip(counts, described, strict=True))
    return seen, "\n".join("\n" + space_text(kind.action) for kind in described), most, str(spec.frame_skip)
