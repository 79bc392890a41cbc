"""A pool as a `dm_env.Environment`, in the batched form that EnvPool introduced.

A `TimeStep` holds arrays whose first dimension is the batch; its observation is a named tuple of the fields of the
observation and of Gymnasium's info.
"""

from __future__ import annotations

from typing import Any

import dm_env
import numpy as np
from dm_env import specs

from headrace.errors import OptionError
from headrace.pool.pool import Pool, StepResult
from headrace.pool.views.arrayspec import observed_name
from headrace.pool.views.dmspec import Players, observation_spec
from headrace.pool.views.envpool import EnvPool


class DmPool(EnvPool, dm_env.Environment):
    """A pool as a `dm_env.Environment`; ``reset`` and ``step`` return a batched `dm_env.TimeStep`.

    ``step_type`` is int32[k], ``reward`` and ``discount`` float32[k]; ``observation`` is a named tuple
    with ``env_id``, ``players``, ``obs`` (or ``pixels``, or the keys of a `Dict` space), the task's info fields, and
    ``elapsed_step``.
    The discount is 0 where an episode terminated and 1 elsewhere, unless the task reports its own discount.

    Args:
        pool, rest: as in `EnvPool`.

    Raises:
        OptionError: the pool's autoreset mode is ``"same_step"``, which `dm_env` cannot represent.
    """

    def __init__(self, pool: Pool, *rest: Any):
        if pool.autoreset == "same_step":
            raise OptionError(
                "autoreset must be 'next_step' or 'disabled': in dm_env a step that ends an episode begins none"
            )
        super().__init__(pool, *rest)
        self._observation_spec = observation_spec(pool.spec)
        self._state = type(self._observation_spec)
        self._over = np.zeros(pool.num_envs, np.bool_)  # whether the last time step was the episode's last

    def observation_spec(self) -> Any:
        """Returns the specs of one environment's observation, in a named tuple with the observation's fields."""
        return self._observation_spec

    def reward_spec(self) -> specs.Array:
        """Returns the spec of one environment's reward: float32, with an element for each agent of several."""
        return specs.Array(self.pool.spec.reward_shape, np.float32, "reward")

    def discount_spec(self) -> specs.BoundedArray:
        """Returns the spec of one environment's discount: float32 in [0, 1]."""
        return specs.BoundedArray((), np.float32, 0.0, 1.0, "discount")

    def reset(self, env_id: Any = None) -> dm_env.TimeStep:
        """Starts new episodes in all environments, or in ``env_id``; see `Pool.reset`."""
        obs, info = self.pool.reset(env_id)
        zero = np.zeros((len(info["env_id"]), *self.pool.spec.reward_shape), np.float32)
        never = np.zeros(len(zero), np.bool_)
        return self._presented((obs, zero, never, never, info))

    def step(self, action: Any, env_id: Any = None) -> dm_env.TimeStep:
        """Advances all environments, or those of ``env_id``, by one agent step; see `Pool.step`."""
        return self._presented(self._step(action, env_id))

    def recv(self, reset: bool = False, return_info: bool = True, *, timeout: float | None = None) -> dm_env.TimeStep:
        """Returns the next results; ``reset`` and ``return_info`` are EnvPool's arguments and have no effect."""
        return self._presented(self.pool.recv(timeout))

    def _presented(self, result: StepResult) -> dm_env.TimeStep:
        obs, reward, terminated, truncated, info = result
        first, last = int(dm_env.StepType.FIRST), int(dm_env.StepType.LAST)
        step_type = np.full(len(reward), int(dm_env.StepType.MID), np.int32)
        over, ids = terminated | truncated, info["env_id"]
        step_type[(info["elapsed_step"] == 0) | self._over[ids]] = first  # elapsed_step continues after a lost life
        step_type[over] = last
        self._over[ids] = over
        discount = info["discount"] if self.pool.spec.declares("discount") else 1.0 - terminated
        fields = obs if isinstance(obs, dict) else {observed_name(self._spec): obs}
        values = {**fields, **info, "players": Players(info["env_id"])}
        state = self._state(*(values[key] for key in self._state.keys))
        return dm_env.TimeStep(step_type, reward, discount.astype(np.float32), state)  # type: ignore[arg-type]
