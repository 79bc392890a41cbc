"""Fetch with hindsight beside stable-baselines3's: steps and seconds until so many of a hundred episodes succeed.

Both learn by SAC with hindsight, in a process of its own each, on the same native environments, as Gymnasium-Robotics'
own do not load in MuJoCo 4; with the settings of our recipe: networks, batches, rates, share of goals replaced, updates
a step, normalised observations. The clock begins with the process: imports and compiling count.

    python benchmarks/goals.py [--tasks FetchReach-v4 FetchPush-v4] [--seeds 1 2 3]
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import tyro

import headrace
from common import OURS, RESULTS, earlier, heading, tell
from headrace.pool.registry import build_task
from headrace.train.recipes.make import make_config

NAME, PEER = "goals", "stable-baselines3"
GOALS: dict[str, float] = {"FetchReach-v4": 0.95, "FetchPush-v4": 0.9}
"""task → the share of the last hundred episodes that succeed, with exploration"""
TASKS, CONTENDERS = tuple(GOALS), (OURS, PEER)


@dataclass(frozen=True)
class GoalsArgs:
    """Runs until a share of episodes succeeds."""

    tasks: tuple[str, ...] = TASKS
    contenders: tuple[str, ...] = CONTENDERS
    seeds: tuple[int, ...] = (1, 2, 3)
    """a run of each"""
    steps: int = 1_000_000
    """of each run, at most"""
    one: str = ""
    """take the first task and seed in this process, by this contender"""
    out: Path = RESULTS
    """folder for the JSON file"""


def ours(task: str, seed: int, steps: int) -> int:
    """Train by the recipe; returns the agent steps until the goal, or all."""
    goal, taken = GOALS[task], steps

    def judge(training: Any, line: Mapping[str, Any]) -> None:
        nonlocal taken
        if line.get("metrics", {}).get("is_success", 0) >= goal and line["episodes"] >= 100:
            taken = min(taken, line["step"])
            training.stop()

    quiet: dict[str, Any] = {"quiet": True, "video": False, "tensorboard": False, "viewer": False}
    with tempfile.TemporaryDirectory() as folder:
        quiet |= {"run_dir": Path(folder) / "run", "checkpoint_seconds": 1e9}
        headrace.train(task, total_steps=steps, seed=seed, callback=judge, stop_episodes=100, **quiet)
    return taken


def theirs(task: str, seed: int, steps: int) -> int:
    """Train by stable-baselines3's with the recipe's settings; likewise."""
    from stable_baselines3 import SAC, HerReplayBuffer
    from stable_baselines3.common.callbacks import BaseCallback
    from stable_baselines3.common.vec_env import VecNormalize

    from headrace.adapters.sb3 import PoolVecEnv

    config: Any = make_config(task)
    goals = build_task(task, flat_observation=True).goals
    assert goals is not None
    judge = goals.judge()

    class WithRewards(PoolVecEnv):
        """Environments that say what other goals earn."""

        def env_method(self, method_name: str, *method_args: Any, indices: Any = None, **method_kwargs: Any) -> list:
            assert method_name == "compute_reward"
            return [judge(*(np.asarray(each) for each in method_args[:2]))[0]]

    class Judge(BaseCallback):
        def _on_step(self) -> bool:
            last: Any = self.model.ep_success_buffer
            return not (len(last) == 100 and np.mean(last) >= GOALS[task])

    pool: Any = headrace.make(task, num_envs=config.num_envs, seed=seed, autoreset="same_step")
    env = VecNormalize(WithRewards(pool), norm_reward=False, clip_obs=10.0)
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    every = config.num_steps * config.num_envs
    model: Any = SAC(
        "MultiInputPolicy", env, learning_rate=config.learning_rate, buffer_size=config.replay_size, seed=seed,
        learning_starts=config.learning_starts, batch_size=config.minibatch_size, tau=config.target_rate,
        gamma=config.gamma, train_freq=config.num_steps, gradient_steps=round(config.replay_ratio * every),
        replay_buffer_class=HerReplayBuffer, replay_buffer_kwargs={"n_sampled_goal": 4}, device="cpu",
        policy_kwargs={"net_arch": [*config.hidden]},
    )  # fmt: skip
    model.learn(steps, callback=Judge())
    return model.num_timesteps


def in_process(task: str, who: str, seed: int, args: GoalsArgs) -> dict[str, Any]:
    """What a run takes in a process of its own, with its start."""
    command = [sys.executable, __file__, f"--one={who}", "--tasks", task, "--seeds", str(seed), f"--steps={args.steps}"]
    begun = time.perf_counter()
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    run = json.loads(said.splitlines()[-1])
    row = {"task": task, "who": who, "seed": seed, "succeed": GOALS[task], "steps": run["steps"]}
    row |= {"seconds": round(time.perf_counter() - begun, 1), "processor seconds": run["processor seconds"]}
    return row | {"reached": run["steps"] < args.steps}


def main() -> None:
    args = tyro.cli(GoalsArgs, description=__doc__)
    if args.one:
        steps = (ours if args.one == OURS else theirs)(args.tasks[0], args.seeds[0], args.steps)
        print(json.dumps({"steps": steps, "processor seconds": round(time.process_time(), 1)}))
        return
    known = earlier(args.out, NAME, "rows") or []
    for task in args.tasks:
        for seed in args.seeds:
            for who in args.contenders:
                row = in_process(task, who, seed, args)
                same = ("task", "who", "seed")
                known = [each for each in known if any(each[key] != row[key] for key in same)] + [row]
                tell(
                    args.out,
                    heading(NAME, "Fetch with hindsight: steps and seconds to a share of success") | {"rows": known},
                )


if __name__ == "__main__":
    main()
