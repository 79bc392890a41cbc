"""Action masks of a rollout, and the moves at random with which games by turns begin."""

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

    Attributes:
        forbidden: actions that were forbidden, bool[T, columns, logits].
        random_moves: most decisions of an agent at the start of a game that are made at random.
        random_left: how many of a game's are left, int64[columns].
    """

    def __init__(
        self,
        masks: Tensor,
        heads: tuple[int, ...],
        agent_group: AgentGroup,
        device: torch.device,
        random_moves: int = 0,
    ):
        self._masks, self._heads, self._agent_group, self._device = masks, heads, agent_group, device
        columns = masks.shape[1] * agent_group.width
        self.forbidden = torch.zeros(len(masks) - 1, columns, sum(heads), dtype=torch.bool, device=device)
        self.random_moves, self.random_left = random_moves, torch.zeros(columns, dtype=torch.int64, device=device)

    def at(self, t: int, envs: slice) -> Tensor:
        """Returns the action masks of step t, [columns, K]."""
        return self._agent_group.of_all(self._masks[t, envs], 0).to(self._device, non_blocking=True)

    def forbid(self, t: int, envs: slice) -> Tensor:
        """Stores which actions are forbidden at step t, and returns them, bool[columns, logits]."""
        return self.forbidden[t, self._agent_group.columns(envs)].copy_(forbidden(self.at(t, envs), self._heads))

    def draw(self, generator: torch.Generator) -> None:
        """Draws random moves of a rollout, and how many of them games have that begin in it."""
        steps, columns = self.forbidden.shape[:2]
        drawn = torch.rand(2, steps, columns, generator=generator, device=generator.device).to(self._device)
        self._which = drawn[0]
        numbers = (
            drawn[1, :, :: self._agent_group.width] * (self.random_moves + 1)
        ).long()  # the same for both players
        self._numbers = numbers.repeat_interleave(self._agent_group.width, 1)

    def make(self, t: int, envs: slice) -> Tensor:
        """Forbids all actions but one in decisions of step t that are made at random; returns what is forbidden."""
        columns = self._agent_group.columns(envs)
        closed, left = self.forbidden[t, columns], self.random_left[columns]
        place = (~closed).cumsum(1)
        which = (self._which[t, columns].unsqueeze(1) * place[:, -1:]).long() + 1  # of the allowed ones, from 1
        made = (left > 0) & (place[:, -1] > 1)
        left -= made.long()
        return closed.logical_or_((place != which) & made.unsqueeze(1))

    def note_ends(self, t: int, envs: Tensor | slice, ends: Tensor, width: int) -> None:
        """Begins games anew, as `RecurrentMemory.note_ends`."""
        numbers, left = (each.view(-1, width) for each in (self._numbers[t], self.random_left))
        left[envs] = torch.where(ends.to(self._device).unsqueeze(1), numbers[envs], left[envs])

    def waits(self, finals: FinalObservations | None) -> tuple[Tensor, Tensor]:
        """Returns where a single action is allowed: before each step and after the last, and in final observations.

        Returns:
            bool[T + 1, columns] and bool[T, columns].
        """
        closed = forbidden(self.at(len(self.forbidden), slice(None)), self._heads).unsqueeze(0)
        waits = self.are_closed(torch.cat((self.forbidden, closed)))
        last = waits.roll(-1, 0)
        if finals is not None and finals.masks is not None:
            last[finals.t, finals.columns] = self.are_closed(forbidden(finals.masks.to(self._device), self._heads))
        return waits, last[:-1]

    def are_closed(self, closed: Tensor) -> Tensor:
        """Returns where forbidden actions, bool[…, logits], leave no choice, bool[…]."""
        return closed.sum(-1) == sum(self._heads) - len(self._heads)

    def after(self, finals: FinalObservations | None) -> Tensor:
        """Returns the action masks of the observations after each step, [T · columns, K]."""
        actions = sum(self._heads)
        masks = self._agent_group.of_all(self._masks[1:]).to(self._device)[..., :actions]
        if finals is not None and finals.masks is not None:
            masks = torch.cat((masks, masks[:1]))  # a row for unused entries
            masks[finals.t, finals.columns] = finals.masks[:, :actions].to(self._device)
        return masks[: len(self.forbidden)].flatten(0, 1)
