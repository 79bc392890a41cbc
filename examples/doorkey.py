"""A key, a door and a goal behind it: a reward that chance hardly ever finds, in MiniGrid's DoorKey.

The agent sees 7 x 7 cells before it. Only the goal earns something, and by chance it is found once in a few hundred
episodes; a bonus for what was seldom seen leads there sooner (`headrace.train.train`'s ``curiosity``).

    pip install minigrid
    python examples/doorkey.py [TOTAL_STEPS]

The commands know its task by the file's name: ``headrace train examples/doorkey.py:doorkey --curiosity 0.002``.
"""

from __future__ import annotations

import argparse
from typing import Any

import gymnasium as gym
import numpy as np

import headrace

KINDS = 11, 6, 3  # of objects, colours and states of doors: MiniGrid's three numbers of a cell
SIDE = 7


class OneHot(gym.ObservationWrapper[np.ndarray, Any, dict[str, Any]]):
    """What is in each cell as ones and zeros, float32[980], as its numbers have no order; without the mission."""

    def __init__(self, env: gym.Env[dict[str, Any], Any]):
        super().__init__(env)
        self.observation_space = gym.spaces.Box(0, 1, (SIDE * SIDE * sum(KINDS),), np.float32)

    def observation(self, observation: dict[str, Any]) -> np.ndarray:
        cells = observation["image"]
        return np.concatenate([np.eye(n, dtype=np.float32)[cells[..., k]].ravel() for k, n in enumerate(KINDS)])


def doorkey(size: int = 8) -> gym.Env[Any, Any]:
    """Makes the environment; ``size`` is a side of the room, 5, 6, 8 or 16 cells."""
    import minigrid  # noqa: F401, registers the tasks

    return OneHot(gym.make(f"MiniGrid-DoorKey-{size}x{size}-v0"))


SETTINGS: dict[str, Any] = {
    "num_envs": 16,
    "num_steps": 128,
    "minibatch_size": 256,
    "entropy_coef": 0.01,
    "curiosity": 0.002,
    "stop_at_return": 0.8,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("total_steps", nargs="?", type=int, default=500_000, help="agent steps (500,000)")
    steps = parser.parse_args().total_steps
    result = headrace.train(f"{__file__}:doorkey", "ppo", total_steps=steps, **SETTINGS)
    print(f"mean return {result.mean_return} after {result.steps:,} steps in {result.seconds:.0f} s")


if __name__ == "__main__":
    main()
