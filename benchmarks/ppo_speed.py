"""PPO's whole training loop beside stable-baselines3's, and beside a plain PyTorch PPO over EnvPool.

Same network, same settings, everything that training does included (stepping, inference, updates,
bookkeeping, metrics). CartPole-v1 with 64 and 8 environments, separate 64-64 tanh towers; Pong with the Nature-CNN
and 8 and 32 environments. Each contender runs with the number of torch threads (1 or all cores) that it is
faster with. For Pong also: what share of the machine's own matrix rate the learner reaches, and what
share of the time is not learning.
"""

from __future__ import annotations

import logging
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
import tyro

from common import OURS, Args, Comparison, Contender, measure, repeating
from headrace.machine import usable_cores
from headrace.train.recipes.make import make_config
from headrace.train.runners.assembly import make_trainer
from headrace.train.runs.folder import RunFolder
from plain_ppo import Settings, plain_ppo

CARTPOLE = {
    "N=64 T=32, minibatch 256, 4 epochs": Settings(64, 32, 4, 256),
    "N=64 T=32, minibatch 512, 10 epochs": Settings(64, 32, 10, 512),
    "N=64 T=128, minibatch 1024, 4 epochs": Settings(64, 128, 4, 1024),
    "N=8 T=128, minibatch 256, 4 epochs": Settings(8, 128, 4, 256),
}
PONG = Settings(8, 128, 4, 256, learning_rate=2.5e-4, clip_range=0.1, entropy_coef=0.01)
CARTPOLE_LEAST = {"stable-baselines3": 4.0, "plain PyTorch + EnvPool": 2.0}
PONG_LEAST = {"stable-baselines3": 1.3}
NEVER = 10**9  # total steps: no contender anneals to zero or ends while it is measured
SAMPLE_GFLOP = 3 * 2e-9 * (20 * 20 * 32 * 256 + 9 * 9 * 64 * 512 + 7 * 7 * 64 * 576 + 3136 * 512)
"""arithmetic of one sample in one epoch: the Nature-CNN's products, forward and twice as much backward"""


@dataclass
class SpeedArgs(Args):
    """PPO's whole training loop beside its peers."""

    seconds: float = 6.0
    """length of one turn on CartPole; Pong's is at least one iteration"""
    tasks: tuple[str, ...] = ("cartpole", "pong")
    """which of the two comparisons to make"""
    pong_envs: tuple[int, ...] = (8, 32)
    """numbers of environments for Pong"""


def ours(task: str, s: Settings, folder: Path, **more: Any) -> tuple[Any, Contender]:
    """Our trainer, and the contender that runs it."""
    config = make_config(task, defaults=False, total_steps=NEVER, anneal_learning_rate=False, tensorboard=False)
    config = config.replace(**asdict(s), **more)
    trainer: Any = make_trainer(config, RunFolder.create(folder, config))

    return trainer, repeating(trainer.iterate, s.num_envs * s.num_steps)


def pong_frames(**options: Any) -> Any:
    """Pong frame by frame, as stable-baselines3's Atari wrappers want it; also made in worker processes."""
    import ale_py
    import gymnasium as gym

    gym.register_envs(ale_py)
    return gym.make("ALE/Pong-v5", frameskip=1, repeat_action_probability=0.0, **options)


def stable_baselines(task: str, s: Settings, atari: bool) -> Contender:
    """stable-baselines3's PPO, with its own vector environments."""
    from stable_baselines3 import PPO
    from stable_baselines3.common.env_util import make_atari_env, make_vec_env
    from stable_baselines3.common.vec_env import SubprocVecEnv, VecFrameStack

    if atari:
        frames = make_atari_env(pong_frames, s.num_envs, seed=1, vec_env_cls=SubprocVecEnv)
        envs = VecFrameStack(frames, 4)
    else:
        envs = make_vec_env(task, s.num_envs, seed=1)
    model = PPO(
        "CnnPolicy" if atari else "MlpPolicy",
        envs,
        n_steps=s.num_steps,
        batch_size=s.minibatch_size,
        n_epochs=s.epochs,
        learning_rate=s.learning_rate,
        gamma=s.gamma,
        gae_lambda=s.gae_lambda,
        clip_range=s.clip_range,
        ent_coef=s.entropy_coef,
        vf_coef=0.5,  # of the whole squared error: our 1.0 of half of it
        max_grad_norm=s.max_grad_norm,
        seed=1,
        device="cpu",
    )
    size = s.num_envs * s.num_steps
    model.learn(size)

    count = size if atari else 4 * size
    return repeating(lambda: model.learn(count, reset_num_timesteps=False), count)


def threaded(contender: Contender, seconds: float) -> tuple[int, Contender]:
    """The contender with the number of torch threads that suits it best, and that number."""
    speeds = {}
    for threads in (1, usable_cores()):
        torch.set_num_threads(threads)
        contender(0.1 * seconds)
        speeds[threads] = contender(seconds)
    best = max(speeds, key=lambda n: speeds[n])

    def run(seconds: float) -> float:
        torch.set_num_threads(best)
        return contender(seconds)

    return best, run


Details = dict[str, Any]
"""case → settings, torch threads of each contender, and where our time goes"""


def compared(
    name: str, runs: dict[str, Contender], wanted: dict[str, float], s: Settings, args: SpeedArgs, details: Details
) -> Comparison:
    """One case, in which each contender runs with the torch threads that suit it best."""
    chosen = {label: threaded(run, args.seconds / 4) for label, run in runs.items()}
    threads = {label: threads for label, (threads, _) in chosen.items()}
    details[name] = {"settings": asdict(s), "torch_threads": threads}
    peers = {label: run for label, (_, run) in chosen.items()}
    skip = 4 if name.startswith("Pong") else 1
    return Comparison(name, peers.pop(OURS), peers, wanted=wanted, frame_skip=skip, warm_up=0.1)


def cartpole(args: SpeedArgs, folder: Path, details: Details) -> Iterator[Comparison]:
    """One for each of the settings."""
    for label, settings in CARTPOLE.items():
        trainer, run = ours("CartPole-v1", settings, folder / label)
        peer = stable_baselines("CartPole-v1", settings, atari=False)
        contenders = {OURS: run, "stable-baselines3": peer}
        contenders["plain PyTorch + EnvPool"] = plain_ppo("CartPole-v1", settings)
        name = f"CartPole-v1 {label}"
        yield compared(name, contenders, CARTPOLE_LEAST, settings, args, details)
        details[name] |= _shares(trainer)
        trainer.close()


def pong(args: SpeedArgs, folder: Path, details: Details) -> Iterator[Comparison]:
    """One for each number of environments, and what share of the machine's matrix rate our learner reaches."""
    options = {"episodic_life": True, "reward_clip": True}
    for envs in args.pong_envs:
        settings, name = replace(PONG, num_envs=envs), f"Pong-v5 N={envs}"
        trainer, run = ours("Pong-v5", settings, folder / f"pong{envs}", env_options=options)
        half, run_half = ours("Pong-v5", settings, folder / f"pong{envs}bf16", env_options=options, bf16=True)
        peer = stable_baselines("Pong", settings, atari=True)
        contenders = {OURS: run, "stable-baselines3": peer, "headrace, bfloat16": run_half}
        yield compared(name, contenders, PONG_LEAST, settings, args, details)
        for kind, one, dtype in (("float32", trainer, torch.float32), ("bfloat16", half, torch.bfloat16)):
            rate = matrix_rate(dtype)
            reached = one.step * settings.epochs * SAMPLE_GFLOP / one.reporter.figures().split["learning"]
            details[name][kind] = _shares(one) | {
                "machine_gflops": round(rate, 1),
                "learner_gflops": round(reached, 1),
                "share_of_matrix_rate": round(reached / rate, 3),
            }
            print(kind, details[name][kind])
            one.close()


def matrix_rate(dtype: torch.dtype, size: int = 2048) -> float:
    """GFLOP/s of a large square product on all cores: what the machine can do at best."""
    torch.set_num_threads(usable_cores())
    a = torch.randn(size, size).to(dtype)
    best = 0.0
    for _ in range(8):
        began = time.perf_counter()
        torch.mm(a, a)
        best = max(best, 2e-9 * size**3 / (time.perf_counter() - began))
    return best


def _shares(trainer: Any) -> dict[str, Any]:
    split = trainer.reporter.figures().split
    total = sum(split.values())
    shares = {name: round(seconds / total, 3) for name, seconds in split.items()}
    return {"shares": shares, "not_learning": round(1 - shares["learning"], 3)}


def main() -> None:
    args, details = tyro.cli(SpeedArgs), Details()
    logging.disable(logging.WARNING)
    with tempfile.TemporaryDirectory() as folder:
        parts = ({"cartpole": cartpole, "pong": pong}[task](args, Path(folder), details) for task in args.tasks)
        cases = (case for part in parts for case in part)
        measure("ppo_speed", "PPO's whole loop", cases, args, {"details": details})


if __name__ == "__main__":
    main()
