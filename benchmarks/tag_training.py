"""Training on Tag, 5 agents, end to end: environment steps a second beside plain NumPy and PyTorch.

Both train a shared policy by advantage actor-critic with the same network and settings (`plain_a2c.py`), random
starts and partial observations; every contender keeps the number of torch threads that is best for it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import torch
import tyro

from common import Args, Comparison, Contender, measure, repeating
from headrace.train.recipes.make import make_config
from headrace.train.runners.assembly import make_trainer
from headrace.train.runs.folder import RunFolder
from plain_a2c import Settings, plain_a2c

PEER = "NumPy + PyTorch"


@dataclass
class TagArgs(Args):
    """Training on Tag beside plain NumPy and PyTorch."""

    replicas: tuple[int, ...] = (512, 2000)
    """numbers of environments"""


def ours(s: Settings, threads: int) -> tuple[Contender, Any]:
    """A contender: our trainer, for so many seconds at a time."""
    config = make_config(
        "TagGridWorld-v0",
        algo="a2c",
        total_steps=10**12,
        seed=1,
        num_envs=s.num_envs,
        num_steps=s.num_steps,
        hidden=s.hidden,
        shared=True,
        activation="relu",
        gamma=s.gamma,
        gae_lambda=s.gae_lambda,
        learning_rate=s.learning_rate,
        anneal_learning_rate=False,
        entropy_coef=s.entropy_coef,
        value_coef=s.value_coef,
        max_grad_norm=s.max_grad_norm,
        normalise_observations=False,
        torch_threads=threads,
        log_steps=10**9,
        tensorboard=False,
        policies={"all": {"agents": ["tagger", "runner"]}},
        env_options={
            "num_taggers": s.num_taggers,
            "grid_length": s.grid_length,
            "max_episode_steps": s.max_episode_steps,
            "tag_penalty": s.tag_penalty,
            "random_start": True,
        },
    )
    trainer: Any = make_trainer(config, RunFolder.create(tempfile.mkdtemp(), config))

    def iterate() -> None:
        torch.set_num_threads(threads)
        trainer.iterate()

    return repeating(iterate, s.num_envs * s.num_steps), trainer


def comparisons(args: TagArgs, split: dict[str, Any]) -> Iterator[Comparison]:
    """One for each number of environments; and what shares of our time were spent on what."""
    for replicas in args.replicas:
        s = Settings(num_envs=replicas)
        run, trainer = ours(s, 2)
        peers = {PEER: plain_a2c(s, 2), f"{PEER}, 1 thread": plain_a2c(s, 1)}
        wanted = {PEER: 3.0} if replicas == 512 else {}
        name = f"Tag, {s.num_taggers + 1} agents x {replicas:,}"
        yield Comparison(name, run, peers, wanted=wanted, warm_up=1.0)
        total = sum(trainer.reporter.figures().split.values())
        split[name] = {part: round(seconds / total, 3) for part, seconds in trainer.reporter.figures().split.items()}
        print(name, "ours:", split[name])
        trainer.close()


if __name__ == "__main__":
    chosen, split = tyro.cli(TagArgs), dict[str, Any]()
    title, extra = "A2C's whole loop on Tag", {"split": split}
    measure("tag_training", title, comparisons(chosen, split), chosen, extra, **asdict(Settings()))
