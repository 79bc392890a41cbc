"""What algorithms reach with equally many steps, and in equally much processor time.

All in one process on one core. Those with a replay have equally many updates, rewards of one step, minibatches of 256,
and rates of their papers; REPPO learns from rollouts, beside PPO's preset ``fast``. Time is that of the processor, not
of the clock, so that what else the machine does counts less. A return is the mean of the last 10 episodes of training;
games are played without exploration by the last weights. Variants that Headrace does not come with are in
``tried_algorithms.py`` and ``tried_reppo.py``. Results of runs that are in the file already are kept.

    python benchmarks/tried.py --tasks Pendulum-v1 --seeds 2
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import tyro

from common import RESULTS, earlier, heading, tell
from headrace.train import Callback, train
from headrace.train.play.evaluate import evaluate

EXAMPLES = Path(__file__).parents[1] / "examples" / "algorithms"
VARIANTS, REPPO = Path(__file__).with_name("tried_algorithms.py"), Path(__file__).with_name("tried_reppo.py")
REPLAYS: dict[str, str] = {
    "SAC": "sac",
    "SAC, LayerNorm in the critics": f"{VARIANTS}:LayerNorm",
    "TQC, 2 critics of 25 quantiles": f"{VARIANTS}:TQC",
    "CrossQ": "crossq",
    "XQC": f"{EXAMPLES}/xqc.py:XQC",
    "FlashSAC, 1 block": f"{EXAMPLES}/flash_sac.py:FlashSAC",
    "SAC, Muon": f"{VARIANTS}:Muon",
}
"""algorithms with a replay: name → algorithm; the first is the one whose time counts"""
ROLLOUTS: dict[str, str] = {"PPO, fast": "ppo", "REPPO": f"{REPPO}:REPPO"}
"""those that learn from rollouts, likewise"""
TRIED = REPLAYS | ROLLOUTS


@dataclass(frozen=True)
class Task:
    """A task and its settings: those of all algorithms, and those of one."""

    name: str
    variants: Mapping[str, str]
    settings: Mapping[str, Any]
    own: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def settings_of(self, who: str) -> dict[str, Any]:
        """Returns the settings of an algorithm."""
        return {**self.settings, **self.own.get(who, {})}


REPLAY: dict[str, Any] = {"num_steps": 8, "minibatch_size": 256, "samplers": 0, "save_replay": False}
REPLAY |= {"matmul_precision": "highest"}


def with_replay(name: str, hidden: int, block: int, **settings: Any) -> Task:
    """Returns a task for all algorithms with a replay, of two layers of ``hidden`` units; FlashSAC has one block."""
    wide = {"hidden": (hidden, hidden)}
    normed = {who: wide | {"critic_hidden": (hidden, hidden)} for who in ("CrossQ", "XQC")}
    flash = {"FlashSAC, 1 block": {"hidden": (block,), "critic_hidden": (block,)}}
    return Task(name, REPLAYS, REPLAY | wide | settings, normed | flash)


TASKS: dict[str, Task] = {
    "Pendulum-v1": with_replay(
        "Pendulum-v1", 64, 64, total_steps=12_000, num_envs=8, replay_ratio=1 / 8, learning_starts=1000
    ),
    "HalfCheetah-v5": with_replay(
        "HalfCheetah-v5",
        256,
        128,
        total_steps=100_000,
        num_envs=16,
        replay_ratio=1 / 32,
        learning_starts=5000,
    ),
    "HalfCheetah-v5, rollouts": Task(
        "HalfCheetah-v5",
        ROLLOUTS,
        {
            "preset": "fast",
            "total_steps": 1_000_000,
            "num_envs": 32,
            "minibatch_size": 1024,
            "anneal_learning_rate": False,
        },
        {"REPPO": {"hidden": (128, 128), "minibatch_size": 256, "epochs": 4, "max_grad_norm": 100.0}},
    ),
}
EPISODES, GAMES = 10, 10


@dataclass
class TriedArgs:
    """Returns of algorithms at equal steps and at equal processor time."""

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
    settings, clock = TASKS[task].settings_of(name), Clock()
    with tempfile.TemporaryDirectory() as folder:
        result = train(
            TASKS[task].name, TRIED[name], seed=seed, torch_threads=1, stop_episodes=EPISODES,
            log_steps=settings["total_steps"] // 50, callback=clock, run_dir=folder, quiet=True, video=False,
            tensorboard=False, viewer=False, stop_at_return=None, **settings,
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
        for who in TASKS[task].variants:
            mine = [each for each in these if each["who"] == who]
            if not mine:
                continue
            first = next(iter(TASKS[task].variants))
            spent = [each["points"][-1][1] for each in these if each["who"] == first]
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
                    "return in the first's time": round(sum(limited) / len(limited)) if limited else None,
                }
            )
    return found


def main() -> None:
    args = tyro.cli(TriedArgs)
    torch.set_num_threads(1)
    runs = earlier(args.out, "tried") or []
    for seed in range(1, args.seeds + 1):
        for task in args.tasks:
            for who in TASKS[task].variants:
                if who not in args.only or any(
                    (each["who"], each["task"], each["seed"]) == (who, task, seed) for each in runs
                ):
                    continue
                runs.append(run(who, task, seed))
                record = heading("tried", "Algorithms at equal steps, and in equal processor time, one core")
                tell(args.out, record | {"rows": rows(runs), "runs": runs})


if __name__ == "__main__":
    main()
