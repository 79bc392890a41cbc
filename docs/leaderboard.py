"""Writes the tables of ``leaderboard.md`` from ``leaderboard.json``, which `headrace leaderboard` wrote.

    python docs/leaderboard.py

Each table stands between two marks in its page. ``reached.json`` in the package, which `headrace recipes` and the first
line of a run read, has the same medians, and those of ``benchmarks/boards_learning.py``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from headrace.studies.leaderboard.scores import median
from headrace.train.recipes.recipes import REACHED
from headrace.train.runs.words import return_text

DOCS = Path(__file__).parent
PAGE, DATA = DOCS / "leaderboard.md", DOCS / "leaderboard.json"
BOARDS = DOCS.parent / "benchmarks" / "results" / "boards_learning.json"
MARKED = re.compile(r"(<!-- docs/leaderboard.py(?: peers)? -->).*?(<!-- / -->)", re.DOTALL)
SHORT, FEW = 10.0, 30.0  # seconds, and points, below which a digit after the point counts


def table(rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Yields the lines of the table: one for each goal of each row."""
    yield "| row | task | return | reached | seconds, median (all) | of one core | steps, median | games at the end |"
    yield "|---|---|---:|---:|---:|---:|---:|---:|"
    for row in rows:
        seeds = row["seeds"]
        for number, goal in enumerate(row["goals"]):
            each = [seed["reached"][number] for seed in seeds]
            reached = [one["seconds"] for one in each if one["seconds"] is not None]
            middle = {name: median(one.get(name) for one in each) for name in ("seconds", "core_seconds", "steps")}
            games = ", ".join(_games(seed["greedy"]) for seed in seeds) if number == len(row["goals"]) - 1 else ""
            took = _seconds(middle["seconds"]) + (f" ({' … '.join(map(_seconds, _ends(reached)))})" if reached else "")
            steps = "" if middle["steps"] is None else f"{middle['steps']:,.0f}"
            core = "" if middle["core_seconds"] is None else _seconds(middle["core_seconds"])
            counted = f"{len(reached)} of {len(each)}"
            columns = (row["name"], row["task"], f"{goal:,g}", counted, took.strip(), core, steps, games)
            yield f"| {' | '.join(columns)} |"


def beside_peers(rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Yields the lines of the second table: one for each goal of each peer, beside Headrace's medians."""
    yield "| row | return | library | reached | seconds | steps | games at the end | Headrace's seconds | and steps |"
    yield "|---|---:|---|---:|---:|---:|---:|---:|---:|"
    for row in rows:
        for who, seeds in row["peers"].items():
            for number, goal in enumerate(row["goals"]):
                theirs, ours = (_medians(each, number) for each in (seeds, row["seeds"]))
                counted = f"{sum(seed['reached'][number]['seconds'] is not None for seed in seeds)} of {len(seeds)}"
                if theirs[0] == "–":
                    theirs = (f"> {_seconds(max(seed['seconds'] for seed in seeds))}", "–")
                last = number == len(row["goals"]) - 1
                games = ", ".join(_games(seed["greedy"]) for seed in seeds) if last else ""
                yield f"| {' | '.join((row['name'], f'{goal:,g}', who, counted, *theirs, games, *ours))} |"


def with_table(page: str) -> str:
    """Returns the page with the tables of the data as it is."""
    rows = json.loads(DATA.read_text())["rows"]

    def filled(found: re.Match[str]) -> str:
        lines = beside_peers(rows) if "peers" in found[1] else table(rows)
        return "\n".join((found[1], *lines, found[2]))

    return MARKED.sub(filled, page)


def reached() -> str:
    """Returns, as JSON, when each goal of each task was reached by most seeds."""
    data = json.loads(DATA.read_text())
    tasks: dict[str, list[dict[str, Any]]] = {}
    for row in data["rows"]:
        if "env_options" in row["settings"]:  # which show something else than the plain command does
            continue
        for number, goal in enumerate(row["goals"]):
            seconds = median(seed["reached"][number]["seconds"] for seed in row["seeds"])
            tasks.setdefault(row["task"], []).append({"goal": goal, "seconds": seconds})
    boards: dict[tuple[str, float], list[float | None]] = {}
    for row in json.loads(BOARDS.read_text())["rows"]:
        boards.setdefault((row["task"], row["goal"]), []).append(row["seconds to it"])
    for (task, goal), each in boards.items():
        if (seconds := median(each)) is not None:
            tasks[task] = [{"goal": goal, "seconds": seconds, "against": "random moves"}]
    lines = ",\n".join(f"  {json.dumps(task)}: {json.dumps(goals)}" for task, goals in tasks.items())
    return f'{{\n "cores": {data["machine"]["cores"]},\n "tasks": {{\n{lines}\n }}\n}}\n'


def _medians(seeds: Sequence[dict[str, Any]], number: int) -> tuple[str, str]:
    """Returns the medians of seconds and of steps until a goal as text; dashes if most did not reach it."""
    each = [seed["reached"][number] for seed in seeds]
    seconds, steps = (median(one[name] for one in each) for name in ("seconds", "steps"))
    return ("–", "–") if seconds is None or steps is None else (_seconds(seconds), f"{steps:,.0f}")


def _ends(values: Sequence[float]) -> tuple[float, ...]:
    """Returns the least and the largest of some values, or the only one."""
    return (min(values), max(values)) if len(values) > 1 else (values[0],)


def _seconds(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}" if value < SHORT else f"{value:,.0f}"


def _games(value: float | None) -> str:
    return "–" if value is None else return_text(value) if abs(value) < FEW else f"{value:,.0f}"


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text()))
    REACHED.write_text(reached())
