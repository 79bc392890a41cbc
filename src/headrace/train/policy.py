"""A policy: its seat, its network, and what learns it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from headrace.errors import StateError
from headrace.train import checkpoint as checkpoints
from headrace.train.config import Config
from headrace.train.distributions import distribution_for
from headrace.train.metrics import EpisodeTracker
from headrace.train.networks import make_network
from headrace.train.optimiser import FlatAdam
from headrace.train.ppo import Samples, update
from headrace.train.seats import Seat


class Policy:
    """One network, the agents that it plays, and its optimiser.

    Attributes:
        name: as in ``config.policies``; empty where the environment has one agent.
        config: the run's settings, with those of this policy.
        network, forward: the module, and what is called (compiled, if so asked).
        tracker: episodes as this policy's agents fared in them.
        losses: the last update's statistics; None before.
    """

    def __init__(self, name: str, config: Config, seat: Seat, device: torch.device):
        self.name, self.config, self.seat = name, config, seat
        self.distribution = distribution_for(seat.action)
        self.network = make_network(config, seat.observation, self.distribution).to(device)
        self.optimiser = FlatAdam(self.network, epsilon=config.adam_epsilon)
        forward = torch.compile(self.network) if config.compile else self.network
        self.forward: Any = forward
        self.tracker = EpisodeTracker(config.num_envs, config.stop_episodes)
        self.losses: Tensor | None = None

    def learn(self, samples: Samples, step: int, generator: torch.Generator) -> None:
        """All updates from one rollout, ``step`` agent steps into the run; nothing for a frozen policy."""
        if self.config.frozen:
            return
        config = self.config.at(step)
        rate = config.learning_rate
        if config.anneal_learning_rate and "learning_rate" not in self.config.schedules:
            rate *= max(0.0, 1.0 - step / config.total_steps)
        self.losses = update(self.forward, self.optimiser, self.distribution, config, samples, rate, generator)

    def prefix(self, what: str) -> str:
        """The name of a group of tensors in a checkpoint."""
        return f"{what}.{self.name}" if self.name else what

    def model(self) -> dict[str, Tensor]:
        """The network's part of a checkpoint."""
        return checkpoints.prefixed(self.prefix("network"), self.network.state_dict())

    def load_model(self, model: Mapping[str, Tensor]) -> None:
        """Copy a checkpoint's parameters into the network, in place.

        Raises:
            StateError: they do not fit.
        """
        try:
            self.network.load_state_dict(checkpoints.group(self.prefix("network"), model))
        except (KeyError, RuntimeError) as error:
            raise StateError(f"the checkpoint does not fit this configuration: {error}") from error
