"""Does a larger minibatch harm learning, if learning rates, targets and replay ratio follow it? Returns at equal steps.

Each run learns from as many steps, and as many samples a step; minibatches are 1, 2, 4 … times the algorithm's own.
``rule`` is `headrace.train.off_policy.batch_rule.follow_batch`: fewer updates, that go further. ``fewer updates``
leaves learning rates and targets as they are: what the rest of the rule is worth. Runs are in one process each
(samplers=0), so that a seed gives the same run wherever nothing else differs.
"""

from __future__ import annotations

import dataclasses
import json
import statistics
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tyro
from rich.console import Console
from rich.table import Table

from common import RESULTS, machine
from headrace.train import Config, make_config, train
from headrace.train.evaluate import evaluate
from headrace.train.metrics import read_metrics
from headrace.train.off_policy.batch_rule import TIMES, follow_batch
from headrace.train.run import RunFolder

RULE, PLAIN = "rule", "fewer updates"
DRAWS = 10_000


@dataclass
class RuleArgs:
    """Returns at equal steps, by minibatch, with the rule and without."""

    algo: str = "sac"
    """the algorithm"""
    task: str = "Pendulum-v1"
    """the task"""
    own: int = 64
    """the minibatch that the settings are for"""
    times: tuple[int, ...] = (1, 2, 4, 16)
    """minibatches, as multiples of it"""
    steps: int = 20_000
    """agent steps of a run"""
    seeds: int = 5
    """runs of each"""
    episodes: int = 40
    """episodes that are played without exploration at the end"""
    out: Path = RESULTS
    """folder for the JSON file"""
    quick: bool = False
    """see that it runs: few steps, one seed, results in a temporary folder"""


def settings(args: RuleArgs, times: int, arm: str, seed: int) -> Config:
    """Those of one run."""
    config = make_config(
        args.task, algo=args.algo, minibatch_size=args.own, total_steps=args.steps, seed=seed, samplers=0,
        stop_at_return=None, log_steps=args.steps // 20, tensorboard=False, video=False, save_replay=False,
    )  # fmt: skip
    followed = follow_batch(config, times * args.own)
    if arm == RULE:
        return followed
    return dataclasses.replace(config, minibatch_size=followed.minibatch_size, replay_ratio=followed.replay_ratio)


def learn(args: RuleArgs, times: int, arm: str, seed: int) -> dict[str, Any]:
    """One run: its curve, and what it plays like at its end."""
    config = settings(args, times, arm, seed)
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        chosen = {f.name: getattr(config, f.name) for f in dataclasses.fields(Config) if f.name != "task"}
        train(args.task, run_dir=Path(folder) / "run", quiet=True, **chosen)
        seconds = time.perf_counter() - began
        lines = read_metrics(RunFolder(Path(folder) / "run").metrics_file)
        final = evaluate(Path(folder) / "run", args.episodes).mean_return
    return {
        "minibatch_size": config.minibatch_size,
        "times": times,
        "arm": arm,
        "seed": seed,
        "learning_rate": config.learning_rate,
        "replay_ratio": config.replay_ratio,
        "updates": lines[-1].get("updates"),
        "seconds": round(seconds, 1),
        "final": round(final, 1),
        "curve": [(line["step"], line["return"]) for line in lines if line["return"] is not None],
    }


def mean_return(run: dict[str, Any]) -> float:
    """Over the whole run, exploration included: how fast it learnt."""
    return statistics.fmean(value for _, value in run["curve"]) if run["curve"] else float("nan")


def interval(values: list[float]) -> tuple[float, float]:
    """95 % of the mean, bootstrapped."""
    drawn = np.random.default_rng(0).choice(values, (DRAWS, len(values))).mean(1)
    low, high = np.percentile(drawn, (2.5, 97.5))
    return round(float(low), 1), round(float(high), 1)


def summary(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One row for each minibatch and arm."""
    rows = []
    for times, arm in dict.fromkeys((run["times"], run["arm"]) for run in runs):
        mine = [run for run in runs if (run["times"], run["arm"]) == (times, arm)]
        finals = [run["final"] for run in mine]
        rows.append(
            {name: mine[0][name] for name in ("times", "arm", "minibatch_size", "learning_rate", "replay_ratio")}
            | {"final": round(statistics.fmean(finals), 1), "interval": interval(finals)}
            | {"whole_run": round(statistics.fmean(map(mean_return, mine)), 1)}
        )
    return rows


def main() -> None:
    args = tyro.cli(RuleArgs)
    out, console = args.out, Console(highlight=False)
    if args.quick:
        args.steps, args.seeds, args.episodes, args.times = 1500, 1, 4, (1, 4)
        out = Path(tempfile.mkdtemp())
    runs = []
    for seed in range(1, args.seeds + 1):
        for times in args.times:
            for arm in (RULE, PLAIN) if times > 1 else (RULE,):
                runs.append(run := learn(args, times, arm, seed))
                words = f"{run['minibatch_size']:,} samples, {arm}: {run['final']:.0f} after {run['seconds']:.0f} s"
                console.print(f"seed {seed}, {words}", soft_wrap=True)
    table = Table("minibatch", "times", "arm", "final return", "95 %", "mean of the whole run")
    for row in (rows := summary(runs)):
        low, high = row["interval"]
        words = (f"{row['minibatch_size']:,}", str(row["times"]), row["arm"], f"{row['final']:.0f}")
        table.add_row(*words, f"{low:.0f} to {high:.0f}", f"{row['whole_run']:.0f}")
    console.print(table)
    record = {
        "name": "batch_rule",
        "title": f"{args.algo} on {args.task}: returns after {args.steps:,} steps, by minibatch",
        "command": "python benchmarks/batch_rule.py",
        "machine": machine(),
        "settings": {"steps": args.steps, "seeds": args.seeds, "episodes": args.episodes, "own": args.own},
        "limit": TIMES,
        "summary": rows,
        "runs": runs,
    }
    out.mkdir(parents=True, exist_ok=True)
    path = out / "batch_rule.json"
    path.write_text(json.dumps(record, indent=1, default=str) + "\n")
    console.print(str(path))


if __name__ == "__main__":
    main()
