"""A policy's inputs and actions in the mirror of its task."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor

from headrace.errors import OptionError
from headrace.pool.mirror import Side
from headrace.train.modules.cnn import is_image
from headrace.train.modules.policy_mapping import AgentGroup


class Mirroring:
    """What the mirror of a task shows of inputs and actions as rollouts hold them.

    Inputs may be normalised, if the statistics are those of observations and their mirrored ones.

    Raises:
        OptionError: the task does not say how it looks in a mirror, or its mirror does not fit its spaces.
    """

    def __init__(self, agent_group: AgentGroup, device: torch.device):
        mirror, seen, acted = agent_group.mirror, agent_group.observation, agent_group.action
        if mirror is None:
            raise OptionError(
                "mirror=True needs a task that says how it looks in a mirror: give its MujocoTask, or its TaskSpec, a "
                "headrace.Mirror; or say mirror=False, as for pictures, which have none"
            )
        if not isinstance(seen, gym.spaces.Box) or is_image(seen) or not isinstance(acted, gym.spaces.Box):
            raise OptionError(
                f"mirror=True needs observations and actions of numbers, not {seen} and {acted}: mirror=False"
            )
        observation = mirror.observation
        if agent_group.critic:
            if mirror.critic is None:
                raise OptionError(
                    f"mirror=True needs to know how the {agent_group.critic} numbers that only the critic sees look "
                    "in a mirror: give the task headrace.Mirror(observation, action, critic); or say mirror=False, or "
                    "leave them out by the option critic=False"
                )
            begin = len(observation[0])
            indices = (*observation[0], *(begin + i for i in mirror.critic[0]))
            observation = indices, (*observation[1], *mirror.critic[1])
        for name, space, side in (("observation", seen, observation), ("action", acted, mirror.action)):
            if not space.shape or len(side[0]) != space.shape[-1]:
                raise OptionError(f"the task's mirror has {len(side[0])} elements of an {name} of shape {space.shape}")
        indices, signs = list(mirror.action[0]), np.array(mirror.action[1])
        low, high = (bound[..., indices] * signs for bound in (acted.low, acted.high))
        low, high = np.minimum(low, high), np.maximum(low, high)
        if not (np.array_equal(low, acted.low) and np.array_equal(high, acted.high)):
            raise OptionError(f"the task's mirror shows actions of other bounds, from {low} to {high}, than {acted}")
        self._observation, self._action = (_side(each, device) for each in (observation, mirror.action))

    def inputs(self, inputs: Tensor) -> Tensor:
        """Returns inputs [B, D], or flattened observations of any dtype, as the mirror shows them."""
        return _mirrored(inputs, *self._observation)

    def actions(self, actions: Tensor) -> Tensor:
        """Returns actions [B, *action_shape] as the mirror shows them."""
        return _mirrored(actions, *self._action)


def _side(side: Side, device: torch.device) -> tuple[Tensor, Tensor]:
    indices, signs = side
    return torch.tensor(indices, device=device), torch.tensor(signs, dtype=torch.float32, device=device)


def _mirrored(values: Tensor, indices: Tensor, signs: Tensor) -> Tensor:
    return (values.reshape(-1, len(indices))[:, indices] * signs).view(values.shape)
