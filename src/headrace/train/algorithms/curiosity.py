"""An exploration bonus: a reward for observations that have been rare so far.

Random network distillation (Burda et al. 2018, arXiv:1810.12894). One critic values the sum of both rewards. The bonus
of a step that ends an episode is 0, as a rollout does not hold the observation that was reached. The paper has two
critics, of which the one for the bonus ignores ends of episodes.
"""

from __future__ import annotations

from collections.abc import Mapping

import gymnasium as gym
import torch
from torch import Tensor, nn

from headrace.train.algorithms.optimiser import FlatAdam
from headrace.train.modules.cnn import trunk_for
from headrace.train.modules.layers import initialised
from headrace.train.modules.network import input_size, uses_images
from headrace.train.modules.normalisation import ObservationNormaliser, RewardScaler
from headrace.train.modules.policy_mapping import AgentGroup
from headrace.train.processes.process_group import ProcessGroup
from headrace.train.runs import checkpoint as checkpoints
from headrace.train.settings.config import Config

FEATURES = 64
LIMIT = 5.0
"""standard deviations to which inputs are clipped, so that rare large values do not dominate the errors"""


class Curiosity:
    """A fixed random network, a network that learns to predict its outputs, and the bonus: the error of the prediction.

    Attributes:
        statistics: names of the elements of `measured`.
        measured: mean bonus of a step, and mean loss, of the last rollout, float32[2].
        optimiser: the optimiser of the network that learns.
    """

    statistics = ("bonus", "curiosity_loss")

    def __init__(self, config: Config, agent_group: AgentGroup, device: torch.device):
        self.config, space = config, agent_group.observation
        self.images = uses_images(config.network, space)
        self.target = _network(config, space).to(device).requires_grad_(False)
        self.predictor = _network(config, space).to(device)
        self.optimiser = FlatAdam(self.predictor, epsilon=config.adam_epsilon)
        self.scaler = RewardScaler(config.num_envs * agent_group.width, config.gamma, device)
        self.normaliser = None if self.images else ObservationNormaliser(input_size(space), device)
        self.measured = torch.zeros(2, device=device)
        self._process_group: ProcessGroup | None = None

    @torch.inference_mode()
    def bonus(self, inputs: Tensor, over: Tensor, present: Tensor | None = None) -> Tensor:
        """Returns the bonus of each step of a rollout, float32[T, columns], and updates the statistics.

        Args:
            inputs: network inputs before each step and after the last, [T + 1, columns, …].
            over: whether an episode ended with a step, bool[T, columns]; its bonus is 0 then.
            present: whether the agent was in the game, bool[T, columns]; None if all agents were.
        """
        found = inputs[1:]
        if self.normaliser is not None:
            self.normaliser.update(found.flatten(0, 1))
        error = self._errors(found.flatten(0, 1)).view(over.shape).masked_fill(over, 0.0)
        if present is not None:
            error = error * present
        scaled = self.scaler(error, torch.zeros_like(over), present)
        self.measured[0] = scaled.mean()
        return scaled * self.config.curiosity

    def join_group(self, process_group: ProcessGroup) -> None:
        """Copies the networks of rank 0, and averages gradients and statistics over the group from now on."""
        self._process_group, self.optimiser.reduce = process_group, process_group.average
        for known in (self.scaler, self.normaliser):
            if known is not None:
                known.statistics.gather = process_group.all_gather
        for tensor in (self.optimiser.parameters, *self.target.state_dict().values()):
            process_group.broadcast(tensor)

    def learn(self, inputs: Tensor, learning_rate: float | Tensor, generator: torch.Generator) -> None:
        """Trains once on the observations of a rollout, in minibatches if the algorithm has them.

        Args:
            inputs: network inputs, [M, …].
            learning_rate: the learning rate, a number or a 0-d tensor.
        """
        count = len(inputs)
        size = min(vars(self.config).get("minibatch_size", count), count)
        order = torch.randperm(count, device=generator.device, generator=generator)[: count // size * size]
        losses = []
        for rows in order.to(inputs.device).view(-1, size):
            self.optimiser.gradient.zero_()
            loss = self._errors(inputs[rows].clone()).mean()
            loss.backward()
            self.optimiser.step(learning_rate, 0.5)
            losses.append(loss.detach())
        self.measured[1] = torch.stack(losses).mean()
        if self._process_group is not None:
            self._process_group.average(self.measured, 1.0)

    def _errors(self, inputs: Tensor) -> Tensor:
        """Returns half the mean squared difference of the two networks' outputs for each row, float32[M]."""
        if self.normaliser is not None:
            inputs = self.normaliser(inputs, torch.empty_like(inputs)).clamp_(-LIMIT, LIMIT)
        with torch.no_grad():
            target = self.target(inputs)
        return (self.predictor(inputs) - target).square().mean(1) / 2

    # -- checkpoints -----------------------------------------------------------------------------

    def state(self) -> dict[str, Tensor]:
        state = {"measured": self.measured, "predictor": self.optimiser.parameters}
        state |= checkpoints.prefixed("target", self.target.state_dict())
        state |= checkpoints.prefixed("optimiser", self.optimiser.state())
        state |= checkpoints.prefixed("scaler", self.scaler.state())
        return state if self.normaliser is None else state | checkpoints.prefixed("seen", self.normaliser.state())

    @torch.no_grad()
    def load(self, saved: Mapping[str, Tensor]) -> None:
        self.measured.copy_(saved["measured"])
        self.optimiser.parameters.copy_(saved["predictor"])
        self.target.load_state_dict(checkpoints.group("target", saved))
        self.optimiser.load(checkpoints.group("optimiser", saved))
        self.scaler.load(checkpoints.group("scaler", saved))
        if self.normaliser is not None:
            self.normaliser.load(checkpoints.group("seen", saved))


def _network(config: Config, space: gym.Space) -> nn.Module:
    """Returns a network that maps inputs [B, …] to float32[B, `FEATURES`]."""
    if uses_images(config.network, space):
        trunk = trunk_for(space, config.trunk, config.bf16)
        return nn.Sequential(trunk, initialised(nn.Linear(trunk.features, FEATURES), 1.0))
    first, second = nn.Linear(input_size(space), FEATURES), nn.Linear(FEATURES, FEATURES)
    return nn.Sequential(initialised(first), nn.ReLU(), initialised(second), nn.ReLU(), nn.Linear(FEATURES, FEATURES))
