"""The action masks of one policy in a rollout."""

from __future__ import annotations

import torch
from torch import Tensor

from headrace.train.collect.outcome import FinalObservations
from headrace.train.modules.action_masks import forbidden
from headrace.train.modules.policy_mapping import AgentGroup


class RolloutMasks:
    """Action masks before each step and after the last, and the actions that they forbade.

    Args:
        masks: action masks of all agents, [T + 1, N, K] or [T + 1, N, A, K], as the pool writes them.
        heads: the number of actions of each choice.

    Attributes:
        forbidden: actions that were forbidden, bool[T, columns, logits].
    """

    def __init__(self, masks: Tensor, heads: tuple[int, ...], agent_group: AgentGroup, device: torch.device):
        self._masks, self._heads, self._agent_group, self._device = masks, heads, agent_group, device
        columns = masks.shape[1] * agent_group.width
        self.forbidden = torch.zeros(len(masks) - 1, columns, sum(heads), dtype=torch.bool, device=device)

    def at(self, t: int, envs: slice) -> Tensor:
        """Returns the action masks of step t, [columns, K]."""
        return self._agent_group.of_all(self._masks[t, envs], 0).to(self._device, non_blocking=True)

    def forbid(self, t: int, envs: slice) -> Tensor:
        """Stores which actions are forbidden at step t, and returns them, bool[columns, logits]."""
        return self.forbidden[t, self._agent_group.columns(envs)].copy_(forbidden(self.at(t, envs), self._heads))

    def after(self, finals: FinalObservations | None) -> Tensor:
        """Returns the action masks of the observations after each step, [T · columns, K].

        Args:
            finals: the final observations of truncated episodes; None if no episode was truncated.
        """
        actions = sum(self._heads)
        masks = self._agent_group.of_all(self._masks[1:]).to(self._device)[..., :actions]
        if finals is not None and finals.masks is not None:
            masks = torch.cat((masks, masks[:1]))  # a row for unused entries
            masks[finals.t, finals.columns] = finals.masks[:, :actions].to(self._device)
        return masks[: len(self.forbidden)].flatten(0, 1)
