"""How soon tasks are learnt on this machine: seconds, processor seconds and steps to a return, and games afterwards.

Each row is a task with an algorithm and a preset, as `headrace train` has them, stopped once the mean return of
training's last episodes reaches a goal. Then twenty games are played without exploration, by the game's own rules. A
row that is run again takes the place of its earlier figures in the JSON file; the others stay.

    python benchmarks/learn_fast.py --rows pong mountain-car
"""

from __future__ import annotations

import json
import os
import resource
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tyro

from common import RESULTS, machine
from headrace.train import train
from headrace.train.logging.metrics import read_metrics
from headrace.train.play.evaluate import evaluate

GAMES = 20
ROWS: dict[str, dict[str, Any]] = {
    "pong": {"task": "Pong-v5", "algo": "dqn", "preset": "fast", "stop_at_return": 18.0},
    "minatar-breakout-dqn": {"task": "MinAtar-Breakout-v1", "algo": "dqn", "preset": "fast", "stop_at_return": 10.0},
    "minatar-breakout-pqn": {"task": "MinAtar-Breakout-v1", "algo": "pqn", "stop_at_return": 10.0},
    "minatar-breakout-ppo": {"task": "MinAtar-Breakout-v1", "algo": "ppo", "stop_at_return": 10.0},
    "minatar-invaders-pqn": {"task": "MinAtar-SpaceInvaders-v1", "algo": "pqn", "stop_at_return": 50.0},
    "cartpole-pqn": {"task": "CartPole-v1", "algo": "pqn"},
    "mountain-car": {"task": "MountainCar-v0", "algo": "ppo", "curiosity": 0.1, "total_steps": 500_000},
    "mountain-car-without": {"task": "MountainCar-v0", "algo": "ppo", "total_steps": 500_000},
}


@dataclass
class Args:
    """How soon tasks are learnt."""

    rows: list[str] = field(default_factory=lambda: list(ROWS))
    """which of the rows"""
    seed: int = 1
    """seed of the runs"""
    total_steps: int = 0
    """agent steps at most; 0 for what each row begins with"""
    runs: Path = Path("runs/fast")
    """folder for the run folders; a run that was stopped goes on"""
    out: Path = RESULTS
    """folder for the JSON file"""


def processor_seconds() -> float:
    """Of this process and of those of its children that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def learn(name: str, args: Args) -> dict[str, Any]:
    """One row: a run to its goal or its end, and games after it."""
    asked = ROWS[name] | {"seed": args.seed, "video": False, "tensorboard": False, "viewer": False, "torch_threads": 1}
    asked |= {"total_steps": args.total_steps} if args.total_steps else {}
    before = processor_seconds()
    result = train(run_dir=args.runs / f"{name}-{args.seed}", resume=True, **asked)
    spent = processor_seconds() - before
    played = evaluate(result.run_dir, GAMES, which="newest")
    lines = read_metrics(result.run_dir / "metrics.jsonl")
    return {
        "name": name,
        "settings": ROWS[name],
        "seed": args.seed,
        "reason": result.reason,
        "seconds": round(result.seconds, 1),
        "processor_seconds": round(spent, 1),
        "load": os.getloadavg()[1],
        "steps": result.steps,
        "training_return": result.mean_return,
        "games": played.returns,
        "mean_of_games": round(played.mean_return, 2),
        "curve": [
            (line["step"], line["time"]["seconds"], line["return"]) for line in lines if line["return"] is not None
        ],
    }


def main() -> None:
    args = tyro.cli(Args)
    path = args.out / "learn_fast.json"
    known = {row["name"]: row for row in json.loads(path.read_text())["rows"]} if path.exists() else {}
    for name in args.rows:
        row = known[name] = learn(name, args)
        record = {
            "name": "learn_fast",
            "title": "Tasks learnt on this machine",
            "command": "python benchmarks/learn_fast.py",
            "machine": machine(),
            "rows": list(known.values()),
        }
        args.out.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(record) + "\n")
        print(
            f"{name}: {row['reason']}, {row['mean_of_games']} in {GAMES} games, after {row['steps']:,} steps, "
            f"{row['seconds']:,.0f} s, {row['processor_seconds']:,.0f} s of processors, load {row['load']:.0f}"
        )


if __name__ == "__main__":
    main()
