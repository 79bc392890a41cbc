"""What off-policy algorithms reach with equally many steps and updates, and in equally much processor time.

All in one process on one core, rewards of one step, minibatches of 256, rates of their papers.
Time is that of the processor, not of the clock, so that what else the machine does counts less. A return is the mean of
the last 10 episodes of training; games are played without exploration by the last weights. Variants that Headrace does
not come with are in ``tried_algorithms.py``. Results of runs that are in the file already are kept.

    python benchmarks/tried.py --tasks Pendulum-v1 --seeds 2
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import tyro

from common import RESULTS, earlier, heading, tell
from headrace.train import Callback, train
from headrace.train.play.evaluate import evaluate

VARIANTS = Path(__file__).with_name("tried_algorithms.py")
TRIED: dict[str, str] = {
    "SAC": "sac",
    "SAC, LayerNorm in the critics": f"{VARIANTS}:LayerNorm",
    "TQC, 2 critics of 25 quantiles": f"{VARIANTS}:TQC",
    "CrossQ": "crossq",
    "XQC": "xqc",
    "FlashSAC, 1 block": "flashsac",
    "SAC, Muon": f"{VARIANTS}:Muon",
}
"""name → algorithm"""
TASKS: dict[str, dict[str, Any]] = {
    "Pendulum-v1": {"total_steps": 12_000, "num_envs": 8, "replay_ratio": 1 / 8, "learning_starts": 1000},
    "HalfCheetah-v5": {"total_steps": 100_000, "num_envs": 16, "replay_ratio": 1 / 32, "learning_starts": 5000},
}
WIDTHS = {"Pendulum-v1": 64, "HalfCheetah-v5": 256}
"""of two hidden layers; FlashSAC's block, which is four times as wide inside, has half of it on HalfCheetah"""
EPISODES, GAMES = 10, 10


@dataclass
class TriedArgs:
    """Returns of off-policy algorithms at equal steps and at equal processor time."""

    tasks: tuple[str, ...] = tuple(TASKS)
    """names of the tasks"""
    only: tuple[str, ...] = tuple(TRIED)
    """names of the algorithms"""
    seeds: int = 1
    """runs of each"""
    out: Path = RESULTS
    """folder for the JSON file"""


class Clock(Callback):
    """Notes steps, processor seconds and returns."""

    def __init__(self) -> None:
        self.points: list[tuple[int, float, float | None]] = []

    def on_start(self, training: Any) -> None:
        self.began = time.process_time()

    def on_log(self, training: Any, line: Mapping[str, Any]) -> None:
        self.points.append((training.step, round(time.process_time() - self.began, 2), training.mean_return))


def run(name: str, task: str, seed: int) -> dict[str, Any]:
    """One run: its points, its updates, and games of what it has learnt."""
    algo, width = TRIED[name], WIDTHS[task]
    wide = (width, width) if algo != "flashsac" else (min(width, 128),)
    settings: dict[str, Any] = {"hidden": wide}
    if algo in ("crossq", "xqc", "flashsac"):
        settings["critic_hidden"] = wide
    clock = Clock()
    with tempfile.TemporaryDirectory() as folder:
        result = train(
            task, algo, seed=seed, samplers=0, num_steps=8, minibatch_size=256, torch_threads=1, stop_episodes=EPISODES,
            log_steps=TASKS[task]["total_steps"] // 50, callback=clock, run_dir=folder, quiet=True, video=False,
            tensorboard=False, viewer=False, matmul_precision="highest", save_replay=False, stop_at_return=None,
            **(settings | TASKS[task]),
        )  # fmt: skip
        if result.reason == "interrupted":
            raise SystemExit("stopped; go on with the same command")
        games = evaluate(folder, GAMES, which="newest").mean_return
    return {"who": name, "task": task, "seed": seed, "points": clock.points, "games": games}


def at_time(points: list[list[Any]], seconds: float) -> float | None:
    """The return when so much processor time had passed; None where none was known."""
    return next((earned for _, spent, earned in reversed(points) if spent <= seconds), None)


def rows(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The table: of each task and algorithm the means over its seeds."""
    found = []
    for task in TASKS:
        these = [each for each in runs if each["task"] == task]
        for who in TRIED:
            mine = [each for each in these if each["who"] == who]
            if not mine:
                continue
            spent = [each["points"][-1][1] for each in these if each["who"] == "SAC"]
            common = min(spent) if spent else 0.0
            limited = [earned for each in mine if (earned := at_time(each["points"], common)) is not None]
            found.append(
                {
                    "task": task,
                    "algorithm": who,
                    "seeds": len(mine),
                    "steps": mine[0]["points"][-1][0],
                    "return": round(sum(each["points"][-1][2] for each in mine) / len(mine)),
                    "games": round(sum(each["games"] for each in mine) / len(mine)),
                    "processor seconds": round(sum(each["points"][-1][1] for each in mine) / len(mine)),
                    "return in SAC's time": round(sum(limited) / len(limited)) if limited else None,
                }
            )
    return found


def main() -> None:
    args = tyro.cli(TriedArgs)
    torch.set_num_threads(1)
    runs = earlier(args.out, "tried") or []
    for seed in range(1, args.seeds + 1):
        for task in args.tasks:
            for who in args.only:
                if any((each["who"], each["task"], each["seed"]) == (who, task, seed) for each in runs):
                    continue
                runs.append(run(who, task, seed))
                record = heading("tried", "Off-policy algorithms at equal steps, and in equal processor time, one core")
                tell(args.out, record | {"rows": rows(runs), "runs": runs})


if __name__ == "__main__":
    main()
