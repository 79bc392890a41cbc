"""Returns after equal numbers of agent steps, beside stable-baselines3: the same networks, batches, rates and updates.

Weights are judged after every twentieth of a run, by the mean return of ten episodes without exploration. A run's
final return is the mean of its last three judgements. Intervals are bootstrapped over runs: 95 % of the means of as
many runs, drawn from those that there are. Nothing here is a matter of speed. ``one process`` is Headrace without
workers, where nothing that acts or learns is older than it must be; ``headrace train`` has settings of its own, those
that a user gets who gives none. Both run if they are asked for.

    python benchmarks/final_returns.py [--cases "Hopper-v5 sac"] [--contenders headrace "one process"] [--seeds 1 2]
"""

from __future__ import annotations

import json
import logging
import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import tyro
from rich.console import Console
from rich.table import Table

from bootstrap import gain, interval
from common import OURS, RESULTS, heading, write
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

CASES: dict[str, tuple[int, int]] = {
    "Pendulum-v1 sac": (20_000, 5),
    "Hopper-v5 sac": (60_000, 3),
    "HalfCheetah-v5 sac": (60_000, 8),
    "HalfCheetah-v5 td3": (60_000, 5),
}
"""task and algorithm → agent steps, seeds"""
JUDGED = 20  # times in a run
FINAL = 3  # judgements that a final return is the mean of


@dataclass
class ReturnsArgs:
    """Final returns at equal steps, beside stable-baselines3's."""

    cases: tuple[str, ...] = tuple(CASES)
    """task and algorithm"""
    contenders: tuple[Literal["headrace", "headrace train", "one process", "stable-baselines3"], ...] = (OURS, PEER)
    """who runs"""
    seeds: tuple[int, ...] = ()
    """of the runs of each; none for 1, 2, … as many as in the published figures. What the JSON file says of others
    stays"""
    steps: int = 0
    """agent steps of a run; 0 for those of the published figures"""
    episodes: int = 10
    """of one judgement"""
    threads: int = 1
    """of stable-baselines3's products"""
    out: Path = RESULTS
    """folder for the JSON file"""


def final(outcome: Outcome) -> float:
    """A run's final return."""
    return statistics.fmean(mean for _, _, mean in outcome.curve[-FINAL:])


def main() -> None:
    args = tyro.cli(ReturnsArgs)
    logging.disable(logging.WARNING)
    path = args.out / "final_returns.json"
    runs = known(json.loads(path.read_text())) if path.exists() else {}
    for case in args.cases:
        (task, algo), (steps, seeds) = case.split(), CASES.get(case, (60_000, 3))
        steps, there = args.steps or steps, runs.setdefault(case, {})
        judging = Judging(0.0, steps // JUDGED, args.episodes)
        for seed in args.seeds or range(1, seeds + 1):
            for name in args.contenders:
                outcome = learnt(name, task, algo, seed, steps, judging, args.threads)
                show(case, name, outcome)
                put(there.setdefault(name, []), outcome)
                keep(path, runs)
    summarise(runs)


def learnt(name: str, task: str, algo: str, seed: int, steps: int, judging: Judging, threads: int) -> Outcome:
    """One run of a contender."""
    if name == PEER:
        return stable_baselines(task, algo, seed, steps, judging, threads)
    how = {OURS: equal(task, algo), SYNCHRONOUS: in_one_process(task, algo), DEFAULT: {}}[name]
    return ours(settings(task, algo, how, seed=seed, total_steps=steps), judging)


def show(case: str, name: str, outcome: Outcome) -> None:
    """A line a run."""
    Console(highlight=False).print(
        f"{case}, {name}, seed {outcome.seed}: {final(outcome):.0f} after {outcome.steps:,} steps, "
        f"{outcome.updates:,} updates, {outcome.seconds:.0f} s",
        soft_wrap=True,
    )


def keep(path: Path, runs: dict[str, dict[str, list[Outcome]]]) -> None:
    """All that is known so far: a run is long, and may be the last."""
    finals = {
        case: {name: [round(final(outcome), 1) for outcome in outcomes] for name, outcomes in there.items()}
        for case, there in runs.items()
    }
    compared = {name: comparison(finals, name) for name in (OURS, SYNCHRONOUS, DEFAULT)}
    record = heading("final_returns", "Returns after equal numbers of steps") | {
        "final": finals,
        "gains": compared,
        "passed": {case: high >= 0 for case, (_, _, high) in compared[OURS].items()},
        "runs": plain(runs),
    }
    write(path.parent, record)


def comparison(finals: dict[str, dict[str, list[float]]], who: str) -> dict[str, list[float]]:
    """By case, how much higher than stable-baselines3's somebody's returns are, and 95 % of that."""
    both = {case: (there[who], there[PEER]) for case, there in finals.items() if there.get(who) and there.get(PEER)}
    return {case: [round(value, 1) for value in gain(*each)] for case, each in both.items()}


def summarise(runs: dict[str, dict[str, list[Outcome]]]) -> None:
    """A row a contender."""
    table = Table("case", "contender", "runs", "final return", "95 %", "higher than stable-baselines3's by")
    for case, there in runs.items():
        for name, outcomes in there.items():
            values = [final(outcome) for outcome in outcomes]
            low, high = interval(values)
            more = ""
            if name != PEER and there.get(PEER):
                mean, least, most = gain(values, [final(outcome) for outcome in there[PEER]])
                more = f"{mean:,.0f} ({least:,.0f} … {most:,.0f})"
            row = (case, name, str(len(values)), f"{statistics.fmean(values):,.0f}", f"{low:,.0f} … {high:,.0f}", more)
            table.add_row(*row)
    Console().print(table)


if __name__ == "__main__":
    main()
