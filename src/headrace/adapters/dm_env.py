"""One environment of a task as a `dm_env.Environment`, for Acme's loops and other agents of DeepMind.

`headrace.make_dm` returns EnvPool's batched form of the interface, with many environments in a time step; here a time
step belongs to one environment.

    >>> from headrace.adapters import dm_env
    >>> env = dm_env.environment("CartPole-v1", seed=1)
    >>> env.reset().observation.shape
    (4,)
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any

import dm_env
import gymnasium as gym
import numpy as np
from dm_env import specs

from headrace.errors import OptionError
from headrace.pool.make_pool import make_pool
from headrace.pool.registry import TaskLike
from headrace.pool.structure import is_array, one_row, row_of
from headrace.pool.views.arrayspec import action_dtype
from headrace.pool.views.dmspec import spec_of


def environment(task: TaskLike, **options: Any) -> DmEnvironment:
    """Returns one environment of a task.

    Args:
        task: the task, as in `headrace.make`.
        options: ``seed`` and the task's own options, as in `headrace.make`.

    Raises:
        UnknownTaskError: there is no such task.
        OptionError: an option is unknown or wrong, or is for several environments; or dm_env cannot describe a space.
    """
    return DmEnvironment(task, **options)


class DmEnvironment(dm_env.Environment):
    """A pool of one environment as a `dm_env.Environment`.

    Observations are the task's arrays, or dicts of arrays for a `Dict` space. Rewards and discounts are float32; the
    discount is 0 after termination, and 1 after truncation or within an episode, unless the task reports its own
    discount. In a multi-agent task, observations and actions have a row, and rewards an element, for each agent.

    Attributes:
        pool: the pool of this one environment.
    """

    def __init__(self, task: TaskLike, **options: Any):
        for name in ("num_envs", "batch_size", "autoreset", "max_num_players"):
            if name in options:
                raise OptionError(f"{name} is not for one environment: headrace.make_dm makes a batched dm_env")
        self.pool = make_pool(task, num_envs=1, autoreset="disabled", **options)
        try:
            self._observation_spec, self._action_spec = self._specs("observation"), self._specs("action")
        except OptionError:
            self.pool.close()
            raise
        self._over = True  # no episode has begun

    def observation_spec(self) -> Any:
        return self._observation_spec

    def action_spec(self) -> Any:
        """Returns the spec of an action: of one array, or a dict of specs; a `Discrete` action is int32."""
        return self._action_spec

    def reward_spec(self) -> specs.Array:
        """Returns the spec of a reward: float32, with an element for each agent of a multi-agent task."""
        return specs.Array(self.pool.spec.reward_shape, np.float32, "reward")

    def discount_spec(self) -> specs.BoundedArray:
        """Returns the spec of a discount: float32 in [0, 1]."""
        return specs.BoundedArray((), np.float32, 0.0, 1.0, "discount")

    def reset(self) -> dm_env.TimeStep:
        """Begins an episode."""
        obs, _ = self.pool.reset()
        self._over = False
        return dm_env.restart(row_of(obs, 0))

    def step(self, action: Any) -> dm_env.TimeStep:
        """Takes one step; if no episode is running, begins one and ignores the action.

        Raises:
            ActionError: the action is not in the action space.
        """
        if self._over:
            return self.reset()
        obs, reward, terminated, truncated, info = self.pool.step(one_row(action))
        self._over = bool(terminated[0] or truncated[0])
        discount = info["discount"][0] if self.pool.spec.declares("discount") else 1.0 - terminated[0]
        kind = dm_env.StepType.LAST if self._over else dm_env.StepType.MID
        return dm_env.TimeStep(kind, reward[0], np.float32(discount), row_of(obs, 0))

    def close(self) -> None:
        """Frees the pool's threads, processes and memory."""
        self.pool.close()

    def _specs(self, which: str) -> Any:
        space = getattr(self.pool, f"{which}_space")
        return _nested(space, which, action_dtype if which == "action" else attrgetter("dtype"))


def _nested(space: gym.Space, name: str, dtype: Callable[[gym.Space], Any]) -> Any:
    if isinstance(space, gym.spaces.Dict):
        return {key: _nested(part, key, dtype) for key, part in space.spaces.items()}
    if isinstance(space, gym.spaces.Tuple):
        return tuple(_nested(part, f"{name}_{i}", dtype) for i, part in enumerate(space.spaces))
    if not is_array(space):
        raise OptionError(f"dm_env has no spec for {space}")
    return spec_of(space, name, dtype(space))
