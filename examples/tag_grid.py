"""Tag on the grid with WarpDrive's settings: four taggers and a runner on 101 x 101 cells, learnt within minutes.

The game, the network, A2C and its settings are those with which WarpDrive trains its grid world (Lan et al. 2021; one
policy for all), but for what makes it learn on a few cores: everybody starts anywhere (WarpDrive's agents
start a hundred moves apart, in an episode of a hundred steps), observations and advantages are normalised,
advantages are GAE's, and the updates are smaller and more. Taggers that walk at random earn -0.8 each.

    python examples/tag_grid.py
    python examples/tag_grid.py --warpdrive --device cuda

The second is WarpDrive's size, 2,000 replicas and 200,000 steps an update. From the command line, the first is:

    headrace train TagGridWorld-v0 --algo a2c --total-steps 12000000 --num-envs 64 --num-steps 10 \\
        --option num_taggers=4 --option grid_length=100 --option tag_penalty=5.0 --option random_start=True \\
        --policies '{"all": {"agents": ["tagger", "runner"]}}' --hidden 32 32 --activation relu \\
        --gamma 0.98 --learning-rate 0.001 --no-anneal-learning-rate --entropy-coef 0.05 --max-grad-norm 3 \\
        --normalise-observations
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import tyro

import headrace

TAGGERS, EPISODES = 4, 50


@dataclass
class Args:
    """Tag on the grid."""

    total_steps: int = 12_000_000
    """steps of all replicas together"""
    device: str = "cpu"
    """cpu or cuda"""
    warpdrive: bool = False
    """2,000 replicas and 100 steps of each in an update, which needs a GPU; else 64 and 10"""


def main() -> None:
    args = tyro.cli(Args)
    result = headrace.train(
        "TagGridWorld-v0",
        algo="a2c",
        total_steps=args.total_steps,
        num_envs=2000 if args.warpdrive else 64,
        num_steps=100 if args.warpdrive else 10,
        env_options={"num_taggers": TAGGERS, "grid_length": 100, "tag_penalty": 5.0, "random_start": True},
        policies={"all": {"agents": ["tagger", "runner"]}},
        hidden=(32, 32),
        activation="relu",
        gamma=0.98,
        learning_rate=1e-3,
        anneal_learning_rate=False,
        entropy_coef=0.05,
        max_grad_norm=3.0,
        normalise_observations=True,
        device=args.device,
    )
    logs = [headrace.train.log_episode(result.run_dir, ["t"], i, deterministic=False) for i in range(EPISODES)]
    caught = sum(bool(log["terminated"][-1]) for log in logs)
    earned = np.mean([log["reward"][:, :TAGGERS].sum(0) for log in logs])
    print(f"the runner was caught in {caught} of {EPISODES} episodes; each tagger earned {earned:.2f}")
    print(f"run folder {result.run_dir}, film {result.video}")


if __name__ == "__main__":
    main()
