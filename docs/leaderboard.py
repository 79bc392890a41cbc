"""Writes the table of ``leaderboard.md`` from ``leaderboard.json``, which `headrace leaderboard` wrote.

    python docs/leaderboard.py

The table stands between two marks in its page.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from headrace.train.leaderboard.scores import median

DOCS = Path(__file__).parent
PAGE, DATA = DOCS / "leaderboard.md", DOCS / "leaderboard.json"
MARKED = re.compile(r"(<!-- docs/leaderboard.py -->).*?(<!-- / -->)", re.DOTALL)
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


def with_table(page: str) -> str:
    """Returns the page with the table of the data as it is."""
    lines = "\n".join(table(json.loads(DATA.read_text())["rows"]))
    return MARKED.sub(lambda found: f"{found[1]}\n{lines}\n{found[2]}", page)


def _ends(values: Sequence[float]) -> tuple[float, ...]:
    """Returns the least and the largest of some values, or the only one."""
    return (min(values), max(values)) if len(values) > 1 else (values[0],)


def _seconds(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}" if value < SHORT else f"{value:,.0f}"


def _games(value: float | None) -> str:
    return "–" if value is None else f"{value:.1f}" if abs(value) < FEW else f"{value:,.0f}"


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text()))
