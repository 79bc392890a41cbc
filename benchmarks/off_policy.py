"""Off-policy runs beside stable-baselines3's: seconds until a return, and returns after equal numbers of steps.

Runs take turns, one at a time; for seconds nothing else may run meanwhile. ``headrace train`` is what
``headrace train TASK --algo ALGO`` does. The others have the same networks, batches, rates and updates a step:
``equal`` with workers, ``one process`` in our synchronous loop, and stable-baselines3's own loop.

Where a case has a goal, weights are judged about once a second of training, off the clock, and a run ends once their
mean return has reached it: stable-baselines3's at once, ours a little later. Elsewhere they are judged after every
twentieth of a run, by ten episodes without exploration, and a final return is the mean of the last three judgements;
intervals are bootstrapped over runs: 95 % of the means of as many, drawn from those that there are.

    python benchmarks/off_policy.py [--cases "Hopper-v5 sac"] [--contenders equal stable-baselines3] [--seeds 1 2]
"""

from __future__ import annotations

import logging
import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import tyro

from bootstrap import gain
from common import RESULTS, earlier, heading, show, write
from off_policy_runs import (
    DEFAULT,
    EQUAL,
    PEER,
    SYNCHRONOUS,
    Judging,
    Outcome,
    known,
    ours,
    plain,
    put,
    settings,
    stable_baselines,
)

NAME = "off_policy"


class Case(NamedTuple):
    """A task that is learnt.

    Attributes:
        steps: agent steps of a run, at most.
        seeds: runs of each contender in the published figures.
        contenders: who runs.
        goal: the return whose seconds count; None where the return after all steps does.
        after: episodes in a row that end our runs at the goal: long enough for a policy that is good with exploration
            to be so without.
    """

    steps: int
    seeds: int
    contenders: tuple[str, ...] = (EQUAL, PEER)
    goal: float | None = None
    after: int = 0


ALL = (DEFAULT, EQUAL, SYNCHRONOUS, PEER)
CASES = {
    "Pendulum-v1 sac until -200": Case(20_000, 5, ALL, -200.0, 25),
    "HalfCheetah-v5 sac until 1000": Case(60_000, 5, ALL, 1000.0, 3),
    "Pendulum-v1 sac": Case(20_000, 5),
    "Hopper-v5 sac": Case(60_000, 3),
    "HalfCheetah-v5 sac": Case(60_000, 8),
    "HalfCheetah-v5 td3": Case(60_000, 5),
}
"""task, algorithm and goal"""
WANTED = {(DEFAULT, PEER): 2.0, (EQUAL, SYNCHRONOUS): 1.5}
"""(who, beside whom) → how many times sooner, at least"""
JUDGED = 20  # times in a run without a goal
FINAL = 3  # judgements that a final return is the mean of
Runs = dict[str, dict[str, list[Outcome]]]


@dataclass
class OffPolicyArgs:
    """Off-policy runs beside stable-baselines3's."""

    cases: tuple[str, ...] = tuple(CASES)
    """task, algorithm and goal"""
    contenders: tuple[Literal["headrace train", "equal", "one process", "stable-baselines3"], ...] = ()
    """who runs; none for those of the published figures. What the JSON file says of others stays"""
    seeds: tuple[int, ...] = ()
    """of the runs of each; likewise"""
    steps: int = 0
    """agent steps of a run; likewise"""
    out: Path = RESULTS
    """folder for the JSON file"""


def learnt(name: str, who: str, seed: int, args: OffPolicyArgs) -> Outcome:
    """One run."""
    case, (task, algo, *_) = CASES[name], name.split()
    steps, goal = args.steps or case.steps, case.goal
    judging = Judging(0.0, steps // JUDGED, 10) if goal is None else Judging(1.0, 1, 5, goal)
    if who == PEER:
        return stable_baselines(task, algo, seed, steps, judging, 1 if goal is None else 2)
    ends = {} if goal is None else {"stop_at_return": goal, "stop_episodes": case.after}
    return ours(settings(task, algo, who, seed=seed, total_steps=steps, **ends), judging)


def final(outcome: Outcome) -> float:
    """A run's final return."""
    return round(statistics.fmean(mean for _, _, mean in outcome.curve[-FINAL:]), 1)


def seconds_to(goal: float, outcomes: list[Outcome]) -> list[float]:
    """Seconds until each run reached a return; infinite for those that never did."""
    found = [outcome.reached(goal) for outcome in outcomes]
    return [seconds[0] if seconds else float("inf") for seconds in found]


def sooner(goal: float, who: list[Outcome], other: list[Outcome]) -> float:
    """How many times sooner one is there than another: the ratio of their median seconds; 0 where it never is."""
    mine, theirs = (statistics.median(seconds_to(goal, outcomes)) for outcomes in (who, other))
    return round(theirs / mine, 2) if mine < float("inf") else 0.0


def row(name: str, there: dict[str, list[Outcome]], who: str) -> dict[str, Any]:
    """One of our contenders: what it took or reached, beside others."""
    goal, mine = CASES[name].goal, there[who]
    others = {other: there[other] for other in (PEER, SYNCHRONOUS) if other in there and other != who}
    beside = {other: compared(goal, who, mine, other, outcomes) for other, outcomes in others.items()}
    return {
        "case: who, runs": f"{name}: {who}, {len(mine)} and {len(there[PEER])}",
        "Headrace": told(goal, mine),
        PEER: told(goal, there[PEER]),
        "sooner, or higher (95 %)": beside[PEER],
        "than in one process": beside.get(SYNCHRONOUS, ""),
    }


def shown(name: str) -> tuple[str, ...]:
    """Who has a row: of those without workers, whose returns are told."""
    return (DEFAULT, EQUAL) if CASES[name].goal is not None else (DEFAULT, EQUAL, SYNCHRONOUS)


def told(goal: float | None, outcomes: list[Outcome]) -> str:
    """Seconds until the goal (least … most), or the mean final return."""
    if goal is None:
        return f"{statistics.fmean(map(final, outcomes)):,.0f}"
    seconds = sorted(seconds_to(goal, outcomes))
    middle, least, most = (
        "not reached" if value == float("inf") else f"{value:.1f}"
        for value in (statistics.median(seconds), seconds[0], seconds[-1])
    )
    return f"{middle} s ({least} … {most})"


def compared(goal: float | None, who: str, mine: list[Outcome], other: str, theirs: list[Outcome]) -> str:
    """How many times sooner, or how much higher with 95 % of that."""
    if goal is None:
        higher = gain(list(map(final, mine)), list(map(final, theirs)))
        return "{:+,.0f} ({:+,.0f} … {:+,.0f})".format(*(round(value, 1) for value in higher))
    ratio, least = sooner(goal, mine, theirs), WANTED.get((who, other))
    return f"{ratio:.2f} ×" + ("" if least is None else f" ({'≥' if ratio >= least else 'short of'} {least:g})")


def record(runs: Runs) -> dict[str, Any]:
    """All that is known so far, in the order of the published tables, whatever was run first."""
    whole = {name: runs[name] for name in CASES if PEER in runs.get(name, {})}
    ratios: dict[str, list[float]] = {DEFAULT: [], EQUAL: []}
    passed: dict[str, bool] = {}
    for name, there in whole.items():
        goal = CASES[name].goal
        if goal is None and EQUAL in there:
            passed[name] = gain(list(map(final, there[EQUAL])), list(map(final, there[PEER])))[2] >= 0
        if goal is None:
            continue
        for who in ratios.keys() & there.keys():
            ratios[who].append(sooner(goal, there[who], there[PEER]))
        for (who, other), least in WANTED.items():
            if who in there and other in there:
                passed[f"{name}: {who} beside {other}"] = sooner(goal, there[who], there[other]) >= least
    lines = [row(name, there, who) for name, there in whole.items() for who in shown(name) if who in there]
    return heading(NAME, "Off-policy runs: seconds until a return, or returns") | {
        "ratios": ratios,
        "passed": passed,
        "runs": plain(runs),
        "rows": lines,
    }


def main() -> None:
    args = tyro.cli(OffPolicyArgs)
    logging.disable(logging.WARNING)
    runs = known(earlier(args.out, NAME) or {})
    for name in args.cases:
        case, there = CASES[name], runs.setdefault(name, {})
        for seed in args.seeds or range(1, case.seeds + 1):
            for who in args.contenders or case.contenders:
                outcome = learnt(name, who, seed, args)
                put(there.setdefault(who, []), outcome)
                print(f"{name}, {who}, seed {seed}: {outcome.curve[-1:]}, {outcome.updates:,} updates")
                write(args.out, record(runs))
    show(record(runs))


if __name__ == "__main__":
    main()
