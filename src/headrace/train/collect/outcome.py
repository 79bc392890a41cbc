"""What a rollout ends with: rewards, ends of episodes, and the last observations of truncated ones."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class FinalObservations:
    """The final observations of K truncated episodes.

    Attributes:
        t: time step at which each was truncated, int64[K]; T, the rollout's length, marks an unused entry.
        columns: column of each in the rollout buffer, int64[K].
        observations: [K, …], in the dtype of the agent group's observation array.
        masks: action masks, [K, …]; None without masks.
    """

    t: Tensor
    columns: Tensor
    observations: Tensor
    masks: Tensor | None = None


@dataclass(frozen=True)
class Outcome:
    """Rewards and ends of a rollout for the columns of one agent group, on the policy's device.

    Attributes:
        rewards: float32[T, columns].
        terminated: bool[T, columns]; the episode terminated, or the agent left it.
        truncated: bool[T, columns]; the episode was truncated, or the agent alone was.
        present: bool[T, columns], whether the agent was in the game before the step; None if all agents were.
        final_observations: final observations of truncated episodes; None if no episode was truncated.
    """

    rewards: Tensor
    terminated: Tensor
    truncated: Tensor
    present: Tensor | None
    final_observations: FinalObservations | None
