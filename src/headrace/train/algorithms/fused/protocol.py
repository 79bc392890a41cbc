"""The interface of hand-written updates of off-policy algorithms."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from headrace.train.algorithms.optimiser import FlatAdam
from headrace.train.algorithms.rates import UpdateRates
from headrace.train.config.settings import Config
from headrace.train.storage.transitions import Transitions


@dataclass(frozen=True)
class Parts:
    """The parts of a policy that an update uses.

    Attributes:
        network, targets: the network, and the target networks.
        optimisers: name of a part of the network → its optimiser.
        noise: returns standard normal noise for `rows` actions, float32[rows, A].
    """

    config: Config
    network: Any
    targets: Any
    optimisers: dict[str, FlatAdam]
    distribution: Any
    noise: Callable[[int], Tensor]


class FusedUpdate(Protocol):
    """An update that writes gradients into the optimisers' buffers, without autograd, and makes their steps.

    The arguments of all methods are the transitions of a minibatch and the scheduled settings.
    """

    def improve_critics(self, batch: Transitions, rates: UpdateRates) -> Tensor:
        """Makes one gradient step of the critics; returns the algorithm's ``critic_statistics``, float32."""
        ...

    def improve_actor(self, batch: Transitions, rates: UpdateRates) -> Tensor:
        """Makes one gradient step of the actor; returns the algorithm's ``actor_statistics``, float32."""
        ...

    def improve_both(self, batch: Transitions, rates: UpdateRates) -> Tensor:
        """Makes both gradient steps; returns the statistics of both, float32."""
        ...


class SequentialFusedUpdate:
    """A `FusedUpdate` whose updates of critics and actor share no computation."""

    def __init__(self, parts: Parts):
        self.config, self.network, self.targets = parts.config, parts.network, parts.targets
        self.optimisers, self.distribution, self.noise = parts.optimisers, parts.distribution, parts.noise

    def improve_critics(self, batch: Transitions, rates: UpdateRates) -> Tensor:
        """Makes one gradient step of the critics; returns the algorithm's ``critic_statistics``, float32."""
        raise NotImplementedError

    def improve_actor(self, batch: Transitions, rates: UpdateRates) -> Tensor:
        """Makes one gradient step of the actor, if there is one; returns ``actor_statistics``, float32."""
        raise NotImplementedError

    def improve_both(self, batch: Transitions, rates: UpdateRates) -> Tensor:
        """Makes one gradient step after the other; returns the statistics of both, float32."""
        return torch.cat((self.improve_critics(batch, rates), self.improve_actor(batch, rates)))
