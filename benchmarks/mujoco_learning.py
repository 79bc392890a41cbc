"""What PPO learns of HalfCheetah-v5 and Ant-v5 in a million steps, beside published figures.

The defaults of ``headrace train TASK``, several seeds. The curve is the mean return of the latest
episodes in training, actions drawn as they are there; the last figure is that of deterministic
episodes with the trained agent. Seconds are those of training alone: neither imports nor evaluation.

Published, after a million steps (mean, and deviation between seeds):
- CleanRL's ``ppo_continuous_action.py``, HalfCheetah-v4: 1442.64 ± 46.03 (its documentation, "Proximal Policy
  Gradient (PPO)"); it shows none for Ant.
- stable-baselines3 with rl-baselines3-zoo's settings, v3 tasks: HalfCheetah 5819.10 ± 663.53, Ant
  1327.16 ± 451.58 (the zoo's ``benchmark.md``; deviation between episodes of one agent).
- Tianshou's MuJoCo benchmark, v3 tasks: HalfCheetah 5783.9 ± 1244.0, Ant 3258.4 ± 1079.3 (the best mean return
  of deterministic episodes on the way, ten seeds).
Ant-v3 and v5 differ: v5's observations have contact forces in them, and a reward for them is taken off.
"""

from __future__ import annotations

import json
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tyro
from rich.console import Console

from common import RESULTS, heading, write
from headrace.train import train
from headrace.train.logging.metrics import read_metrics
from headrace.train.play.evaluate import evaluate

IMAGES = Path(__file__).parent.parent / "docs" / "images"
PUBLISHED = {
    "HalfCheetah-v5": {
        "CleanRL (v4)": 1442.64,
        "stable-baselines3 zoo (v3)": 5819.10,
        "Tianshou (v3)": 5783.9,
    },
    "Ant-v5": {"stable-baselines3 zoo (v3)": 1327.16, "Tianshou (v3)": 3258.4},
}
GOAL = {"HalfCheetah-v5": 2000.0, "Ant-v5": 2000.0}
"""the return whose seconds are told"""


@dataclass(frozen=True)
class LearningArgs:
    """Learn HalfCheetah and Ant with PPO."""

    tasks: tuple[str, ...] = tuple(PUBLISHED)
    """names of tasks; what the JSON file says of others stays, and with none only the picture is made anew"""
    seeds: int = 3
    """runs of each"""
    steps: int = 1_000_000
    """agent steps of a run"""
    episodes: int = 10
    """deterministic episodes at the end"""
    quick: bool = False
    """only to see that it runs: one seed, few steps, results in a temporary folder"""
    out: Path = RESULTS
    """folder for the JSON file"""


def learn(task: str, seed: int, args: LearningArgs) -> dict[str, Any]:
    """One run: its curve [steps, seconds, mean return], and what the trained agent earns."""
    steps = 40_000 if args.quick else args.steps
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made) / "run"
        start = time.perf_counter()
        result = train(task, seed=seed, total_steps=steps, run_dir=folder, quiet=True, video=False, tensorboard=False)
        whole = time.perf_counter() - start
        lines = [line for line in read_metrics(folder / "metrics.jsonl") if line["return"] is not None]
        curve = [[line["step"], round(line["time"]["seconds"], 1), round(line["return"], 1)] for line in lines]
        played = evaluate(folder, args.episodes, which="newest")
    reached = next((seconds for _, seconds, value in curve if value >= GOAL[task]), None)
    return {
        "seed": seed,
        "steps": result.steps,
        "seconds": round(result.seconds, 1),
        "whole_seconds": round(whole, 1),
        "seconds_to_goal": reached,
        "last_return": curve[-1][2],
        "deterministic_return": round(float(np.mean(played.returns)), 1),
        "curve": curve,
    }


def picture(runs: dict[str, list[dict[str, Any]]], path: Path) -> None:
    """Curves of all runs, and the published figures as lines."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, len(runs), figsize=(6 * len(runs), 4), squeeze=False, layout="constrained")
    for axis, (task, outcomes) in zip(axes[0], runs.items(), strict=True):
        for outcome in outcomes:
            steps, _, returns = zip(*outcome["curve"], strict=True)
            axis.plot(steps, returns, label=f"headrace, seed {outcome['seed']}: {outcome['seconds']:.0f} s")
        for i, (name, value) in enumerate(PUBLISHED.get(task, {}).items()):
            axis.axhline(value, color="black", alpha=0.5, linewidth=1, linestyle=("--", ":", "-.")[i], label=name)
        axis.set(title=task, xlabel="agent steps", ylabel="mean return in training")
        axis.legend(fontsize=8)
        axis.grid(alpha=0.3)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=100)
    plt.close(figure)


def main() -> None:
    args = tyro.cli(LearningArgs)
    out = Path(tempfile.mkdtemp()) if args.quick else args.out
    path, console = out / "mujoco_learning.json", Console()
    runs: dict[str, list[dict[str, Any]]] = json.loads(path.read_text())["runs"] if path.exists() else {}
    for task in args.tasks:
        runs[task] = []
        for seed in range(1, 2 if args.quick else args.seeds + 1):
            runs[task].append(outcome := learn(task, seed, args))
            goal = outcome["seconds_to_goal"]
            console.print(
                f"{task}, seed {seed}: {outcome['last_return']:,.0f} in training, "
                f"{outcome['deterministic_return']:,.0f} deterministic, after {outcome['seconds']:.0f} s; "
                f"{GOAL[task]:,.0f} after {'-' if goal is None else f'{goal:.0f} s'}"
            )
    record = heading("mujoco_learning", "PPO on MuJoCo's tasks: what is learnt in a million steps") | {
        "settings": {"steps": args.steps, "episodes": args.episodes},
        "goals": GOAL,
        "published": PUBLISHED,
        "runs": runs,
    }
    write(out, record)
    images = out if args.quick else IMAGES
    picture(runs, images / "mujoco_learning.png")
    console.print(f"{path}\n{images / 'mujoco_learning.png'}")


if __name__ == "__main__":
    main()
