"""``headrace leaderboard``: trains a list of tasks and records the time and steps to given returns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from headrace.cli.options import optional
from headrace.cli.trust import asked
from headrace.errors import OptionError
from headrace.studies.jobs.seeds import chosen_seeds
from headrace.studies.leaderboard import report
from headrace.studies.leaderboard.board import DEFAULT, Listed, Row, chosen_rows, list_board, read_board
from headrace.studies.leaderboard.training import check_kept, entries, train_row
from headrace.train.runs.files import writing


@dataclass(frozen=True)
class LeaderboardArgs:
    """Train a list of tasks to target returns, and record the time and steps to each.

    Writes a folder with every run, leaderboard.json, and a page, index.html, with a table, curves and the exact
    commands. Earlier results in the folder are kept: after Ctrl-C or a kill, the same command continues, and other
    commands add rows and seeds.

    examples:
      headrace leaderboard --list
      headrace leaderboard cartpole pendulum
      headrace leaderboard --seeds 3 --out runs/board
      headrace leaderboard my-row --board mine.toml
    """

    rows: Annotated[tuple[str, ...], tyro.conf.Positional, optional("ROWS…")] = ()
    """names of the rows to train; all by default"""
    board: Annotated[Path, optional("FILE")] = DEFAULT
    """a TOML file of rows; by default the one that is part of Headrace"""
    seeds: str = "1"
    """number of seeds per row, such as 3, or a list of seeds, such as 1,2,7, or 3, for seed 3 alone"""
    jobs: int = 0
    """number of simultaneous runs; 0 for as many as the cores allow"""
    out: Path = Path("runs/leaderboard")
    """the folder to write to"""
    list: bool = False
    """print the rows without training"""
    trust: bool = False
    """do what the rows of --board, and those in --out, ask for, such as running code, even if you have not agreed to it
    before"""
    quiet: bool = False
    """show no progress"""


def run(argv: list[str]) -> int:
    """Trains, and prints the table; returns the exit status: 0 done, 1 a run failed, 130 stopped."""
    args = tyro.cli(LeaderboardArgs, prog="headrace leaderboard", args=argv)
    if args.list:
        _print_rows(chosen_rows([*list_board(args.board)], args.rows))
        return 0
    board, trust = asked(lambda trust: read_board(args.board, trust), args.trust)
    rows = chosen_rows(board, args.rows)
    if args.jobs < 0:
        raise OptionError(f"--jobs {args.jobs} must be at least 0")
    seeds = chosen_seeds(args.seeds)
    for row in rows:
        check_kept(args.out / row.name, row.kept())
    _, trust = asked(lambda trust: entries(args.out, board, trust), trust)
    with writing(args.out):
        args.out.mkdir(parents=True, exist_ok=True)
    done = True
    for row in rows:
        done = train_row(row, args.out / row.name, seeds, args.jobs, args.quiet)
        report.write(args.out, entries(args.out, board, trust))
        if not done:
            break
    trained = [entry for entry in entries(args.out, board, trust) if entry.row in rows]
    _print(trained)
    print(f"  page  {args.out / report.PAGE}\n  data  {args.out / report.JSON}")
    if not done:
        print("go on with the same command")
        return 130
    mine = (each for entry in trained for found in entry.all_results.values() for each in found if each.seed in seeds)
    return int(any(each.error for each in mine))


def _print_rows(rows: Sequence[Row | Listed]) -> None:
    table = Table("row", "task", "algorithm", "returns", "at most")
    for row in rows:
        goals = ", ".join(f"{goal:,g}" for goal in row.goals)
        steps = f", {row.total_steps:,} steps" if row.total_steps else ""
        algo = escape(row.algo or "its recipe's")
        table.add_row(row.name, escape(row.task), algo, goals, f"{row.minutes:g} min{steps}")
    Console(highlight=False).print(table)


def _print(entries: list[report.Entry]) -> None:
    table = Table()
    for name in ("task", "trained by"):
        table.add_column(name, overflow="fold")
    for name in ("return", "seeds", "time", "steps"):
        table.add_column(name, justify="right", no_wrap=True)
    for entry in entries:
        for who, found in entry.all_results.items():
            for goal, seeds, took, _, steps in report.cells(entry.row, found):
                table.add_row(escape(entry.row.task), escape(who), goal, seeds, took, steps)
    Console(highlight=False).print(table)
