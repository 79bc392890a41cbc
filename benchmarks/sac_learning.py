"""Seconds until SAC reaches a return, with workers, in one process, and beside stable-baselines3.

Everybody's weights are judged about once a second of training, off the clock. Runs take turns, one at a time; nothing
else may run meanwhile. ``headrace train`` is what ``headrace train TASK --algo sac`` does. The others have the same
networks, batches, rates and updates a step: ``equal`` with workers, ``one process`` in our synchronous loop, and
stable-baselines3's own loop. Our runs end a little after the return was reached, stable-baselines3's at once.

    python benchmarks/sac_learning.py [--tasks Pendulum-v1] [--seeds 1 2]
"""

from __future__ import annotations

import json
import logging
import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tyro
from rich.console import Console
from rich.table import Table

from common import RESULTS, heading, write
from off_policy_runs import (
    DEFAULT,
    PEER,
    SYNCHRONOUS,
    Judging,
    Outcome,
    equal,
    in_one_process,
    known,
    ours,
    plain,
    put,
    settings,
    stable_baselines,
)

EQUAL = "equal"
CONTENDERS = (DEFAULT, EQUAL, SYNCHRONOUS, PEER)
GOALS = {"Pendulum-v1": -200.0, "HalfCheetah-v5": 1000.0}
STEPS = {"Pendulum-v1": 20_000, "HalfCheetah-v5": 60_000}
WANTED = {(DEFAULT, PEER): 2.0, (EQUAL, SYNCHRONOUS): 1.5}
"""(who, beside whom) → how many times faster, at least"""
AFTER = {"Pendulum-v1": 25, "HalfCheetah-v5": 3}
"""episodes in a row that end our runs: long enough for a policy that is good with exploration to be so without"""


@dataclass
class LearningArgs:
    """Seconds until a return, beside stable-baselines3's SAC."""

    seeds: tuple[int, ...] = (1, 2, 3, 4, 5)
    """of the runs of each; what the JSON file says of others stays"""
    tasks: tuple[str, ...] = tuple(GOALS)
    """which tasks"""
    contenders: tuple[str, ...] = CONTENDERS
    """who runs; likewise"""
    every: float = 1.0
    """seconds between two judgements"""
    episodes: int = 5
    """episodes of a judgement"""
    steps: int = 0
    """agent steps of a run at most; 0 for those of the published figures"""
    threads: int = 2
    """of stable-baselines3's products"""
    out: Path = RESULTS
    """folder for the JSON file"""


def race(task: str, contender: str, seed: int, args: LearningArgs) -> Outcome:
    """One run, until it reached its task's return."""
    steps, judging = args.steps or STEPS[task], Judging(args.every, 1, args.episodes, GOALS[task])
    if contender == PEER:
        return stable_baselines(task, "sac", seed, steps, judging, args.threads)
    how = {DEFAULT: {}, EQUAL: equal(task, "sac"), SYNCHRONOUS: in_one_process(task, "sac")}[contender]
    common = {"seed": seed, "total_steps": steps, "stop_at_return": GOALS[task], "stop_episodes": AFTER[task]}
    return ours(settings(task, "sac", how, **common), judging)


def main() -> None:
    args = tyro.cli(LearningArgs)
    logging.disable(logging.WARNING)
    path = args.out / "sac_learning.json"
    runs = known(json.loads(path.read_text())) if path.exists() else {}
    for task in args.tasks:
        there = runs.setdefault(task, {})
        for seed in args.seeds:
            for name in args.contenders:
                outcome = race(task, name, seed, args)
                show(task, name, outcome)
                put(there.setdefault(name, []), outcome)
                keep(path, runs)
    summarise(runs)


def seconds_to(goal: float, outcomes: list[Outcome]) -> list[float]:
    """Seconds until each run reached a return; infinite for those that never did."""
    found = [outcome.reached(goal) for outcome in outcomes]
    return [seconds[0] if seconds else float("inf") for seconds in found]


def faster(task: str, who: list[Outcome], other: list[Outcome]) -> float:
    """How many times faster one is than another: the ratio of their median seconds."""
    mine, theirs = (statistics.median(seconds_to(GOALS[task], outcomes)) for outcomes in (who, other))
    return round(theirs / mine, 2)


def show(task: str, name: str, outcome: Outcome) -> None:
    """A line a run."""
    reached = outcome.reached(GOALS[task])
    when = f"after {reached[0]:.1f} s, {reached[1]:,} steps" if reached else f"not in {outcome.seconds:.0f} s"
    Console(highlight=False).print(
        f"{task}, {name}, seed {outcome.seed}: {GOALS[task]:g} {when}; "
        f"{outcome.updates / outcome.seconds:.0f} updates/s",
        soft_wrap=True,
    )


def keep(path: Path, runs: dict[str, dict[str, list[Outcome]]]) -> None:
    """All that is known so far, in the order of the published tables, whatever was run first."""
    runs = {
        task: {name: runs[task][name] for name in CONTENDERS if name in runs[task]} for task in GOALS if task in runs
    }
    ratios: dict[str, float] = {}
    passed: dict[str, bool] = {}
    for task, there in runs.items():
        for who, beside in ((DEFAULT, PEER), (DEFAULT, SYNCHRONOUS), (EQUAL, PEER), (EQUAL, SYNCHRONOUS)):
            if there.get(who) and there.get(beside):
                name = f"{task}: {who} beside {beside}"
                ratios[name] = faster(task, there[who], there[beside])
                if (who, beside) in WANTED:
                    passed[name] = ratios[name] >= WANTED[who, beside]
    record = heading("sac_learning", "SAC: seconds to a return") | {
        "goals": GOALS,
        "times_faster": ratios,
        "passed": passed,
        "runs": plain(runs),
    }
    write(path.parent, record)


def summarise(runs: dict[str, dict[str, list[Outcome]]]) -> None:
    """A row a contender."""
    table = Table("task", "contender", "reached", "seconds: median", "least … most", "steps: median", "updates/s")
    for task, there in runs.items():
        for name, outcomes in there.items():
            seconds = seconds_to(GOALS[task], outcomes)
            found = [reached[1] for outcome in outcomes if (reached := outcome.reached(GOALS[task]))]
            numbers: list[Any] = [f"{len(found)} of {len(outcomes)}", f"{statistics.median(seconds):.1f}"]
            numbers.append(f"{min(seconds):.1f} … {max(seconds):.1f}")
            numbers.append(f"{statistics.median(found):,.0f}" if found else "-")
            numbers.append(f"{statistics.median(o.updates / o.seconds for o in outcomes):,.0f}")
            table.add_row(task, name, *numbers)
    Console().print(table)


if __name__ == "__main__":
    main()
