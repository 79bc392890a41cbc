"""Writes the benchmarks' pages from their records: RESULTS.md, a plot for each table, and what two READMEs show.

    python benchmarks/table.py [--check]

So that no figure is typed by hand; with ``--check`` nothing is written, and the exit status tells whether all hold what
the JSON files and `catalog.py` say.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

from catalog import CATALOG, SB3, Benchmark, Line, sections, sentence
from common import OURS, RESULTS, cell
from plot import Race, bars, race_bars

HERE = Path(__file__).parent
PAGE, LIST, README = HERE / "RESULTS.md", HERE / "README.md", HERE.parent / "README.md"
START, END = "<!-- benchmarks -->", "<!-- /benchmarks -->"
"""in both READMEs, around what is written"""
RACED, RACES = ("ppo_learning", "off_policy"), "races.svg"
"""records of seconds until a return, and their picture"""
NBSP = "\N{NO-BREAK SPACE}"
Record = dict[str, Any]
Records = dict[str, Record]


def page(records: Records) -> str:
    """Markdown for all records: a table for each, and a sentence for what falls short."""
    usual = Counter(map(machine, records.values())).most_common(1)[0][0]
    parts = [
        "# Results",
        "[What each measures, and how](README.md). Speeds are medians of turns that alternate; × says how many times "
        "as fast Headrace is as another, (≥) what was wanted; a row of several cases has the least … most. A title "
        f"leads to the file with every turn. On two cores of {usual}, unless a title says otherwise.",
        f"## At a glance\n\n{overview(records)}",
    ]
    for section, benchmarks in sections().items():
        found = ((benchmark, records.get(benchmark.name, {})) for benchmark in benchmarks)
        known = [(benchmark, record) for benchmark, record in found if record.get("cases") or record.get("rows")]
        tables = [table(benchmark, record, usual) for benchmark, record in known if not benchmark.page]
        pages = [f"[{record['title']}](../docs/{each.page})" for each, record in known if each.page]
        parts += [f"## {section}"] * bool(known) + tables
        parts += [f"The documentation has the figures of: {'; '.join(pages)}."] * bool(pages)
    return "\n\n".join(parts) + "\n"


def table(benchmark: Benchmark, record: Record, usual: str) -> str:
    """One record's, whose title is its first cell, and in a paragraph what falls short and what else is to be said."""
    title = f"[{record['title']}](results/{benchmark.name}.json)"
    title += f", {here}" if (here := machine(record)) != usual else ""
    for picture in pictures(benchmark.name, record):
        of = Path(picture).stem.removeprefix(benchmark.name).lstrip("_")
        title += f" · [plot{f' of {of}' if of else ''}](results/{picture})"
    rows = record.get("rows") or list(speed_rows(record["cases"], benchmark.together))
    columns = list(rows[0])
    title += "" if columns[0] == "case" else f" · {columns[0]}"
    lines = [[title, *columns[1:]], *(map(cell, row.values()) for row in rows)]
    told = [f"| {' | '.join(line)} |" for line in lines]
    told.insert(1, "|---|" + "---:|" * (len(columns) - 1))
    words = " ".join(filter(None, (benchmark.short, record.get("note", ""))))
    return "\n".join(told) + f"\n\n{words}" * bool(words)


def speed_rows(cases: list[Record], together: str) -> Iterator[dict[str, str]]:
    """Our rate, then how many times as fast it is as each peer; of a case, or of several whose names share a part."""
    groups: dict[str, list[Record]] = {}
    for case in cases:
        shared = re.search(together, case["name"]) if together else None
        groups.setdefault(shared[0] if shared else case["name"], []).append(case)
    peers = dict.fromkeys(peer for case in cases for peer in case["ratio"])
    units = {case["unit"] for case in cases}
    ours = f"Headrace, {units.pop() if len(units) == 1 else 'a second'}"
    for name, group in groups.items():
        words = (name.strip(", "), f"{len(group)} cases" if len(group) > 1 else "")
        rates = span([case["median"]["headrace"] for case in group], "{:,.0f}")
        found = {header(peer, cases): ratios([c for c in group if peer in c["ratio"]], peer, cases) for peer in peers}
        yield {"case": ", ".join(filter(None, words)), ours: rates, **found}


def wanted(peer: str, cases: list[Record]) -> set[float | None]:
    """The ratios to a peer that are wanted of cases."""
    return {case["at_least"].get(peer) for case in cases if peer in case["ratio"]}


def header(peer: str, cases: list[Record]) -> str:
    """A peer, and what is wanted if that is the same of all cases."""
    least = wanted(peer, cases)
    return f"× {peer}" + (f" (≥{NBSP}{least.pop():g})" if len(least) == 1 and None not in least else "")


def ratios(group: list[Record], peer: str, cases: list[Record]) -> str:
    """The ratios to a peer, and what is wanted unless that is the same of all."""
    if not group:
        return ""
    told = f"**{span([case['ratio'][peer] for case in group], '{:.2f}')}**"
    short = [case["at_least"][peer] for case in group if not case["passed"].get(peer, True)]
    least = [ratio for ratio in wanted(peer, group) if ratio is not None]
    if len(wanted(peer, cases)) == 1:
        return told + f"{NBSP}short" * bool(short)
    return told + (f" ({f'short{NBSP}of' if short else '≥'}{NBSP}{span(short or least, '{:g}')})" if least else "")


def span(values: list[float], form: str) -> str:
    """Least … most, or one."""
    return f"{NBSP}…{NBSP}".join(dict.fromkeys(form.format(pick(values)) for pick in (min, max)))


def pictures(name: str, record: Record) -> list[str]:
    """Names of the files in ``results/`` that show a record."""
    plots = [f"{name}.svg"] if bars(record) else []
    return plots + sorted(path.name for path in RESULTS.glob(f"{name}*.png"))


def machine(record: Record) -> str:
    """Where a record was measured: on which processor, or other device."""
    here = record["machine"]
    return here.get("cpu", here.get("device", "")).replace("(R)", "").replace(" Processor", "")


def listed() -> str:
    """Markdown of all benchmarks."""
    names = [benchmark.name for section in sections().values() for benchmark in section]
    told = (f"| `{name}.py` | {sentence(HERE / f'{name}.py')} |" for name in names)
    return "\n".join(["| script | measures |", "|---|---|", *told])


def overview(records: Records) -> str:
    """Markdown of how many times as fast as others, a line for each peer that was measured."""
    rows = ["| | beside | times as fast |", "|---|---|---:|"]
    cpus = Counter[str]()
    for benchmark in CATALOG:
        for line in benchmark.lines:
            if found := times(records.get(benchmark.name, {}), line):
                rows.append(f"| {line.what} | {line.called} | {found} |")
                cpus[records[benchmark.name]["machine"]["cpu"]] += 1
    how = (
        "Medians of turns that alternate, on two cores, with equal settings unless a line says otherwise; least … most "
        "over a benchmark's cases."
    )
    return "\n".join(rows) + f"\n\n{how} Processors: {', '.join(cpu for cpu, _ in cpus.most_common())}."


def races(records: Records) -> list[Race]:
    """The plain commands that reach a return, beside stable-baselines3 tuned for the task, the soonest first."""
    of_ppo, off_policy = (records.get(name, {}) for name in RACED)
    found: list[Race] = []
    for task, runs in of_ppo.get("runs", {}).items():
        ours, theirs = (
            median([run["seconds"] if run["solved"] else math.inf for run in runs[who]]) for who in (OURS, SB3)
        )
        found.append(Race(f"headrace train {task}", of_ppo["goals"][task], ours, theirs))
    for name, runs in off_policy.get("runs", {}).items():
        task, algorithm, *goal = name.replace(" until", "").split()
        if goal and "HalfCheetah" in task:  # Pendulum is among the others
            wanted = float(goal[0])
            ours, theirs = (median([reached(run, wanted) for run in runs[who]]) for who in ("headrace train", SB3))
            found.append(Race(f"headrace train {task} --algo {algorithm}", wanted, ours, theirs))
    return sorted((race for race in found if race.ours < race.theirs < math.inf), key=lambda race: race.ours)


def reached(run: Record, goal: float) -> float:
    """Seconds after which the mean return of a run's last episodes was as high; infinite where it never was."""
    return next((seconds for _, seconds, mean in run["curve"] if mean >= goal), math.inf)


def front(records: Records) -> str:
    """Markdown for the README: the picture of the races, with its figures as text."""
    told = "; ".join(f"{each.command} {each.ours:.1f} s, {SB3} {each.theirs:.0f} s" for each in races(records))
    machines = dict.fromkeys(machine(records[name]) for name in RACED if name in records)
    picture = f"![Seconds until solved: {told}](benchmarks/results/{RACES})"
    return f"{picture}\n\n*Medians of seeds, two cores ({', '.join(machines)}), each with settings tuned for the task.*"


def times(record: Record, line: Line) -> str:
    """Least and most of ours beside the peer's, or one where they are as good as equal."""
    cases = record.get("cases", ())
    found = record.get("ratios", {}).get(line.peer) or [c["ratio"][line.peer] for c in cases if line.peer in c["ratio"]]
    ends = dict.fromkeys(rounded(pick(found)) for pick in (min, max)) if found else {}
    return " … ".join(ends) + " ×" * bool(ends)


def rounded(ratio: float) -> str:
    """In as many digits as tell something."""
    digits = next((digits for limit, digits in ((2, 2), (10, 1)) if ratio < limit), 0)
    return f"{ratio:.{digits}f}"


def between(path: Path, new: str) -> str:
    """A file's text with something new between its marks."""
    before, rest = path.read_text().split(START)
    return f"{before}{START}\n{new}\n{END}{rest.split(END)[1]}"


def main() -> int:
    records: Records = {path.stem: json.loads(path.read_text()) for path in sorted(RESULTS.glob("*.json"))}
    if not records:
        print("no results yet: run make bench")
        return 0
    written = {PAGE: page(records), LIST: between(LIST, listed()), README: between(README, front(records))}
    written |= {RESULTS / RACES: race_bars(races(records), "Headrace", SB3)}
    written |= {RESULTS / f"{name}.svg": plot for name, record in records.items() if (plot := bars(record))}
    if "--check" in sys.argv[1:]:
        return int(any(not path.exists() or path.read_text() != new for path, new in written.items()))
    for path, new in written.items():
        path.write_text(new)
    return 0


if __name__ == "__main__":
    sys.exit(main())
