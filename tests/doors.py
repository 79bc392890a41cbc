"""MiniGrid's doors, which open with a key that must be found first, as a task of pictures alone."""

from __future__ import annotations

import gymnasium as gym
import minigrid  # noqa: F401  (registers its environments)
from minigrid.wrappers import ImgObsWrapper


def door_key(size: int = 5) -> gym.Env:
    """What the agent sees of a room of so many cells a side, uint8 [7, 7, 3]."""
    return ImgObsWrapper(gym.make(f"MiniGrid-DoorKey-{size}x{size}-v0"))
