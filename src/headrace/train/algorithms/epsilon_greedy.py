"""What policies of action values have in common: discrete actions, of which a share is random."""

from __future__ import annotations

from collections.abc import Mapping

import gymnasium as gym
import torch
from torch import Tensor

from headrace.errors import OptionError
from headrace.train.algorithms.policy import Policy
from headrace.train.modules.exploration import EpsilonGreedy
from headrace.train.settings.rollouts import Exploration


class EpsilonGreedyPolicy(Policy):
    """A policy whose action parameters are action values."""

    def make_distribution(self, instead: str) -> EpsilonGreedy:
        """Returns the distribution of actions, whose share of random ones changes during the run.

        Args:
            instead: the end of the error's message: what is for other actions.

        Raises:
            OptionError: actions are not `Discrete`.
        """
        config, space = self.config, self.agent_group.action
        if not isinstance(space, gym.spaces.Discrete):
            raise OptionError(f"{type(self).__name__} needs Discrete actions, not {space}; {instead}")
        share = torch.tensor(config.epsilon_end if config.frozen else config.epsilon_start, device=self.device)
        return EpsilonGreedy(int(space.n), int(space.start), share, bool(self.heads))

    def random_share(self, step: int) -> float:
        """Returns the share of random actions at agent step `step`."""
        exploration = self.config.get(Exploration)
        assert exploration is not None
        return exploration.at(step, self.config.total_steps)

    def worth(self, inputs: Tensor, params: Tensor, values: Tensor) -> Tensor:
        """As `Policy.worth`: the value of the best action."""
        return self.in_rewards(params.amax(1))

    def state(self) -> dict[str, Tensor]:
        return super().state() | {self.prefix("epsilon"): self.distribution.epsilon}

    def load_state(self, saved: Mapping[str, Tensor]) -> None:
        super().load_state(saved)
        self.distribution.epsilon.copy_(saved[self.prefix("epsilon")])
