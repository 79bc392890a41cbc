"""The two parts in which runs differ: where experience comes from, and what learns from it.

A `Source` is a pool in this process (`headrace.train.runners.pool_source`) or workers
(`headrace.train.runners.worker_source`). A `Learner` learns from each rollout of that pool or from a replay of its
steps (`headrace.train.runners.turn_learners`); with workers, from their rollouts or from the replay that they fill
(`headrace.train.runners.worker_learners`).

Methods without a body in these protocols do nothing unless a class has its own.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol

from torch import Tensor

from headrace.train.algorithms.policy import Policy
from headrace.train.logging.episode_tracker import EpisodeTracker
from headrace.train.play.evaluate import Judged
from headrace.train.play.ladder import Ladder
from headrace.train.runs.checkpoint import Checkpoint
from headrace.train.runs.events import Kind


class News(NamedTuple):
    """A text for the dashboard, which is also an event of the run unless it has no kind."""

    text: str
    kind: Kind | None = "warning"


class Scored(NamedTuple):
    """A mean return, which only others of the same stage compare with.

    Attributes:
        model: returns the networks that reached it.
        step: the agent step at which they were learnt.
        stage: the step with which the curriculum's stage began in whose episodes; 0 for evaluations of the final task.
    """

    judged: Judged
    model: Callable[[], Mapping[str, Tensor]]
    step: int
    stage: int = 0


class Figures(NamedTuple):
    """Numbers for lines of metrics and the dashboard.

    Attributes:
        counts: counts beside agent steps, such as updates.
        split: kind of work → seconds spent on it since training began; those of the same name add up.
        speeds: name → rate per second; None before the rate is known.
        details: further entries of a line.
    """

    counts: Mapping[str, int] = {}
    split: Mapping[str, float] = {}
    speeds: Mapping[str, float | None] = {}
    details: Mapping[str, Any] = {}


def model_of(policies: Iterable[Policy]) -> dict[str, Tensor]:
    return {name: tensor for policy in policies for name, tensor in policy.model().items()}


class Source(Protocol):
    """Steps environments with the run's policies.

    Attributes:
        speeds_name: the name of ``speeds`` in a line of metrics.
        steps: agent steps of the run so far, in all environments together.
        news: what has happened since it was last read, oldest first.
        trackers: returns and lengths of the episodes of each policy.
        evaluation: the evaluator's last result, with ``return`` and ``step``; empty without one.
        ladder: the Elo of self-play by turns; None in other runs.
        saves_environments: whether checkpoints hold environments' states, so that a resumed run continues their
            episodes.
    """

    speeds_name: str
    policies: Sequence[Policy]
    trackers: Sequence[EpisodeTracker]
    steps: int
    news: deque[News]
    evaluation: Mapping[str, float] = {}
    ladder: Ladder | None = None
    saves_environments: bool = True

    def running(self, interrupt: object) -> AbstractContextManager[None]:
        """Returns the context of the loop, in which workers run; ``interrupt`` becomes true once the run is to end."""
        ...

    def collect(self) -> list[Any]:
        """Returns a rollout's training data for each policy; nothing where workers collect."""
        ...

    def advance(self) -> None:
        """Completes an iteration, after the updates."""

    def awaits_evaluation(self) -> bool:
        """Returns whether an evaluator has not answered with the last weights yet."""
        return False

    def finish(self) -> None:
        """Ends workers."""

    def check_finite(self) -> None:
        """Raises `NotFiniteError` where the last rollout holds a reward or an observation that is not finite."""

    def when(self) -> str:
        """Returns a text on the time of the last updates, for errors."""
        ...

    def score(self) -> Scored | None:
        """Returns the newest mean return; None before it is known."""
        ...

    def figures(self) -> Figures: ...

    def state(self) -> dict[str, Tensor]:
        """Returns the tensors of a checkpoint, beside those of the learner."""
        ...

    def load(self, point: Checkpoint, continues: bool) -> None:
        """Restores a checkpoint, after the learner; unless ``continues``, new episodes begin in all environments."""

    def close(self) -> None:
        """Closes pools, and ends workers."""


class Learner(Protocol):
    """Makes updates.

    Attributes:
        continues: whether the checkpoint that was loaded held all that learning continues from, such as a replay.
    """

    continues: bool = True

    def begin(self, interrupt: object) -> None:
        """Called before the first step; ``interrupt`` becomes true once the run is to end."""

    def learn(self, rollouts: list[Any], step: int) -> None:
        """Makes the updates that are due; with workers those of the next fraction of a second.

        Args:
            rollouts: what `Source.collect` returned.
            step: agent steps of the run before the rollout.
        """

    def is_behind(self) -> bool:
        """Returns whether updates are still to come though all steps of the run are taken."""
        return False

    def prepare(self) -> None:
        """Prepares a checkpoint, in every process: writes the files that its counters refer to."""

    def publish(self) -> None:
        """Publishes the present weights to workers."""

    def settle(self) -> None:
        """Reads the newest weights and optimiser state of another process that learns, if there is one."""

    def report(self) -> None:
        """Stores the statistics of the updates since the last call in the policies."""

    def figures(self) -> Figures: ...

    def counters(self) -> dict[str, Any]:
        """Returns what a checkpoint holds as JSON."""
        ...

    def state(self) -> dict[str, Tensor]:
        """Returns the tensors of a checkpoint, beside networks and optimisers."""
        ...

    def load(self, point: Checkpoint, step: int) -> None:
        """Restores a checkpoint of ``step`` agent steps, whose networks and optimisers are restored already."""

    def write(self, counters: Mapping[str, Any]) -> None:
        """Writes what a checkpoint with these counters needs beside it, such as a replay, in whichever thread."""

    def close(self) -> None:
        """Frees the memory that it shares with workers."""
