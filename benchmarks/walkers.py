"""How robots walk that the plain command has trained: seconds, and 100 games of each agent, with and without kicks.

Each seed is a run of the task's recipe in a process of its own. Its last weights then play games of 20 seconds with
noise and changing commands, on double-precision physics: how close the robot keeps to its commands (the mean of
exp(-error²/0.25), of which the turn counts half, as in the reward), in how many games it falls, and how far it slips
and jerks. Kicks change its horizontal velocity every one to three seconds.

    python benchmarks/walkers.py [--task Go1Flat-v0] [--seeds 301 302 303] [--games 100] [--folder runs/walkers]
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tyro

import headrace
from common import RESULTS, heading, tell
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
    run: Path | None = None
    """train the first seed in this process, into this folder"""
    out: Path = RESULTS
    """folder for the JSON file"""


def train(args: WalkersArgs, run: Path) -> None:
    """One run of the recipe."""
    more: dict[str, Any] = {} if args.steps is None else {"total_steps": args.steps}
    quiet: dict[str, Any] = {"quiet": True, "video": False, "tensorboard": False, "viewer": False}
    headrace.train(args.task, **more, seed=args.seeds[0], run_dir=run, **quiet)


def in_process(args: WalkersArgs, seed: int, run: Path) -> dict[str, float]:
    """What a run takes in a process of its own: seconds, and processor seconds, with its start and compiling."""
    command = [sys.executable, __file__, f"--task={args.task}", f"--seeds={seed}", f"--run={run}"]
    command += [] if args.steps is None else [f"--steps={args.steps}"]
    before, begun = os.times(), time.perf_counter()
    subprocess.run(command, check=True)
    after = os.times()
    used = after.children_user + after.children_system - before.children_user - before.children_system
    steps = read_metrics(run / "metrics.jsonl")[-1]["step"]
    return {"seconds": round(time.perf_counter() - begun, 1), "processor seconds": round(used, 1), "steps": steps}


def play(args: WalkersArgs, run: Path, kicks: float) -> dict[str, float]:
    """Means over the steps of games up to a fall, and the share of games with one."""
    agent = headrace.load(run, which="newest")
    with headrace.make(args.task, num_envs=args.games, seed=GAMES_SEED, push=kicks) as pool:
        names = [name.removeprefix("episode_") for name in pool.spec.metrics]
        obs, _ = pool.reset()
        fell, actions = np.zeros(args.games, bool), [np.zeros((args.games, *pool.action_space.shape))] * 2
        terms, jerk, steps = np.zeros(len(names)), 0.0, 0
        for _ in range(SECONDS * RATE):
            action = agent.act(obs)
            obs, _, terminated, _, info = pool.step(action)
            fell |= terminated
            terms += info["reward_terms"][~fell].sum(0)
            jerk += float(np.abs(action - 2 * actions[1] + actions[0])[~fell].mean(1).sum())
            actions, steps = [actions[1], action], steps + int((~fell).sum())
    mean = dict(zip(names, terms / max(steps, 1), strict=True))
    tracking = (mean["tracking_lin_vel"] + mean["tracking_ang_vel"] / 2) / 1.5
    seen = {"tracking": tracking, "games with a fall": fell.mean(), "slip": mean["feet_slip"], "jerk": jerk / steps}
    return {name: round(float(value), 3) for name, value in seen.items()}


def main() -> None:
    args = tyro.cli(WalkersArgs, description=__doc__)
    if args.run is not None:
        train(args, args.run)
        return
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as made:
        for seed in args.seeds:
            run = (args.folder or Path(made)) / f"{args.task}-{seed}"
            took = in_process(args, seed, run)
            for kicks in KICKS:
                rows.append({"seed": seed, **took, "kicks, m/s": kicks, **play(args, run, kicks)})
                print(rows[-1], flush=True)
    settings = {name: getattr(args, name) for name in ("task", "seeds", "games", "steps")}
    title = f"{args.task} by the plain command, and {args.games} games of each agent"
    tell(args.out, heading(f"{NAME}_{args.task.split('-')[0].lower()}", title) | {"settings": settings, "rows": rows})


if __name__ == "__main__":
    main()
