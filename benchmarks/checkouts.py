"""Training of two checkouts in turns, to show what a change of structure does to speed.

    python benchmarks/checkouts.py ../before .

Both checkouts must have been built: each has its ``src`` on the path of the child processes, and its own compiled
modules where it has a ``.venv`` of its own. They need the same packages. Each turn is a process of its own that trains
three times with the public `headrace.train.train`: a short run, in which all is loaded and compiled, the same again,
and a longer one. What the longer one takes beyond the short one counts: the run folder, checkpoints and the plot are
of both. A rate is agent steps, or updates, in a second of processor time, which is what a change of code changes and
other programs on the machine hardly do: all of a run is in one process with one thread. Contenders take turns, and a
ratio is the median of the turn-by-turn ratios.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tyro

from common import Args, Comparison, measure

BEFORE = "before"
PLAIN: dict[str, Any] = {
    "stop_at_return": None,
    "samplers": 0,
    "tensorboard": False,
    "video": False,
    "checkpoint_seconds": 3600.0,
    "viewer": False,
    "num_threads": 1,
    "torch_threads": 1,
    "seed": 1,
}
REPLAY = {"replay_ratio": 1.0, "learning_starts": 300, "num_envs": 1, "num_steps": 8}
# name → task, settings, what is counted
CASES: dict[str, tuple[str, dict[str, Any], str]] = {
    "PPO, CartPole-v1, N=64": ("CartPole-v1", {"num_envs": 64, "total_steps": 400_000}, "steps"),
    "PPO, Pong-v5, N=8": ("Pong-v5", {"algo": "ppo", "num_envs": 8, "num_steps": 128, "total_steps": 61_440}, "steps"),
    "SAC, Pendulum-v1, batch 256": (
        "Pendulum-v1",
        {"algo": "sac", "minibatch_size": 256, "hidden": (256, 256), "total_steps": 2_500, **REPLAY},
        "updates",
    ),
    "DQN, CartPole-v1, batch 128": ("CartPole-v1", {"algo": "dqn", "total_steps": 20_000, **REPLAY}, "updates"),
    "PPO on the device, TagContinuous-v0": (
        "TagContinuous-v0",
        {"num_envs": 32, "total_steps": 25_600},
        "steps",
    ),
}

CHILD = """
import json, sys, time
import headrace.train
task, settings, folder = json.loads(sys.argv[1])
settings = {name: tuple(v) if isinstance(v, list) else v for name, v in settings.items()}
steps = settings.pop("total_steps")
def run(name, total):
    began = time.process_time()
    headrace.train.train(task, run_dir=f"{folder}/{name}", quiet=True, total_steps=total, log_steps=total, **settings)
    return time.process_time() - began
run("first", steps // 5)
begun, whole = run("short", steps // 5), run("whole", steps)  # what a run costs however short it is counts for nothing
print((steps - steps // 5) / (whole - begun))
"""


@dataclass
class CheckoutArgs(Args):
    """Training of two checkouts in turns."""

    before: tyro.conf.Positional[Path] = Path()
    """the checkout to compare with"""
    after: tyro.conf.Positional[Path] = Path()
    """the checkout that is compared"""
    repeats: int = 5
    only: tuple[str, ...] = ("",)
    """run cases whose name holds one of these"""
    share: float = 1.0
    """of the steps; a small one only shows that it runs (algorithms with a replay need most of theirs)"""


def rate(checkout: Path, task: str, settings: dict[str, Any]) -> float:
    """Agent steps in a second of processor time in one run."""
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"PYTHONPATH": str(checkout.resolve() / "src")}
        given = json.dumps([task, PLAIN | settings, folder])
        own = checkout.resolve() / ".venv/bin/python"
        command = [str(own if own.exists() else sys.executable), "-c", CHILD, given]
        told = subprocess.run(command, env=environment, cwd=folder, check=True, stdout=subprocess.PIPE, text=True)
    return float(told.stdout.split()[-1])


def comparisons(args: CheckoutArgs) -> Iterator[Comparison]:
    """One for each case; a turn is a run, however long it takes."""
    for name, (task, settings, unit) in CASES.items():
        if any(each in name for each in args.only):
            chosen = settings | {"total_steps": int(args.share * settings["total_steps"])}
            before, after = (
                lambda _, checkout=checkout, task=task, chosen=chosen: rate(checkout, task, chosen)
                for checkout in (args.before, args.after)
            )
            yield Comparison(name, after, {BEFORE: before}, wanted={BEFORE: 0.97}, unit=f"{unit}/s", warm_up=0)


if __name__ == "__main__":
    chosen = tyro.cli(CheckoutArgs)
    title = "Training before and now, of processor time"
    measure("checkouts", title, comparisons(chosen), chosen, **PLAIN)
