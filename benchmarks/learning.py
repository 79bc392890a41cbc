"""How soon tasks are learnt: agent steps, seconds and processor seconds until a return, and games afterwards.

    python benchmarks/learning.py pong doom                                   # by name, or all
    python benchmarks/learning.py Ant-v4:ppo:5000 --set torch_threads=1 --seeds 1 2
                                                   # TASK:ALGORITHM:RETURN, the algorithm's preset ``fast``

A named run is a task with settings, as `headrace train` has them: it ends at its goal, the mean return of training's
last episodes, or with its steps. With ``TASK:ALGORITHM:RETURN``, or ``--every``, the agent as it is plays deterministic
episodes every so often, whose time is taken off, and the goal is their mean return. Processor seconds are those of all
the run's processes, and hardly depend on what else a machine does; seconds of the clock do. A run takes the place of an
earlier one of its name, settings and seed in the JSON file; the others stay.

Published figures, after a million steps (mean, and deviation between seeds):
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
import os
import statistics
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import tyro

from common import RESULTS, cell, earlier, heading, machine, show, write
from headrace.cli.options import parse_options
from headrace.train import Callback, Training, train
from headrace.train.logging.hardware import family_of, processor_seconds
from headrace.train.logging.plot import plot_returns
from headrace.train.play.evaluate import evaluate, play_episodes, playing_pool
from headrace.train.runs.metrics import read_metrics

NAME = "learning"
SMALL = {"use_combined_action": True, "img_height": 48, "img_width": 64}
EXAMPLES = os.path.relpath(Path(__file__).parents[1] / "examples")
DOORKEY: dict[str, Any] = {"task": f"{EXAMPLES}/doorkey.py:doorkey", "total_steps": 1_000_000, "stop_at_return": 0.8}
DOORKEY |= {
    "env_options": {"size": 8},
    "num_envs": 16,
    "num_steps": 128,
    "minibatch_size": 256,
    "entropy_coef": 0.01,
    "stop_episodes": 100,
}
GRU, A2C = {"network": "gru", "deterministic": True}, {"algo": "a2c", "deterministic": True}
RUNS: dict[str, dict[str, Any]] = {
    "pong": {"task": "Pong-v5", "algo": "ppo", "bf16": True, "total_steps": 5_000_000, "stop_at_return": 0.0},
    "pong-dqn": {"task": "Pong-v5", "algo": "dqn", "preset": "fast", "stop_at_return": 18.0},
    "doom": {"task": "D1Basic-v1", "total_steps": 100_000, "env_options": SMALL, "torch_threads": 1},
    "breakout-dqn": {"task": "MinAtar-Breakout-v1", "algo": "dqn", "preset": "fast", "stop_at_return": 10.0},
    "breakout-pqn": {"task": "MinAtar-Breakout-v1", "algo": "pqn", "preset": "default", "stop_at_return": 10.0},
    "breakout-ppo": {"task": "MinAtar-Breakout-v1", "algo": "ppo", "stop_at_return": 10.0},
    "invaders-pqn": {"task": "MinAtar-SpaceInvaders-v1", "algo": "pqn", "preset": "default", "stop_at_return": 50.0},
    "cartpole-pqn": {"task": "CartPole-v1", "algo": "pqn"},
    "mountain-car": {"task": "MountainCar-v0", "algo": "ppo", "curiosity": 0.1, "total_steps": 500_000},
    "mountain-car-without": {"task": "MountainCar-v0", "algo": "ppo", "total_steps": 500_000},
    "doorkey": {**DOORKEY, "curiosity": 0.002},
    "doorkey-much": {**DOORKEY, "curiosity": 0.02},
    "doorkey-without": DOORKEY,
    "half-cheetah": {"task": "HalfCheetah-v5", "algo": "ppo", "preset": "default", "total_steps": 1_000_000},
    "ant": {"task": "Ant-v5", "algo": "ppo", "preset": "default", "total_steps": 1_000_000},
    "cartpole-gru": {"task": "CartPole-v1", "total_steps": 400_000, **GRU},
    "acrobot-gru": {"task": "Acrobot-v1", "total_steps": 300_000, **GRU},
    "cartpole-a2c": {"task": "CartPole-v1", "total_steps": 400_000, **A2C},
    "acrobot-a2c": {"task": "Acrobot-v1", "total_steps": 300_000, **A2C},
}
"""name → task and settings"""
TOLD = {"HalfCheetah-v5": 2000.0, "Ant-v5": 2000.0}
"""task → the return on whose way a run without a goal is timed"""
PUBLISHED = {
    "half-cheetah": {"CleanRL (v4)": 1442.64, "stable-baselines3 zoo (v3)": 5819.10, "Tianshou (v3)": 5783.9},
    "ant": {"stable-baselines3 zoo (v3)": 1327.16, "Tianshou (v3)": 3258.4},
}
COLUMNS = ("steps", "updates", "seconds", "processor_seconds", "mean_return", "least_return")


@dataclass(frozen=True)
class LearningArgs:
    """Train until a return is reached, and tell what it took."""

    runs: tyro.conf.Positional[tuple[str, ...]] = tuple(RUNS)
    """names, or what to reach as TASK:ALGORITHM:RETURN"""
    seeds: tuple[int, ...] = (1,)
    """a run of each with each seed"""
    set: tuple[str, ...] = ()
    """further settings, name=value"""
    every: int = 0
    """agent steps between two evaluations; 0 for 40,000 where a RETURN is given, else for none"""
    episodes: int = 10
    """of an evaluation, and of the games after a run"""
    whole: bool = False
    """train on after the return, to the end of the run"""
    folder: Path | None = None
    """where run folders stay, so that a run that was stopped goes on; None keeps none"""
    note: str = ""
    """what else is to be said of the machine, such as what ran beside"""
    out: Path = RESULTS
    """folder for the JSON file and pictures"""


@dataclass
class Measured(Callback):
    """Plays beside a run, keeps the clocks, and ends the run once the mark is reached.

    Attributes:
        curve: `COLUMNS` of each evaluation.
        spent: seconds, and processor seconds, of evaluations.
    """

    args: LearningArgs
    every: int
    goal: float
    curve: list[list[float]] = field(default_factory=list)
    spent: list[float] = field(default_factory=lambda: [0.0, 0.0])
    due: int = 0
    began: float = field(default_factory=lambda: used())

    def on_log(self, training: Training, line: Mapping[str, Any]) -> None:
        """Play, where that is due."""
        if self.every and training.step >= self.due:
            self.due = training.step + self.every
            self.play(training)

    def play(self, training: Training) -> None:
        """One evaluation: a point of the curve."""
        clock, before = time.perf_counter(), used()
        seconds, processor = training.seconds - self.spent[0], before - self.began - self.spent[1]
        with playing_pool(training.config, num_envs=self.args.episodes, seed=1000) as pool:
            played = play_episodes(training.agent(), pool, 1)
        assert played is not None
        row = [training.step, training.updates, seconds, processor, played.mean_return, min(played.returns)]
        self.curve.append([round(value, 1) for value in row])
        print(*self.curve[-1], flush=True)
        self.spent[0] += time.perf_counter() - clock
        self.spent[1] += used() - before
        if played.mean_return >= self.goal and not self.args.whole:
            training.stop()


def used() -> float:
    """What this process and those that it has started have used of the cores so far, in seconds."""
    return processor_seconds(family_of(os.getpid())) or time.process_time()


def learn(name: str, seed: int, args: LearningArgs, folder: Path) -> dict[str, Any]:
    """One run to its goal or its end, and games after it."""
    task, algo, goal = name.split(":") if ":" in name else ("", "", "inf")
    settings = RUNS.get(name) or {"task": task, "algo": algo, "preset": "fast"}
    settings = settings | parse_options(args.set)
    measured = Measured(args, args.every or (40_000 if task else 0), float(goal))
    quiet: dict[str, Any] = {"quiet": True, "video": False, "tensorboard": False, "viewer": False}
    result = train(**settings, seed=seed, run_dir=folder, resume=True, callback=measured, **quiet)
    spent = used() - measured.began - measured.spent[1]
    lines = [line for line in read_metrics(folder / "metrics.jsonl") if line["return"] is not None]
    reached = next((row for row in measured.curve if row[4] >= measured.goal), None)
    best = max(measured.curve, key=lambda row: row[4], default=None)
    if not task:
        args.out.mkdir(parents=True, exist_ok=True)
        (args.out / f"{NAME}_{name}.png").write_bytes(plot_returns(folder).read_bytes())
    return {
        "name": name,
        "settings": settings,
        "seed": seed,
        "mark": measured.goal if task else settings.get("stop_at_return", TOLD.get(settings["task"])),
        "reason": result.reason,
        "steps": result.steps,
        "seconds": round(result.seconds - measured.spent[0], 1),
        "processor_seconds": round(spent, 1),
        "load": round(os.getloadavg()[1], 1),
        "games": evaluate(folder, args.episodes, which="newest").returns,
        "curve": [[line["step"], round(line["time"]["seconds"], 1), line["return"]] for line in lines],
        "evaluations": measured.curve,
        "reached": dict(zip(COLUMNS, reached, strict=True)) if reached else None,
        "best": dict(zip(COLUMNS, best, strict=True)) if best else None,
        "config": json.loads((folder / "config.json").read_text()),
        "machine": machine(),
        "note": args.note,
    }


def record(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """All that is known, with a row for each name: the figures of its seeds in order."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for run in runs:
        groups.setdefault(run["name"], []).append(run)
    here = machine()["cpu"]
    cpus: dict[str, dict[str, None]] = {}
    for run in runs:
        if run["machine"]["cpu"] != here:
            cpus.setdefault(run["machine"]["cpu"], {})[run["settings"]["task"]] = None
    told = [f"{', '.join(tasks)} on {cpu}" for cpu, tasks in cpus.items()]
    told += dict.fromkeys(f"{run['settings']['task']} {run['note']}" for run in runs if run["note"])
    found = {"published": PUBLISHED, "runs": runs, "rows": [row(name, group) for name, group in groups.items()]}
    return heading(NAME, "How soon tasks are learnt") | found | {"note": ". ".join(told) + "." * bool(told)}


def row(name: str, runs: list[dict[str, Any]]) -> dict[str, Any]:
    """What runs of one name took, and what they play like."""
    settings, mark, published = runs[0]["settings"], runs[0]["mark"], PUBLISHED.get(name, {})
    words = [settings["task"], settings.get("algo", "ppo")]
    words += [str(settings[key]) for key in ("preset", "network") if key in settings]
    words += ["curiosity"] if settings.get("curiosity") else []
    return {
        "task, algorithm": ", ".join(words),
        "steps": several(run["steps"] for run in runs),
        "seconds": several(run["seconds"] for run in runs),
        "of processors": several(run["processor_seconds"] for run in runs),
        "return in training": several(run["curve"][-1][2] if run["curve"] else None for run in runs),
        "games afterwards": several(statistics.fmean(run["games"]) if run["games"] else None for run in runs),
        "to a return": "" if mark is None else f"{mark:,.0f}: {several(map(when, runs))}",
        "published": "; ".join(f"{who} {value:,.0f}" for who, value in published.items()),
    }


def when(run: dict[str, Any]) -> str:
    """After how many seconds the mark was reached."""
    found = run["reached"] or next(({"seconds": s} for _, s, value in run["curve"] if value >= run["mark"]), None)
    return "not reached" if found is None else f"{found['seconds']:,.0f} s"


def several(values: Iterable[Any]) -> str:
    """A figure a seed, one where all are the same; nothing where none is known."""
    told = [cell(value) for value in values if value is not None]
    return "; ".join(dict.fromkeys(told) if len(set(told)) == 1 else told)


def main(args: LearningArgs) -> None:
    """Train each run with each seed, write and show."""
    runs, same = earlier(args.out, NAME) or [], ("name", "settings", "seed")
    for name in args.runs:
        for seed in args.seeds:
            with TemporaryDirectory() as made:
                run = learn(name, seed, args, (args.folder or Path(made)) / f"{name.replace(':', '-')}-{seed}")
            runs = [each for each in runs if any(each[key] != run[key] for key in same)] + [run]
            write(args.out, record(runs))
    show(record(runs))


if __name__ == "__main__":
    main(tyro.cli(LearningArgs, description=__doc__))
