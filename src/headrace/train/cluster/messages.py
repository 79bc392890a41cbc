"""The messages between the coordinator and the actors: orders, weights and answers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from torch import Tensor

from headrace.train.cluster.code import Code
from headrace.train.processes.counters import Episodes
from headrace.train.processes.start import Report
from headrace.train.storage.blocks import Rollout, Rows
from headrace.train.storage.layout import StepLayout


@dataclass(frozen=True)
class Weights:
    """One version of the weights; all actors of a node read one copy.

    Attributes:
        vector: the actor's parameters, float32[P].
        extras: further numbers, float64[E].
    """

    version: int
    vector: np.ndarray
    extras: np.ndarray

    @property
    def nbytes(self) -> int:
        """The size of the arrays in bytes."""
        return self.vector.nbytes + self.extras.nbytes


class ReceivedWeights:
    """The newest weights that an actor has received; a `headrace.train.processes.weight_buffer.WeightSource`."""

    def __init__(self) -> None:
        self._newest: Weights | None = None
        self._seen = 0

    @property
    def version(self) -> int:
        """The newest version; 0 before the first."""
        return 0 if self._newest is None else self._newest.version

    def receive(self, weights: Weights) -> None:
        """Replaces the newest weights; may be called in another thread than `read`."""
        self._newest = weights

    def read(self, into: Tensor, extras: Tensor | None = None) -> int | None:
        """Copies the newest weights, unless they were read before.

        Args:
            into: receives the vector, float32[P].
            extras: receives the extras, float64[E]; None to ignore them.

        Returns:
            The version, or None if there is no newer one.
        """
        newest = self._newest
        if newest is None or newest.version == self._seen:
            return None
        into.detach().numpy()[...] = newest.vector
        if extras is not None:
            extras.numpy()[...] = newest.extras
        self._seen = newest.version
        return newest.version


@dataclass(frozen=True)
class ActorStart:
    """The settings and the state from which an actor begins.

    Attributes:
        kind: ``"rows"``, ``"rollouts"`` or ``"evaluator"``.
        settings: a function that makes the run's settings, and its arguments, of which the first is values by name.
        number, restarts: the sampler's number, and the number of times that it was started before.
        begun, steps: agent steps of the run before it was resumed, and of this sampler so far.
        layout: the layout of the ring, for a sampler of rows.
        slots: the arguments of `Rollouts`, for a sampler of rollouts.
    """

    kind: str
    settings: tuple[Any, tuple[Any, ...]]
    code: Code
    number: int
    restarts: int
    begun: int
    steps: int
    version: str
    layout: StepLayout | None = None
    slots: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Order:
    """The limits of an actor until its next order.

    Attributes:
        others: agent steps of the run's other samplers.
        limit: agent steps that this sampler may reach, including the steps of its earlier actors.
        waiting: the number of its rollouts that the learner has not read.
        least: the minimum time before an answer, in seconds, so that answers are not many and small.
        patience: the maximum time before an answer, even if nothing has been collected, in seconds.
    """

    others: int
    limit: int
    waiting: int
    least: float
    patience: float


@dataclass(frozen=True)
class Answer:
    """An actor's answer to an order.

    Attributes:
        version: the version of the weights that it has.
        steps: the sampler's agent steps, including those of its earlier actors.
        seconds: this actor's seconds in each of `headrace.train.processes.counters.PARTS`, float64[4].
        rests: the number of times that this actor has slept while it waited.
        episodes: the episodes that ended since the last answer.
        block: the rows or the rollout collected since the last answer; None if there are none.
        found: weights that were evaluated since the last answer, with the results as extras; None if there are none.
        played: the number of episodes that this actor has played as evaluator.
        failure: the exception that ended the sampler; None while it runs.
    """

    node: str
    version: int
    steps: int
    seconds: np.ndarray
    rests: int
    episodes: Episodes
    block: Rows | Rollout | None = None
    found: Weights | None = None
    played: int = 0
    failure: Report | None = field(default=None)
