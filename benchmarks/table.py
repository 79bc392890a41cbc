"""Puts the benchmarks' medians into the README, between its two markers.

    python benchmarks/table.py [--check]

So that no figure is typed by hand; with ``--check`` nothing is written, and the exit
status tells whether the README holds what the JSON files say.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from common import RESULTS

README = Path(__file__).parent.parent / "README.md"
START, END = "<!-- benchmarks -->", "<!-- /benchmarks -->"
ORDER = (
    "atari_pool",
    "cartpole_pool",
    "mujoco_pool",
    "mujoco_pixels",
    "kernel_envs",
    "minatar_pool",
    "tag_pool",
    "ppo_speed",
    "ppo_learning",
    "dqn_update",
    "replay",
    "learn_pong",
    "mujoco_learning",
    "sac_update",
    "tag_training",
    "tag_learning",
    "memory",
)


def section(records: list[dict[str, Any]]) -> str:
    """Markdown for all records: a table for each, and the machine."""
    kinds = {
        "memory": memory_rows,
        "mujoco_pool": mujoco_pool_rows,
        "ppo_learning": learning_rows,
        "learn_pong": pong_rows,
        "mujoco_learning": mujoco_rows,
        "tag_learning": tag_rows,
    }
    parts = []
    for record in records:
        lines = kinds.get(record["name"], speed_rows)(record)
        parts.append(f"**{record['title']}** (`{record['command']}`)\n\n" + "\n".join(lines))
    machines = {(r["machine"]["cpu"], r["machine"]["cores"]) for r in records}
    measured = "; ".join(f"{cpu}, {cores} cores" for cpu, cores in sorted(machines))
    parts.append(
        f"Measured on {measured}; speeds are medians over turns that alternate in one process. "
        "[benchmarks/](benchmarks/README.md) has the settings, and every repetition as JSON."
    )
    return "\n\n".join(parts)


def speed_rows(record: dict[str, Any]) -> list[str]:
    """One row a case: our median, then each peer's with the ratio."""
    rows = ["| case | Headrace | beside | ratio | wanted |", "|---|---:|---|---:|---:|"]
    for case in record["cases"]:
        skip, median = case["frame_skip"], case["median"]
        ours = f"{median['headrace']:,.0f} {case['unit']}"
        if skip > 1:
            ours += f" ({median['headrace'] * skip:,.0f} frames/s)"
        for i, (peer, ratio) in enumerate(case["ratio"].items()):
            least = case["at_least"].get(peer)
            wanted = "" if least is None else f"{least:g} ×" + ("" if case["passed"][peer] else " (short)")
            first = f"| {case['name']} | {ours} " if i == 0 else "| | "
            rows.append(f"{first}| {peer}: {median[peer]:,.0f} | **{ratio:.2f} ×** | {wanted} |")
    return rows


def mujoco_pool_rows(record: dict[str, Any]) -> list[str]:
    """As `speed_rows`, a large pool beside a small one at the same work, and what one of Humanoid keeps in memory."""
    rows = speed_rows(record)
    if sizes := record.get("sizes"):
        rows += ["", "| N=1024 beside N=64, the same work in turns | ratio | spread | wanted |", "|---|---:|---:|---|"]
        for task, found in sizes.items():
            wanted = "1 ×" + ("" if found["passed"] else " (short)")
            rows.append(f"| {task} | **{found['median']:.2f} ×** | {found['spread']:.0%} | {wanted} |")
    mib = {name: m["peak"] - m["before"] for name, m in record.get("peak_memory_mib", {}).items()}
    if told := ", ".join(f"{name} {size:,.0f} MiB" for name, size in mib.items()):
        rows += ["", f"Peak memory of a pool of Humanoid-v5, N=1024: {told}."]
    return rows


def learning_rows(record: dict[str, Any]) -> list[str]:
    """One row a task: median seconds of training until it is solved, and how many runs solved it."""
    names = list(next(iter(record["runs"].values())))
    rows = [f"| task (mean return wanted) | {' | '.join(names)} |", "|---|" + "---:|" * len(names)]
    for task, runs in record["runs"].items():
        cells = [f"{task} ({record['goals'][task]:g})"]
        for name in names:
            median, solved = record["median_seconds"][task][name], sum(run["solved"] for run in runs[name])
            cells.append(f"{'-' if median is None else f'{median:.1f} s'} ({solved} of {len(runs[name])} solved)")
        rows.append(f"| {' | '.join(cells)} |")
    return rows


def mujoco_rows(record: dict[str, Any]) -> list[str]:
    """One row a run, then what was published."""
    rows = ["| task, seed | in training | deterministic | seconds | to the goal |", "|---|---:|---:|---:|---:|"]
    for task, runs in record["runs"].items():
        for run in runs:
            goal = run["seconds_to_goal"]
            reached = "-" if goal is None else f"{goal:,.0f} s to {record['goals'][task]:,.0f}"
            returns = f"{run['last_return']:,.0f} | {run['deterministic_return']:,.0f}"
            rows.append(f"| {task}, {run['seed']} | {returns} | {run['seconds']:,.0f} | {reached} |")
        for name, value in record["published"].get(task, {}).items():
            rows.append(f"| {task}, as published: {name} | {value:,.0f} | | | |")
    return rows


def pong_rows(record: dict[str, Any]) -> list[str]:
    """One row: from which return to which, in how many steps and seconds."""
    return [
        "| first return | last return | steps | seconds |",
        "|---:|---:|---:|---:|",
        f"| {record['first_return']:.1f} | {record['mean_return']:.1f} "
        f"| {record['steps']:,} | {record['seconds']:,.0f} |",
    ]


def tag_rows(record: dict[str, Any]) -> list[str]:
    """The grid's seeds, then the plane's: mean returns of random play and of what was learnt."""
    rows = ["| game, seed | mean return of | at random | learnt | seconds of training |", "|---|---|---:|---:|---:|"]
    for seed, run in record["grid"].items():
        first, last, reached = run["curve"][0], run["curve"][-1], run["seconds_to_level"]
        when = "" if reached is None else f" ({reached:.0f} to {record['level']:+g})"
        ends = f"{first['taggers']:+.2f} | {last['taggers']:+.2f}"
        rows.append(
            f"| grid, {seed} | taggers, against runners of the same run | {ends} | {last['seconds']:.0f}{when} |"
        )
    for seed, run in record["plane"].items():
        seconds = f"{run['checkpoints'][-1][1]:.0f}"
        chase, flight = run["taggers"], run["runners"]
        ends = f"{chase[0][0]:+.2f} | {chase[-1][0]:+.2f}"
        rows.append(f"| plane, {seed} | taggers, against random runners | {ends} | {seconds} |")
        rows.append(f"| | runners, against random taggers | {flight[0][0]:+.2f} | {flight[0][-1]:+.2f} | |")
    return rows


def memory_rows(record: dict[str, Any]) -> list[str]:
    """One row a case: memory at both ends, and whether it is flat."""
    rows = ["| case | MiB, first … last | threads, first … last | flat |", "|---|---:|---:|---|"]
    for case in record["cases"]:
        first, last = case["bytes"][0] / 2**20, case["bytes"][-1] / 2**20
        threads = f"{case['threads'][0]} … {case['threads'][-1]}"
        rows.append(f"| {case['name']} | {first:.1f} … {last:.1f} | {threads} | {'yes' if case['passed'] else 'no'} |")
    return rows


def main() -> int:
    found = {path.stem: json.loads(path.read_text()) for path in sorted(RESULTS.glob("*.json"))}
    records = [found[name] for name in ORDER if name in found]
    if not records:
        print("no results yet: run make bench")
        return 0
    text = README.read_text()
    before, rest = text.split(START)
    after = rest.split(END)[1]
    new = f"{before}{START}\n{section(records)}\n{END}{after}"
    if "--check" in sys.argv[1:]:
        return int(new != text)
    README.write_text(new)
    return 0


if __name__ == "__main__":
    sys.exit(main())
