"""CartPole in 10,000 replicas: what an iteration learns from is wide rather than long.

With so many environments a rollout may be short, and few large minibatches are enough. Environments, policy
and statistics are on one device: on a GPU (``--device cuda``) nothing comes to the host but what is shown.
The mean return that ends the run is that of one episode of each replica.

    python examples/cartpole_10000.py [--device cuda] [--total-steps 20000000]

or, the same from the command line:

    headrace train CartPole-v1 --num-envs 10000 --num-steps 16 --minibatch-size 16000 --epochs 4 \\
        --hidden 32 32 --learning-rate 0.003 --stop-episodes 10000 --total-steps 20000000
"""

from __future__ import annotations

from dataclasses import dataclass

import tyro

import headrace


@dataclass
class Args:
    """CartPole in very many replicas."""

    num_envs: int = 10_000
    """replicas"""
    total_steps: int = 20_000_000
    """agent steps at most; it ends at a mean return of 475"""
    device: str = "cpu"
    """cpu or cuda"""


def main() -> None:
    args = tyro.cli(Args)
    result = headrace.train(
        "CartPole-v1",
        num_envs=args.num_envs,
        num_steps=16,
        minibatch_size=16_000,
        epochs=4,
        hidden=(32, 32),
        learning_rate=3e-3,
        stop_episodes=args.num_envs,
        total_steps=args.total_steps,
        device=args.device,
        video=False,
    )
    earned = "none has ended" if result.mean_return is None else f"mean return {result.mean_return:.0f}"
    print(f"{result.steps:,} steps in {result.seconds:.0f} s, {result.steps / result.seconds:,.0f} a second: {earned}")
    print(f"run folder {result.run_dir}")


if __name__ == "__main__":
    main()
