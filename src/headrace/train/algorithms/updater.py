"""Updates from a replay, called one after the other; on CUDA each is the replay of a captured graph."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Protocol

import torch
from torch import Tensor

from headrace.train.algorithms.graphs import Graph
from headrace.train.algorithms.rates import UpdateRates
from headrace.train.storage.transitions import Transitions


class Updatable(Protocol):
    """The interface of a policy for an `Updater`; `headrace.train.algorithms.off_policy.OffPolicy` implements it.

    Attributes:
        generator: the source of the noise in updates.
    """

    device: torch.device
    generator: torch.Generator

    def actor_is_due(self) -> bool:
        """Counts one more update, and returns whether the actor learns in it."""
        ...

    def improve_with(self, batch: Transitions, rates: UpdateRates, actor: bool) -> Tensor:
        """Makes one update.

        Returns:
            The algorithm's statistics, float32[S].
        """
        ...


class Updater:
    """A function that updates a policy from the batches that ``read`` returns.

    On CUDA there are two graphs, one for updates with the actor and one for those without.

    Args:
        read: returns a batch; for graphs, always with the same shapes, in the same memory.
        improve: makes an update, or the half of one that this process makes; by default the policy's `improve_with`.
        due: returns whether the actor learns in the next update; by default the policy's `actor_is_due`.
    """

    def __init__(
        self,
        policy: Updatable,
        read: Callable[[], Transitions],
        graphs: bool = True,
        improve: Callable[[Transitions, UpdateRates, bool], Tensor] | None = None,
        due: Callable[[], bool] | None = None,
    ):
        self._policy, self._read = policy, read
        self._improve, self._due = improve or policy.improve_with, due or policy.actor_is_due
        self._given: UpdateRates | None = None
        self._rates = UpdateRates(0.0, 0.0, 0.0)
        self._rate_values = torch.zeros(len(UpdateRates._fields), device=policy.device)
        self._graphs = {
            actor: Graph(partial(self._once, actor), policy.device, graphs, (policy.generator,))
            for actor in (False, True)
        }

    def __call__(self, rates: UpdateRates) -> Tensor:
        """Makes one update at these rates; returns its statistics, float32, which the next call may overwrite."""
        if rates != self._given:
            self._given = self._rates = rates
            if Graph.possible(self._policy.device):
                self._rate_values.copy_(torch.tensor(rates), non_blocking=True)
                self._rates = UpdateRates(*self._rate_values.unbind())
        return self._graphs[self._due()]()

    @torch.inference_mode()
    def _once(self, actor: bool) -> Tensor:
        return self._improve(self._read(), self._rates, actor)
