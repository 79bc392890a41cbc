"""Writes the benchmarks' pages from their records: RESULTS.md with a plot beside each table, and what two READMEs list.

    python benchmarks/table.py [--check]

So that no figure is typed by hand; with ``--check`` nothing is written, and the exit status tells whether all hold what
the JSON files and `catalog.py` say.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from catalog import CATALOG, everything
from common import RESULTS
from glance import glance
from plot import bars
from rows import KINDS, speed_rows

HERE = Path(__file__).parent
PAGE, LIST, README = HERE / "RESULTS.md", HERE / "README.md", HERE.parent / "README.md"
START, END = "<!-- benchmarks -->", "<!-- /benchmarks -->"
"""in both READMEs, around what is written"""
Records = dict[str, dict[str, Any]]


def page(records: Records) -> str:
    """Markdown for all records: a table for each, its plot, and a sentence for what falls short."""
    usual = usual_machine(records)
    parts = [
        "# Results",
        "Written by `benchmarks/table.py` from the JSON files in [results/](results), which have every repetition. "
        "Speeds are medians over turns that alternate. A column with × says how many times as fast Headrace is as "
        "another, with what is wanted in brackets. [The benchmarks' README](README.md) says what is measured, and how. "
        f"Measured on {usual}, unless a line says otherwise.",
    ]
    for benchmark in everything():
        record = records.get(benchmark.name, {})
        if not record or not (benchmark.name in KINDS or record.get("cases")):
            continue  # nothing was measured, or nothing that makes a table
        lines = [f"## {record.get('title') or benchmark.what[0].upper() + benchmark.what[1:]}"]
        if (where := machine(record)) not in (usual, ""):
            lines += ["", f"On {where}."]
        lines += ["", *KINDS.get(benchmark.name, speed_rows)(record)]
        # a note is added by hand to what was measured otherwise than it would be today; the next run drops it
        lines += [line for told in (benchmark.short, record.get("note", "")) if told for line in ("", told)]
        for picture in pictures(benchmark.name, record):
            lines += ["", f"![plot](results/{picture})"]
        parts.append("\n".join(lines))
    return "\n\n".join(parts) + "\n"


def pictures(name: str, record: dict[str, Any]) -> list[str]:
    """Names of the files in ``results/`` that show a record."""
    plots = [f"{name}.svg"] if bars(record) else []
    return plots + [f"{name}.png"] * (RESULTS / f"{name}.png").exists()


def machine(record: dict[str, Any]) -> str:
    """Where a record was measured; empty for what is the same everywhere."""
    if "machine" not in record:
        return ""
    cpu, cores = record["machine"]["cpu"], record["machine"]["cores"]
    return f"{cpu}, {cores} core{'s' * (cores > 1)}"


def usual_machine(records: Records) -> str:
    """Where most records were measured."""
    return Counter(filter(None, map(machine, records.values()))).most_common(1)[0][0]


def listed() -> str:
    """Markdown of all benchmarks."""
    rows = ["| script | measures | beside |", "|---|---|---|"]
    return "\n".join(rows + [f"| `{b.name}.py` | {b.what} | {b.beside} |" for b in everything()])


def overview(records: Records) -> str:
    """Markdown for the README."""
    shown = {benchmark.name for benchmark in CATALOG if benchmark.lines}
    cpus = Counter(record["machine"]["cpu"] for name, record in records.items() if name in shown)
    how = (
        "Medians of turns that alternate, on two cores, with equal settings unless a line says otherwise; least … most "
        "over a benchmark's cases."
    )
    return f"{glance(records)}\n\n{how} Processors: {', '.join(cpu for cpu, _ in cpus.most_common())}."


def between(path: Path, new: str) -> str:
    """A file's text with something new between its marks."""
    before, rest = path.read_text().split(START)
    return f"{before}{START}\n{new}\n{END}{rest.split(END)[1]}"


def read(folder: Path) -> Records:
    """A folder's records by name."""
    return {path.stem: json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))}


def main() -> int:
    records = read(RESULTS)
    if not records:
        print("no results yet: run make bench")
        return 0
    written = {PAGE: page(records), LIST: between(LIST, listed()), README: between(README, overview(records))}
    written |= {RESULTS / f"{name}.svg": plot for name, record in records.items() if (plot := bars(record))}
    if "--check" in sys.argv[1:]:
        return int(any(not path.exists() or path.read_text() != new for path, new in written.items()))
    for path, new in written.items():
        path.write_text(new)
    return 0


if __name__ == "__main__":
    sys.exit(main())
