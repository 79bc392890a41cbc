"""One agent learns Pong-v5 on this machine: from -21 to at least 0, in seconds and in steps.

The settings are the task's defaults, in bfloat16: the Nature-CNN on 84x84 frames, 4 stacked, frame skip 4,
no sticky actions. The score is the game's own, over the last 20 whole games. Writes the curve as JSON and a
picture; the run folder stays. A run that was stopped goes on if the same command is given again.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import tyro

from common import RESULTS, heading, write
from headrace.train import train
from headrace.train.logging.metrics import read_metrics
from headrace.train.plots.figures import plot_returns


@dataclass
class PongArgs:
    """Learn Pong-v5."""

    goal: float = 0.0
    """mean return at which to stop; 18 where there is a GPU"""
    total_steps: int = 5_000_000
    """agent steps at most"""
    seed: int = 1
    """seed of the run"""
    device: str = "cpu"
    """cpu or cuda"""
    bf16: bool = True
    """matrix products in bfloat16: several times faster where the CPU has AMX"""
    run_dir: Path = Path("runs/pong")
    """the run folder"""
    out: Path = RESULTS
    """folder for the JSON file and the picture"""


def main() -> None:
    args = tyro.cli(PongArgs)
    asked = {
        "total_steps": args.total_steps,
        "seed": args.seed,
        "device": args.device,
        "bf16": args.bf16,
        "stop_at_return": args.goal,
    }
    result = train("Pong-v5", run_dir=args.run_dir, resume=True, **asked)
    lines = read_metrics(result.run_dir / "metrics.jsonl")
    curve = [(line["step"], line["time"]["seconds"], line["return"]) for line in lines if line["return"] is not None]
    record = heading("learn_pong", "PPO learns Pong-v5") | {
        "settings": json.loads((result.run_dir / "config.json").read_text()),
        "reason": result.reason,
        "seconds": round(result.seconds, 1),
        "steps": result.steps,
        "first_return": curve[0][2] if curve else None,
        "mean_return": result.mean_return,
        "curve": curve,
    }
    write(args.out, record)
    (args.out / "learn_pong.png").write_bytes(plot_returns(result.run_dir).read_bytes())
    print(f"{result.reason}: return {result.mean_return} after {result.steps:,} steps, {result.seconds:,.0f} s")


if __name__ == "__main__":
    main()
