"""One agent learns ViZDoom's D1Basic-v1 from pixels: to gather medkits in a room whose floor hurts.

The settings are the task's defaults but for small pictures and few steps, so that two busy cores show a curve within
minutes. Standing still is dead after some 96 steps; 525 end an episode. What is learnt from is health: 0.005 for each
point gained, -0.003 for each lost. Prints the curve, and writes it as JSON and as a picture; the run folder stays.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import tyro
from rich.table import Table

from common import RESULTS, heading, wide_console, write
from headrace.train import train
from headrace.train.logging.metrics import read_metrics
from headrace.train.plots.figures import plot_returns

SHOWN = 12  # lines of the table


@dataclass
class DoomArgs:
    """Learn D1Basic-v1."""

    task: str = "D1Basic-v1"
    """which scenario"""
    total_steps: int = 100_000
    """agent steps"""
    img_height: int = 48
    """rows of a picture"""
    img_width: int = 64
    """columns of a picture"""
    torch_threads: int = 1
    """threads of the learner: one where others use the machine, too"""
    seed: int = 1
    """seed of the run"""
    run_dir: Path = Path("runs/doom")
    """the run folder"""
    out: Path = RESULTS
    """folder for the JSON file and the picture"""


def main() -> None:
    args = tyro.cli(DoomArgs)
    result = train(
        args.task,
        run_dir=args.run_dir,
        total_steps=args.total_steps,
        seed=args.seed,
        torch_threads=args.torch_threads,
        env_options={"use_combined_action": True, "img_height": args.img_height, "img_width": args.img_width},
    )
    lines = [line for line in read_metrics(result.run_dir / "metrics.jsonl") if line["return"] is not None]
    record = heading("learn_doom", f"PPO learns {args.task}") | {
        "settings": json.loads((result.run_dir / "config.json").read_text()),
        "seconds": round(result.seconds, 1),
        "steps": result.steps,
        "first": {name: lines[0][name] for name in ("return", "length")},
        "last": {name: lines[-1][name] for name in ("return", "length")},
        "curve": [(line["step"], line["time"]["seconds"], line["return"], line["length"]) for line in lines],
    }
    write(args.out, record)
    (args.out / "learn_doom.png").write_bytes(plot_returns(result.run_dir).read_bytes())
    table = Table(title=record["title"], title_justify="left")
    for column in ("steps", "seconds", "mean return", "mean length"):
        table.add_column(column, justify="right")
    every = max(1, (len(lines) - 1) // SHOWN)
    for step, seconds, mean, length in record["curve"][::-every][::-1]:
        table.add_row(f"{step:,}", f"{seconds:,.0f}", f"{mean:.2f}", f"{length:.0f}")
    wide_console().print(table)


if __name__ == "__main__":
    main()
