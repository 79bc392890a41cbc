"""Tasks with goals: what was achieved is part of an observation, and so is what was desired.

Gymnasium-Robotics' convention (Plappert et al. 2018, arXiv:1802.09464): observations are a dict of ``observation``,
``achieved_goal`` and ``desired_goal``, and the environment's ``compute_reward`` says what any pair of goals would earn.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np

KEYS = ("observation", "achieved_goal", "desired_goal")

GoalRewards = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""achieved and desired goals [B, G] → rewards float32[B]"""


@dataclass(frozen=True)
class Goals:
    """Where the goals are in flat observations, and what they earn.

    Attributes:
        achieved, desired: columns of an observation, as many of one as of the other.
        rewards: makes an environment, and returns what its ``compute_reward`` says of goals.
    """

    achieved: slice
    desired: slice
    rewards: Callable[[], GoalRewards]


def goals_of(env: Any, make: Callable[[], Any]) -> Goals | None:
    """Returns the goals of an environment whose observations are not flat yet; None if it has none.

    Args:
        env: a `gymnasium.Env`.
        make: makes another one.
    """
    space, game = env.observation_space, getattr(env, "unwrapped", env)
    if not (isinstance(space, gym.spaces.Dict) and set(space) == set(KEYS) and hasattr(game, "compute_reward")):
        return None
    places, start = {}, 0
    for name, part in space.items():  # the order in which Gymnasium flattens them
        size = gym.spaces.flatdim(part)
        places[name], start = slice(start, start + size), start + size
    shape = space["desired_goal"].shape or ()
    return Goals(places["achieved_goal"], places["desired_goal"], lambda: _rewards(make(), shape))


def _rewards(env: Any, shape: tuple[int, ...]) -> GoalRewards:
    """``compute_reward`` over rows: at once, if it can take several goals, else one by one."""
    compute = getattr(env, "unwrapped", env).compute_reward

    def each(achieved: np.ndarray, desired: np.ndarray) -> np.ndarray:
        rows = zip(achieved.reshape(-1, *shape), desired.reshape(-1, *shape), strict=True)
        return np.array([compute(one, other, {}) for one, other in rows], np.float32)

    def together(achieved: np.ndarray, desired: np.ndarray) -> np.ndarray:
        found = compute(achieved.reshape(-1, *shape), desired.reshape(-1, *shape), {})
        return np.asarray(found, np.float32)

    sample = np.random.default_rng(0).normal(size=(2, 3, int(np.prod(shape))))
    try:
        found = together(*sample)
    except Exception:  # whatever a function of one goal makes of three
        return each
    return together if found.shape == (3,) and np.array_equal(found, each(*sample)) else each
