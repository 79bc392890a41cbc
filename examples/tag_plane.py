"""Tag in the plane with WarpDrive's settings: taggers and runners, each with a policy that learns against the other.

``--warpdrive`` plays WarpDrive's game (Lan et al. 2021: 10 taggers and 100 runners, 500 steps) at its size: 100
replicas, 25,000 steps an update, networks of 256 x 256, for a GPU. Without it the game has 5 taggers and
20 runners for 200 steps, and the networks are 64 x 64: two cores learn it in minutes.
Both learn by PPO from normalised observations; WarpDrive's A2C is ``--algo a2c``.

    python examples/tag_plane.py
    python examples/tag_plane.py --warpdrive --device cuda

From the command line, the first is:

    headrace train TagContinuous-v0 --total-steps 600000 --num-envs 32 --num-steps 20 --minibatch-size 640 --epochs 1 \\
        --option num_taggers=5 --option num_runners=20 --option max_episode_steps=200 --hidden 64 64 \\
        --gamma 0.98 --schedules '{"learning_rate": [[0, 0.002], [300000, 0.002], [600000, 0.0002]]}' \\
        --entropy-coef 0.005 --normalise-observations
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import tyro

import headrace
from headrace.train.runs.metrics import read_metrics

SMALL: dict[str, Any] = {
    "num_envs": 32,
    "num_steps": 20,
    "hidden": (64, 64),
    "schedules": {"learning_rate": [(0, 2e-3), (300_000, 2e-3), (600_000, 2e-4)]},
    "env_options": {"num_taggers": 5, "num_runners": 20, "max_episode_steps": 200},
}
WARPDRIVE: dict[str, Any] = {
    "num_envs": 100,
    "num_steps": 250,
    "hidden": (256, 256),
    "policies": {
        "tagger": {"agents": ["tagger"], "learning_rate": 0.001},
        "runner": {"agents": ["runner"], "learning_rate": 0.005},
    },
    "env_options": {"num_taggers": 10, "num_runners": 100, "max_episode_steps": 500},
}


@dataclass
class Args:
    """Tag in the plane."""

    total_steps: int = 600_000
    """steps of all replicas together"""
    device: str = "cpu"
    """cpu or cuda"""
    algo: Literal["ppo", "a2c"] = "ppo"
    """learning algorithm"""
    warpdrive: bool = False
    """WarpDrive's game and sizes, which need a GPU"""


def main() -> None:
    args = tyro.cli(Args)
    sizes = WARPDRIVE if args.warpdrive else SMALL
    # one update from all of a rollout, as a2c makes it anyway
    once = {"epochs": 1, "minibatch_size": sizes["num_envs"] * sizes["num_steps"]} if args.algo == "ppo" else {}
    result = headrace.train(
        "TagContinuous-v0",
        algo=args.algo,
        total_steps=args.total_steps,
        gamma=0.98,
        entropy_coef=0.005,
        normalise_observations=True,
        device=args.device,
        **sizes,
        **once,
    )
    lines = read_metrics(result.run_dir / "metrics.jsonl")
    for when, line in (("at first", lines[0]), ("at last", lines[-1])):
        earned = {name: policy["return"] for name, policy in line["policies"].items()}
        shown = ", ".join(f"a {name} {value:.2f}" for name, value in earned.items() if value is not None)
        print(f"{when}, an episode brought: {shown or 'nothing yet'}")
    print(f"run folder {result.run_dir}, film {result.video}")


if __name__ == "__main__":
    main()
