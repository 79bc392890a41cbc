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

Judge = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray | None]]
"""achieved and desired goals [B, G] → rewards float32[B], and whether they end an episode, bool[B], if that is known"""


@dataclass(frozen=True)
class Goals:
    """Where the goals are in flat observations, and what they earn.

    Attributes:
        achieved, desired: columns of an observation, as many of one as of the other.
        judge: makes an environment, and returns what its ``compute_reward`` and ``compute_terminated`` say of goals.
    """

    achieved: slice
    desired: slice
    judge: Callable[[], Judge]


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
    return Goals(places["achieved_goal"], places["desired_goal"], lambda: _judge(make(), shape))


def _judge(env: Any, shape: tuple[int, ...]) -> Judge:
    game = getattr(env, "unwrapped", env)
    rewards = _over_rows(game.compute_reward, shape, np.float32)
    ends = _over_rows(game.compute_terminated, shape, np.bool_) if hasattr(game, "compute_terminated") else None
    return lambda achieved, desired: (rewards(achieved, desired), None if ends is None else ends(achieved, desired))


def _over_rows(compute: Callable[..., Any], shape: tuple[int, ...], dtype: type) -> Callable[..., np.ndarray]:
    """A function of one pair of goals over rows of them: at once, if it can take several, else one by one."""

    def each(achieved: np.ndarray, desired: np.ndarray) -> np.ndarray:
        rows = zip(achieved.reshape(-1, *shape), desired.reshape(-1, *shape), strict=True)
        return np.array([compute(one, other, {}) for one, other in rows], dtype)

    def together(achieved: np.ndarray, desired: np.ndarray) -> np.ndarray:
        return np.asarray(compute(achieved.reshape(-1, *shape), desired.reshape(-1, *shape), {})).astype(dtype)

    sample = np.random.default_rng(0).normal(size=(2, 3, int(np.prod(shape))))
    sample[1, 0] = sample[0, 0]  # a goal that is reached
    try:
        same = np.array_equal(together(*sample), each(*sample))
    except Exception:  # whatever a function of one goal makes of three
        return each
    return together if same else each
