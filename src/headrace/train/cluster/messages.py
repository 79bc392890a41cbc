"""What the process beside the learner and the actors tell each other: orders, weights, and what came of them."""

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
    """One version of the weights: float32[P], with extras float64[E]; many read the one copy on their node."""

    version: int
    vector: np.ndarray
    extras: np.ndarray

    @property
    def nbytes(self) -> int:
        """The size of the arrays in bytes."""
        return self.vector.nbytes + self.extras.nbytes


class ReceivedWeights:
    """The newest weights in an actor, read as those of `headrace.train.processes.weight_buffer.WeightBuffer`."""

    def __init__(self) -> None:
        self._newest: Weights | None = None
        self._seen = 0

    @property
    def version(self) -> int:
        """The newest version; 0 before the first."""
        return 0 if self._newest is None else self._newest.version

    def receive(self, weights: Weights) -> None:
        """Have these read from now on; called by another thread than `read`."""
        self._newest = weights

    def read(self, into: Tensor, extras: Tensor | None = None) -> int | None:
        """Copy the newest vector, and its extras; returns its version, or None if there is no newer one."""
        newest = self._newest
        if newest is None or newest.version == self._seen:
            return None
        into.detach().numpy()[...] = newest.vector
        if extras is not None:
            extras.numpy()[...] = newest.extras
        self._seen = newest.version
        return newest.version


@dataclass(frozen=True)
class Beginning:
    """What an actor needs to begin.

    Attributes:
        kind: ``"rows"``, ``"rollouts"`` or ``"evaluator"``.
        settings: how to make the run's settings: a function, and its arguments, values by name first.
        code: the user's own files.
        number, life: the sampler's number, and how often it was started before.
        begun, steps: agent steps of the run before it was resumed, and of this sampler so far.
        version: of Headrace.
        layout: of the ring that a sampler of rows fills.
        slots: for a sampler of rollouts, the arguments of its slots.
    """

    kind: str
    settings: tuple[Any, tuple[Any, ...]]
    code: Code
    number: int
    life: int
    begun: int
    steps: int
    version: str
    layout: StepLayout | None = None
    slots: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Order:
    """What an actor may do until the next one.

    Attributes:
        others: agent steps of the run without this sampler's.
        limit: this sampler's agent steps, all lives, that it may reach.
        waiting: its rollouts that the learner has not read yet.
        least: seconds after which to answer where all that is allowed is done; answers would be many and small sooner.
        patience: seconds after which to answer, with whatever there is.
    """

    others: int
    limit: int
    waiting: int
    least: float
    patience: float


@dataclass(frozen=True)
class Answer:
    """What became of an order.

    Attributes:
        node: name of the actor's node.
        version: of the newest weights that it has.
        steps: the sampler's agent steps, all lives.
        seconds: time spent on each of `headrace.train.processes.counters.PARTS` in this life, float64[4].
        rests: polls while it waited, in this life.
        episodes: those that ended.
        block: what it collected since its last answer.
        found: weights that the evaluator has evaluated, with its results as extras.
        played: episodes that the evaluator has played in this life.
        failure: what ended it.
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
