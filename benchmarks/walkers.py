"""How robots walk that the plain command has trained: seconds, and 100 games of each agent, with and without kicks.

Each seed is a run of the task's recipe in a process of its own. Its last weights then play games of 20 seconds with
noise and changing commands, on double-precision physics: how close the robot keeps to its commands (the mean of
exp(-error²/0.25), of which the turn counts half, as in the reward), in how many games it falls, and how far it slips
and jerks. Kicks change its horizontal velocity every one to three seconds.

Rows of other tasks, and of robots that differ or do not, stay in the file.

    python benchmarks/walkers.py [--task Go1Flat-v0] [--seeds 301 302 303] [--steps 12000000] [--randomise]
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import tyro

import headrace
from common import RESULTS, earlier, heading, tell
from headrace.envs.robots import _MODULES
from headrace.train.runs.metrics import read_metrics

NAME = "walkers"
KICKS = (0.0, 0.5, 1.0)  # m/s
RATE, SECONDS = 50, 20  # steps of a second; of a game
GAMES_SEED = 7


@dataclass(frozen=True)
class WalkersArgs:
    """Training and games of robots that walk by commands."""

    task: str = "Go1Flat-v0"
    seeds: tuple[int, ...] = (301, 302, 303)
    """a run of each"""
    games: int = 100
    """of each agent, for each size of kicks"""
    steps: int | None = None
    """of each run; by default the recipe's"""
    folder: Path | None = None
    """where run folders stay; None keeps none"""
    randomise: bool = False
    """train and play with masses, friction and others drawn for each episode"""
    run: Path | None = None
    """train the first seed in this process, into this folder"""
    out: Path = RESULTS
    """folder for the JSON file"""


def train(args: WalkersArgs, run: Path) -> None:
    """One run of the recipe."""
    more: dict[str, Any] = {} if args.steps is None else {"total_steps": args.steps}
    if args.randomise:
        more["env_options"] = differing(args)
    quiet: dict[str, Any] = {"quiet": True, "video": False, "tensorboard": False, "viewer": False}
    headrace.train(args.task, **more, seed=args.seeds[0], run_dir=run, **quiet)


def in_process(args: WalkersArgs, seed: int, run: Path) -> dict[str, float]:
    """What a run takes in a process of its own: seconds, and processor seconds, with its start and compiling."""
    command = [sys.executable, __file__, f"--task={args.task}", f"--seeds={seed}", f"--run={run}"]
    command += [] if args.steps is None else [f"--steps={args.steps}"]
    command += ["--randomise"] * args.randomise
    before, begun = os.times(), time.perf_counter()
    subprocess.run(command, check=True)
    after = os.times()
    used = after.children_user + after.children_system - before.children_user - before.children_system
    steps = read_metrics(run / "metrics.jsonl")[-1]["step"]
    return {"seconds": round(time.perf_counter() - begun, 1), "processor seconds": round(used, 1), "steps": steps}


def differing(args: WalkersArgs) -> dict[str, Any]:
    """The option by which robots differ, which some tasks have by default."""
    return {"randomise": True} if args.randomise else {}


def play(args: WalkersArgs, run: Path, kicks: float) -> dict[str, float | None]:
    """Means over the steps of games up to a fall, and the share of games with one."""
    agent = headrace.load(run, which="newest")
    with headrace.make(args.task, num_envs=args.games, seed=GAMES_SEED, push=kicks, **differing(args)) as pool:
        slip = [i for i, name in enumerate(terms_of(args.task)) if name.endswith("_slip")]
        obs, _ = pool.reset()
        fell, actions = np.zeros(args.games, bool), [np.zeros((args.games, *pool.action_space.shape))] * 2
        tracking, slipped, jerk, steps = 0.0, 0.0, 0.0, 0
        for _ in range(SECONDS * RATE):
            action = agent.act(obs)
            obs, _, terminated, _, info = pool.step(action)
            fell |= terminated
            tracking += float(info["tracking"][~fell].sum())
            slipped += float(info["reward_terms"][~fell][:, slip].sum())
            jerk += float(np.abs(action - 2 * actions[1] + actions[0])[~fell].mean(1).sum())
            actions, steps = [actions[1], action], max(1, steps + int((~fell).sum()))
    seen = {
        "tracking": tracking / steps,
        "games with a fall": fell.mean(),
        "slip": slipped / steps if slip else None,
        "jerk": jerk / steps,
    }
    return {name: None if value is None else round(float(value), 3) for name, value in seen.items()}


def terms_of(task: str) -> tuple[str, ...]:
    """The names of the terms of a task's reward."""
    return import_module(f"headrace.envs.robots.{_MODULES[task]}").TERMS


def main() -> None:
    args = tyro.cli(WalkersArgs, description=__doc__)
    if args.run is not None:
        train(args, args.run)
        return
    case = {"task": args.task, "randomised": args.randomise}
    rows = [row for row in earlier(args.out, NAME, "rows") or [] if {key: row[key] for key in case} != case]
    with tempfile.TemporaryDirectory() as made:
        for seed in args.seeds:
            run = (args.folder or Path(made)) / f"{args.task}-{seed}"
            took = in_process(args, seed, run)
            for kicks in KICKS:
                rows.append({**case, "seed": seed, **took, "kicks, m/s": kicks, **play(args, run, kicks)})
                print(rows[-1], flush=True)
    title = f"Robots that walk by commands, after the plain command: {args.games} games of each agent"
    tell(args.out, heading(NAME, title) | {"settings": {"games": args.games}, "rows": rows})


if __name__ == "__main__":
    main()
