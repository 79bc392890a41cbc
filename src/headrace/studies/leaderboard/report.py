"""A leaderboard as JSON and as a single HTML file, which loads no other files."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from html import escape
from importlib import metadata
from pathlib import Path
from typing import Any

from headrace.machine import cpu_model, usable_cores
from headrace.studies.leaderboard.board import Published, Row
from headrace.studies.leaderboard.scores import Measured, median
from headrace.studies.plots.curves import grouped, read_curves
from headrace.train.runs.files import replace
from headrace.train.runs.words import return_text
from headrace.version import __version__

VERSIONS = ("torch", "numpy", "gymnasium", "mujoco", "ale-py", "warp-lang", "stable-baselines3", "sbx-rl", "jax")
SHOWN = ("name", "task", "algo", "goals", "total_steps", "minutes", "games", "judge")
"""the attributes of a row in the JSON"""
JSON, PAGE = "leaderboard.json", "index.html"
MINUTE = 60.0


@dataclass(frozen=True)
class Entry:
    """A row with its scores.

    Attributes:
        peers: another library and its algorithm → the scores of its seeds, which `benchmarks/peers` writes.
    """

    row: Row
    folder: Path
    ours: list[Measured]
    peers: dict[str, list[Measured]]

    @property
    def all_results(self) -> dict[str, list[Measured]]:
        """Library and algorithm → the scores of its seeds."""
        return {f"Headrace, {self.row.algo}": self.ours, **self.peers}


def machine() -> dict[str, Any]:
    versions = {"headrace": __version__}
    for package in VERSIONS:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return {"processor": cpu_model(), "cores": usable_cores(), "versions": versions}


def write(folder: Path, entries: Sequence[Entry]) -> None:
    """Writes the JSON and the page into a folder; raises `StorageError` if the folder cannot be written."""
    values = {"machine": machine(), "rows": [_values(entry) for entry in entries]}
    replace(folder / JSON, json.dumps(values, indent=1) + "\n")
    replace(folder / PAGE, page(values["machine"], entries))


def _values(entry: Entry) -> dict[str, Any]:
    row = entry.row
    return {
        **{name: getattr(row, name) for name in SHOWN},
        "settings": dict(row.settings),
        "command": row.command(1),
        "seeds": [asdict(each) for each in entry.ours],
        "peers": {who: [asdict(each) for each in seeds] for who, seeds in entry.peers.items()},
        "published": [asdict(each) for each in row.published],
    }


def summary(row: Row, seeds: Sequence[Measured]) -> list[tuple[float, int, float | None, float | None, float | None]]:
    """Returns for each goal: the goal, how many seeds reached it, and the medians of seconds, core seconds and steps.

    A median is None if most seeds did not reach the goal; the median of core seconds also if they were not measured.
    """
    found = []
    for number, goal in enumerate(row.goals):
        each = [seed.reached[number] for seed in seeds]
        times, steps = median(one.seconds for one in each), median(one.steps for one in each)
        found.append(
            (goal, sum(one.seconds is not None for one in each), times, median(one.core_seconds for one in each), steps)
        )
    return found


def cells(row: Row, seeds: Sequence[Measured]) -> list[tuple[str, str, str, str, str]]:
    """Returns texts for each goal: the goal, seeds that reached it, and medians of time, one core's time and steps."""
    found = []
    for goal, count, seconds, core_seconds, steps in summary(row, seeds):
        took = in_time(seconds) if count else after(seeds)
        steps_word = "–" if steps is None else f"{steps:,}"
        found.append((f"{goal:,g}", counted(count, seeds), took, in_time(core_seconds), steps_word))
    return found


def counted(reached: int, seeds: Sequence[Measured]) -> str:
    """Returns as text how many seeds have reached a goal; "failed" if all of them failed."""
    return "failed" if all(seed.error for seed in seeds) else f"{reached} of {len(seeds)}"


def after(seeds: Sequence[Measured]) -> str:
    """Returns as text how long seeds were trained of which none reached a goal; a dash if all of them failed."""
    longest = max((seed.seconds for seed in seeds if not seed.error), default=0.0)
    return f"> {in_time(longest)}" if longest else "–"


def in_time(seconds: float | None) -> str:
    """Returns seconds as text, in minutes and seconds from 60 s on; a dash for None."""
    if seconds is None:
        return "–"
    if seconds < MINUTE:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    return f"{int(seconds // MINUTE)} min {int(seconds % MINUTE):02d} s"


# -- the page --------------------------------------------------------------------------------------

STYLE = """
:root { color-scheme: light dark; --line: #d8d8d8; --quiet: #666; --good: #00794f }
@media (prefers-color-scheme: dark) { :root { --line: #3a3f46; --quiet: #9aa2ad; --good: #4fc79a } }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem }
h1 { font-size: 1.6rem } h2 { font-size: 1.15rem; margin: 2.2rem 0 .3rem }
.scroll { overflow-x: auto } table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums }
th, td { padding: .3rem .7rem .3rem 0; text-align: right; border-bottom: 1px solid var(--line); white-space: nowrap }
th:first-child, td:first-child { text-align: left } th { font-weight: 600 }
.quiet { color: var(--quiet); font-size: .9rem } .all { color: var(--good) }
img { max-width: 100%; background: #fff; border-radius: 6px } pre { white-space: pre-wrap; font-size: .85rem }
"""


def page(where: dict[str, Any], entries: Sequence[Entry]) -> str:
    """Returns the leaderboard as one HTML file.

    Args:
        where: the machine, as `machine` returns it.
        entries: the rows, in the order of the page.
    """
    versions = ", ".join(f"{name} {version}" for name, version in where["versions"].items())
    head = ("task", "return", "seeds", "time (median)", "of one core", "steps (median)", "games at the end")
    lines = [cells for entry in entries for cells in _lines(entry)]
    parts = [
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>",
        f"<title>Seconds to a return</title><style>{STYLE}</style><h1>Seconds to a return</h1>",
        f"<p>{escape(where['processor'])}, {where['cores']} cores; {escape(versions)}. Time is that of training; a "
        "return counts as reached when the mean of the last games of training first was as much; where a row says so, "
        "of games that a checkpoint plays without exploration. Of one core is what the run had of all cores together, "
        "whatever else ran beside it. The last column is the mean of as many games of the trained agent without "
        "exploration, over the seeds.</p>",
        _table(head, lines),
        *(_section(entry) for entry in entries),
        "</html>\n",
    ]
    return "\n".join(parts)


def _lines(entry: Entry) -> list[tuple[str, ...]]:
    """Returns the table's cells for a row: a line for each goal, of Headrace and of each peer."""
    found = []
    for who, seeds in (("", entry.ours), *entry.peers.items()):
        greedy = [seed.greedy for seed in seeds if seed.greedy is not None]
        games = return_text(sum(greedy) / len(greedy)) if greedy else "–"
        judge = ", judged by games without exploration" if entry.row.judge == "games" else ""
        name = entry.row.task + (f", {who}" if who else f", {entry.row.algo}{judge}")
        found += [(name, *each, games) for each in cells(entry.row, seeds)]
    return found


def _table(head: Iterable[str], lines: Iterable[Iterable[str]]) -> str:
    rows = ["".join(f"<td>{escape(cell)}</td>" for cell in line) for line in lines]
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    return (
        f"<div class=scroll><table><tr>{''.join(f'<th>{escape(name)}</th>' for name in head)}</tr>{body}</table></div>"
    )


def _section(entry: Entry) -> str:
    row = entry.row
    parts = [f"<h2>{escape(row.task)}</h2>", f"<pre>{escape(row.command(1))}</pre>"]
    failures = [
        f"{who}, seed {seed.seed} failed: {seed.error}"
        for who, seeds in entry.all_results.items()
        for seed in seeds
        if seed.error
    ]
    parts += [f"<p>{escape(words)}</p>" for words in failures]
    if row.published:
        parts.append(_table(("published", "return", "time", "steps", "on", "source"), map(_published, row.published)))
    if curve := _curve(entry):
        parts.append(f"<p><img alt='returns of all seeds' src='data:image/svg+xml;base64,{curve}'></p>")
    return "\n".join(parts)


def _published(found: Published) -> tuple[str, ...]:
    steps = "–" if found.steps is None else f"{found.steps:,}"
    return (found.who, f"{found.goal:,g}", in_time(found.seconds), steps, found.hardware or "–", found.source)


def _curve(entry: Entry, say: Callable[[str], object] = lambda words: None) -> str | None:
    """Returns the return curves of all seeds as an SVG in base64; None without curves or without matplotlib."""
    runs = [entry.folder / f"seed-{seed.seed}" for seed in entry.ours]
    curves = read_curves([run for run in runs if (run / "config.json").is_file()], skipped=say)
    if not curves:
        return None
    file = entry.folder / "curves.svg"
    try:
        from headrace.studies.plots.figures import plot_groups

        plot_groups(grouped(curves), file)
    except ModuleNotFoundError:
        return None
    return base64.b64encode(file.read_bytes()).decode()
