"""stable-baselines3's PPO over our pool, beside itself over its own vector environments.

The learner is stable-baselines3's in all cases, with the same settings and the same number of torch threads (1 for
CartPole's small networks, all cores for Pong's), and all of ``learn()`` counts: stepping, inference, updates and
bookkeeping. So a ratio says what an unchanged program gains by its environments alone, and the learner limits it. Pong
is preprocessed alike: pictures of 84×84 in grey, four of them stacked, four frames a step, no sticky actions, lives as
episodes, rewards' signs.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
import tyro

from common import Args, Comparison, Contender, measure, repeating
from ppo_speed import pong_frames

SETTINGS: dict[str, Any] = {
    "n_steps": 128,
    "batch_size": 256,
    "n_epochs": 4,
    "learning_rate": 2.5e-4,
    "clip_range": 0.1,
    "ent_coef": 0.01,
    "seed": 1,
    "device": "cpu",
}
ATARI: dict[str, Any] = {"episodic_life": True, "reward_clip": True, "repeat_action_probability": 0.0}


@dataclass
class TrainingArgs(Args):
    """stable-baselines3's PPO over our pool and over its own vector environments."""

    repeats: int = 5
    """turns that each contender gets"""
    seconds: float = 3.0
    """length of one turn, and at least one iteration"""
    num_envs: int = 8
    """environments"""
    tasks: tuple[str, ...] = ("CartPole-v1", "Pong-v5")
    """which of the two comparisons to make"""


def environments(task: str, n: int) -> dict[str, Any]:
    """The same task as a `VecEnv` of each kind."""
    from stable_baselines3.common.env_util import make_atari_env, make_vec_env
    from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv, VecFrameStack

    from headrace.adapters import sb3

    made: dict[str, Any] = {
        "headrace": sb3.make_vec_env(task, n, seed=1, env_kwargs=ATARI if task == "Pong-v5" else {})
    }
    for kind in (DummyVecEnv, SubprocVecEnv):
        if task == "Pong-v5":
            env = VecFrameStack(make_atari_env(pong_frames, n, seed=1, vec_env_cls=kind), 4)
        else:
            env = make_vec_env(task, n, seed=1, vec_env_cls=kind)
        made[f"its own {kind.__name__}"] = env
    return made


def learning(env: Any, policy: str, threads: int) -> Contender:
    """A contender that learns, iteration after iteration, and returns agent steps a second."""
    from stable_baselines3 import PPO

    model = PPO(policy, env, **SETTINGS)
    size = env.num_envs * SETTINGS["n_steps"]

    def learn() -> None:
        torch.set_num_threads(threads)
        model.learn(size, reset_num_timesteps=False)

    return repeating(learn, size)


def comparisons(args: TrainingArgs) -> Iterator[Comparison]:
    """One for each task."""
    for task in args.tasks:
        threads, policy = (len(os.sched_getaffinity(0)), "CnnPolicy") if task == "Pong-v5" else (1, "MlpPolicy")
        envs = environments(task, args.num_envs)
        peers = {name: learning(env, policy, threads) for name, env in envs.items()}
        ours, wanted = peers.pop("headrace"), dict.fromkeys(peers, 1.0)
        frame_skip = 4 if task == "Pong-v5" else 1
        yield Comparison(f"{task} N={args.num_envs}", ours, peers, wanted=wanted, frame_skip=frame_skip)
        for env in envs.values():
            env.close()


if __name__ == "__main__":
    chosen = tyro.cli(TrainingArgs)
    title = "stable-baselines3's own PPO over our environments"
    measure("sb3_training", title, comparisons(chosen), chosen, **SETTINGS)
