"""A pool as an environment for skrl's agents and trainers.

>>> from headrace.adapters.skrl import HeadraceWrapper
>>> env = HeadraceWrapper(headrace.make("CartPole-v1", num_envs=8, autoreset="same_step"))
>>> observations, infos = env.reset()
"""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import torch

from headrace.adapters.tensors import AnyPool, check_pool, device_of, given, kept
from headrace.errors import OptionError
from headrace.pool.structure import leaves, mapped

try:
    from skrl.envs.wrappers.torch import Wrapper
    from skrl.utils.spaces.torch import flatten_tensorized_space, tensorize_space, unflatten_tensorized_space
except ImportError as error:
    raise ImportError(f"this adapter needs skrl ({error}): pip install skrl") from error


class HeadraceWrapper(Wrapper):
    """A pool as a `skrl.envs.wrappers.torch.Wrapper`, on the pool's device.

    Observations are float32[num_envs, size], rewards float32[num_envs, 1], terminated and truncated bool[num_envs, 1],
    as in all of skrl's wrappers. As in its wrappers of vector environments, only the first `reset` begins episodes;
    later ones return the newest observations, since environments reset automatically.

    With ``autoreset="same_step"`` every step belongs to an episode, and ``infos["final_obs"]`` holds final
    observations. With ``"next_step"`` a final observation is returned as an ordinary one, and a step with reward 0
    leads from it to the next episode's first.

    Args:
        pool: a pool from `headrace.make`, or from `make_torch` for environments on a device, whose results stay there;
            closed with this wrapper.

    Raises:
        OptionError: the pool is asynchronous, has autoreset disabled, has several agents, or has a space that skrl does
            not support.
    """

    def __init__(self, pool: AnyPool):
        check_pool(pool, "skrl", ("same_step", "next_step"))
        if pool.spec.agents:
            hint = "use skrl's wrap_env of headrace.adapters.pettingzoo.parallel_env"
            raise OptionError(f"{pool.spec.task} is for many agents, and skrl's Wrapper for one: {hint}")
        for space in (*leaves(pool.observation_space).values(), *leaves(pool.action_space).values()):
            if not isinstance(space, gym.spaces.Box | gym.spaces.Discrete | gym.spaces.MultiDiscrete):
                raise OptionError(f"{pool.spec.task}: skrl has no tensors for {space}")
        super().__init__(pool)
        self.pool, self._device = pool, device_of(pool)
        self._newest: tuple[torch.Tensor, dict[str, Any]] | None = None

    @property
    def observation_space(self) -> gym.Space:
        return self.pool.observation_space

    @property
    def action_space(self) -> gym.Space:
        return self.pool.action_space

    def reset(self) -> tuple[torch.Tensor, dict[str, Any]]:
        """Returns the newest observations float32[num_envs, size] and infos; the first call begins the episodes."""
        if self._newest is None:
            obs, info = self.pool.reset()
            self._newest = self._flat(obs), info
        return self._newest

    def step(self, actions: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, Any]:
        """Steps all environments with actions [num_envs, size].

        Returns:
            Observations, rewards, terminated, truncated and infos.
        """
        action = given(self.pool, unflatten_tensorized_space(self.action_space, actions))
        obs, reward, terminated, truncated, info = self.pool.step(action)
        self._newest = self._flat(obs), info
        earned, over, cut = (kept(array)[:, None] for array in (reward, terminated, truncated))
        return self._newest[0], earned, over, cut, info

    def state(self) -> None:
        """Returns None: there is no state other than the observations."""

    def render(self, *args: Any, **kwargs: Any) -> np.ndarray:
        """Returns RGB frames uint8[1, height, width, 3] of environment 0."""
        return self.pool.render()

    def close(self) -> None:
        self.pool.close()

    def _flat(self, obs: Any) -> Any:
        """Returns observations in the dtypes of skrl's other wrappers: float32, or int32 for discrete values."""

        def numbers(values: torch.Tensor, space: gym.Space) -> torch.Tensor:
            return values.to(torch.float32 if isinstance(space, gym.spaces.Box) else torch.int32)

        space = self.observation_space
        tensors = mapped(numbers, kept(obs), space)
        return flatten_tensorized_space(tensorize_space(space, tensors, device=self._device))
