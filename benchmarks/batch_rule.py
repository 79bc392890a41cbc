"""Does a larger minibatch harm learning, if learning rates, targets and replay ratio follow it? Returns at equal steps.

Each run learns from as many steps, and as many samples a step; minibatches are 1, 2, 4 … times the algorithm's own.
``rule`` is `headrace.train.config.batch_rule.follow_batch`: fewer updates, that go further. ``fewer updates``
leaves learning rates and targets as they are: what the rest of the rule is worth. Runs are in one process each
(samplers=0), so that a seed gives the same run wherever nothing else differs.

    python benchmarks/batch_rule.py [--tasks Pendulum-v1] [--times 1 2] [--arms rule] [--seeds 1 2]
"""

from __future__ import annotations

import dataclasses
import statistics
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tyro

from bootstrap import gain, interval
from common import RESULTS, earlier, heading, show, write
from headrace.machine import cpu_model
from headrace.train import Config, make_config, train
from headrace.train.config.batch_rule import TIMES, UPDATES, follow_batch
from headrace.train.logging.metrics import read_metrics
from headrace.train.play.evaluate import evaluate
from headrace.train.runs.folder import RunFolder

RULE, PLAIN = "rule", "fewer updates"


@dataclass
class Comparison:
    """A task, and how long it is learnt.

    Attributes:
        own: the minibatch that the settings are for.
        steps: agent steps of a run.
        seeds: of the published figures.
        times: minibatches, as multiples of ``own``.
        arms: how settings follow it.
    """

    own: int
    steps: int
    seeds: int
    times: tuple[int, ...]
    arms: tuple[str, ...]


CASES = {
    "Pendulum-v1": Comparison(64, 20_000, 5, (1, 2, 4, 16), (RULE, PLAIN)),
    # as few updates as the tuner ever leaves
    "HalfCheetah-v5": Comparison(256, 2 * UPDATES, 3, (1, 2), (RULE,)),
}


@dataclass
class RuleArgs:
    """Returns at equal steps, by minibatch, with the rule and without."""

    tasks: tuple[str, ...] = tuple(CASES)
    """which tasks"""
    times: tuple[int, ...] = ()
    """minibatches, as multiples of a task's own; none for those of the published figures. What the JSON file says of
    others stays"""
    arms: tuple[str, ...] = ()
    """``rule``, ``fewer updates``; likewise"""
    seeds: tuple[int, ...] = ()
    """of the runs of each; likewise"""
    steps: int = 0
    """agent steps of a run; 0 for those of the published figures"""
    episodes: int = 40
    """episodes that are played without exploration at the end"""
    out: Path = RESULTS
    """folder for the JSON file"""


def settings(task: str, steps: int, times: int, arm: str, seed: int) -> Config:
    """Those of one run."""
    own = CASES[task].own
    config = make_config(
        task, algo="sac", minibatch_size=own, total_steps=steps, seed=seed, samplers=0,
        stop_at_return=None, log_steps=steps // 20, tensorboard=False, video=False, save_replay=False,
    )  # fmt: skip
    followed = follow_batch(config, times * own)
    if arm == RULE:
        return followed
    return dataclasses.replace(config, minibatch_size=followed.minibatch_size, replay_ratio=followed.replay_ratio)


def learn(config: Config, episodes: int) -> dict[str, Any]:
    """One run: its curve, and what it plays like at its end."""
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        chosen = {f.name: getattr(config, f.name) for f in dataclasses.fields(Config) if f.name != "task"}
        train(config.task, run_dir=Path(folder) / "run", quiet=True, **chosen)
        seconds = time.perf_counter() - began
        lines = read_metrics(RunFolder(Path(folder) / "run").metrics_file)
        final = evaluate(Path(folder) / "run", episodes, which="newest").mean_return
    return {
        "minibatch_size": config.minibatch_size,
        "learning_rate": config.learning_rate,
        "replay_ratio": config.replay_ratio,
        "seconds": round(seconds, 1),
        "final": round(final, 1),
        "cpu": cpu_model(),
        "curve": [(line["step"], line["return"]) for line in lines if line["return"] is not None],
    }


def main() -> None:
    args = tyro.cli(RuleArgs)
    runs: list[dict[str, Any]] = earlier(args.out, "batch_rule") or []
    for task in args.tasks:
        case = CASES[task]
        steps = args.steps or case.steps
        for seed in args.seeds or range(1, case.seeds + 1):
            for times in args.times or case.times:
                for arm in (args.arms or case.arms) if times > 1 else (RULE,):
                    this = {"task": task, "times": times, "arm": arm, "seed": seed, "steps": steps}
                    run = this | learn(settings(task, steps, times, arm, seed), args.episodes)
                    runs = [other for other in runs if any(other[name] != this[name] for name in this)] + [run]
                    write(args.out, record(runs))
                    words = f"{run['minibatch_size']:,} samples, {arm}: {run['final']:.0f}"
                    print(f"{task}, seed {seed}, {words} after {run['seconds']:.0f} s")
    show(record(runs))


def summary(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One row for each task, minibatch and arm; ``gain`` beside the task's own minibatch."""
    groups: dict[tuple[str, int, int, str], list[dict[str, Any]]] = {}
    for run in runs:
        groups.setdefault((run["task"], run["steps"], run["times"], run["arm"]), []).append(run)
    rows = []
    for (task, steps, times, arm), mine in groups.items():
        finals = [run["final"] for run in mine]
        row = {"task": task, "steps": steps, "times": times, "arm": arm, "runs": len(mine)}
        row |= {name: mine[0][name] for name in ("minibatch_size", "learning_rate", "replay_ratio")}
        row |= {"final": statistics.fmean(finals), "interval": interval(finals)}
        means = [mean for run in mine if (mean := mean_return(run)) is not None]
        row |= {"whole_run": statistics.fmean(means) if means else None}
        own = groups.get((task, steps, 1, RULE))
        rows.append(row | {"gain": gain(finals, [run["final"] for run in own]) if own and times > 1 else None})
    return rows


def mean_return(run: dict[str, Any]) -> float | None:
    """Over the whole run, exploration included: how fast it learnt."""
    return statistics.fmean(value for _, value in run["curve"]) if run["curve"] else None


def record(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """All that is known so far."""
    rows = summary(runs)
    return heading("batch_rule", "SAC's returns by minibatch") | {
        "limits": {"times": TIMES, "updates": UPDATES},
        "summary": rows,
        "passed": {
            f"{row['task']}, {row['minibatch_size']:,} samples": row["gain"][2] >= 0
            for row in rows
            if row["gain"] is not None and row["arm"] == RULE and row["times"] <= TIMES
        },
        "runs": runs,
        "rows": [
            line(task, [row for row in rows if row["task"] == task and row["arm"] == RULE])
            for task in dict.fromkeys(row["task"] for row in rows)
        ],
    }


def line(task: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """A task's minibatches, from its own on: mean final returns, and how much higher these are than its own's."""
    gains = ("{:+,.0f} ({:+,.0f} … {:+,.0f})".format(*row["gain"]) for row in rows if row["gain"])
    over = {row["times"]: " (over the rule's limit)" for row in rows if row["times"] > TIMES}
    return {
        "task, steps, runs": f"{task}, {rows[0]['steps']:,}, {rows[0]['runs']}",
        "minibatch": "; ".join(f"{row['minibatch_size']:,}{over.get(row['times'], '')}" for row in rows),
        "final return": "; ".join(f"{row['final']:,.0f}" for row in rows),
        "higher than with the task's own (95 %)": "; ".join(gains),
    }


if __name__ == "__main__":
    main()
