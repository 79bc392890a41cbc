"""Goal-conditioned tasks, whose observations contain the achieved goal and the desired goal.

The convention is that of Gymnasium-Robotics (Plappert et al. 2018, arXiv:1802.09464): observations are a dict of
``observation``, ``achieved_goal`` and ``desired_goal``, and the environment's ``compute_reward``, or a MuJoCo task's
``goal_reward``, returns the reward of any pair of goals.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np

from headrace.errors import OptionError

KEYS = ("observation", "achieved_goal", "desired_goal")

Judge = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray | None]]
"""achieved and desired goals [B, G] → rewards float32[B], and whether they terminate an episode, bool[B], or None if
the environment cannot compute that"""


@dataclass(frozen=True)
class Goals:
    """The position of goals in flat observations, and the function that computes their rewards.

    Attributes:
        achieved, desired: the columns of an observation that hold the achieved and the desired goal; both have the
            same number of columns.
        judge: a function that returns a `Judge`. That of a Gymnasium environment makes one, and calls its
            ``compute_reward`` and ``compute_terminated``.
    """

    achieved: slice
    desired: slice
    judge: Callable[[], Judge]


def goals_of(env: Any, make: Callable[[], Any]) -> Goals | None:
    """Returns the goals of an environment with `Dict` observations; None if it has none.

    Args:
        env: a `gymnasium.Env`.
        make: a function that makes another such environment.
    """
    space, game = env.observation_space, getattr(env, "unwrapped", env)
    if not has_goals(space) or not hasattr(game, "compute_reward"):
        return None
    shape = space["desired_goal"].shape or ()
    return goals_in(space, lambda: _judge(make(), shape))


def has_goals(space: gym.Space) -> bool:
    """Returns whether observations of a space have the parts of a task with goals, and no other."""
    return isinstance(space, gym.spaces.Dict) and set(space) == set(KEYS)


def goals_in(space: gym.spaces.Dict, judge: Callable[[], Judge]) -> Goals:
    """Returns the goals in observations of a space that `has_goals`, with their parts in one array, in its order."""
    places, start = {}, 0
    for name, part in space.items():
        size = gym.spaces.flatdim(part)
        places[name], start = slice(start, start + size), start + size
    return Goals(places["achieved_goal"], places["desired_goal"], judge)


def _judge(env: Any, shape: tuple[int, ...]) -> Judge:
    game = getattr(env, "unwrapped", env)
    rewards = _over_rows(game.compute_reward, shape, np.float32)
    ends = _over_rows(game.compute_terminated, shape, np.bool_) if hasattr(game, "compute_terminated") else None
    return lambda achieved, desired: (rewards(achieved, desired), None if ends is None else ends(achieved, desired))


def _over_rows(compute: Callable[..., Any], shape: tuple[int, ...], dtype: type) -> Callable[..., np.ndarray]:
    """Returns a function over rows of goals from one of a pair of goals, called once for all rows if it allows that.

    What it returns may be a number, or a list or an array of one; the function raises `OptionError` for all else.
    """

    def values(result: Any, count: int) -> np.ndarray:
        found = np.asarray(result)
        if found.size != count or found.dtype.kind not in "biuf":
            name = getattr(compute, "__name__", "compute_reward")
            raise OptionError(f"{name}(achieved_goal, desired_goal, info) must return one number, not {result!r}")
        return found.reshape(count).astype(dtype)

    def each(achieved: np.ndarray, desired: np.ndarray) -> np.ndarray:
        rows = zip(achieved.reshape(-1, *shape), desired.reshape(-1, *shape), strict=True)
        return np.array([values(compute(one, other, {}), 1)[0] for one, other in rows], dtype)

    def together(achieved: np.ndarray, desired: np.ndarray) -> np.ndarray:
        return values(compute(achieved.reshape(-1, *shape), desired.reshape(-1, *shape), {}), len(achieved))

    sample = np.random.default_rng(0).normal(size=(2, 3, int(np.prod(shape))))
    sample[1, 0] = sample[0, 0]  # one pair in which the goal is reached
    try:
        same = np.array_equal(together(*sample), each(*sample))
    except Exception:  # of any kind: a function of one pair of goals was called with three
        return each
    return together if same else each
