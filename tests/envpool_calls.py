"""What tests of EnvPool's programs share: names of tasks, observations in parts, actions for all."""

from __future__ import annotations

from typing import Any

import numpy as np

CONTROL = ["CartPole-v0", "CartPole-v1", "Pendulum-v1", "MountainCar-v0", "MountainCarContinuous-v0", "Acrobot-v1"]
TOYS = ["Catch-v0", "FrozenLake-v1", "FrozenLake8x8-v1", "Taxi-v3", "NChain-v0", "CliffWalking-v0", "Blackjack-v1"]
ROBOTS = ["Ant-v4", "HalfCheetah-v5", "Hopper-v4", "CheetahRun-v1", "WalkerWalk-v1"]


def is_a(thing: Any, kind: type) -> bool:
    """`isinstance` that leaves a type checker no wiser: these are two packages' types in one."""
    return isinstance(thing, kind)


def parts(obs: Any) -> list[Any]:
    return list(obs.values()) if isinstance(obs, dict) else [obs]


def sampled(space: Any, count: int) -> np.ndarray:
    return np.array([space.sample() for _ in range(count)])
