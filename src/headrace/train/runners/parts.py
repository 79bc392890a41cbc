"""The two parts in which runs differ: where experience comes from, and what learns from it.

A `Source` is a pool in this process (`headrace.train.runners.pool_source`) or workers
(`headrace.train.runners.worker_source`). A `Learner` learns from each rollout of that pool
(`headrace.train.runners.policy_learner`) or from a replay of its steps (`headrace.train.runners.step_replay_learner`);
with workers, from their rollouts (`headrace.train.runners.rollout_learner`) or from the replay that they fill
(`headrace.train.runners.replay_learner`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, ClassVar, NamedTuple

from torch import Tensor

from headrace.train.algorithms.policy import Policy
from headrace.train.config.settings import Config
from headrace.train.play.judging import Judged
from headrace.train.processes.counters import Counters
from headrace.train.processes.supervisor import Supervisor
from headrace.train.runs.checkpoint import Checkpoint
from headrace.train.runs.events import Kind
from headrace.train.workers.policy_copy import PolicyCopy


class News(NamedTuple):
    """A text for the dashboard, which is also an event of the run unless it has no kind."""

    text: str
    kind: Kind | None = "warning"


def model_of(policies: Iterable[Policy]) -> dict[str, Tensor]:
    """Returns the networks of all policies, as in a checkpoint."""
    return {name: tensor for policy in policies for name, tensor in policy.model().items()}


class Scored(NamedTuple):
    """A mean return.

    Attributes:
        model: returns the networks that reached it, as in a checkpoint.
        step: agent steps of the run when they were learnt.
    """

    judged: Judged
    model: Callable[[], Mapping[str, Tensor]]
    step: int


class Source:
    """Steps environments with the run's policies.

    Attributes:
        speeds_name: the name of `speeds` in a line of metrics.
        steps: agent steps of the run so far, in all environments together.
        news: what has happened since it was last read, oldest first.
        evaluation: the evaluator's last result, with ``return`` and ``step``; empty without one.
        saves_environments: whether checkpoints hold environments' states, so that a resumed run continues their
            episodes.
    """

    speeds_name: ClassVar[str]
    policies: Sequence[Policy]
    steps: int
    evaluation: Mapping[str, float] = {}
    saves_environments = True

    def __init__(self) -> None:
        self.news = deque[News]()

    def running(self, interrupt: object) -> AbstractContextManager[None]:
        """Returns the context of the loop, in which workers run; ``interrupt`` becomes true once the run is to end."""
        raise NotImplementedError

    def collect(self) -> list[Any]:
        """Returns a rollout's training data for each policy; nothing where workers collect."""
        raise NotImplementedError

    def advance(self) -> None:
        """Completes an iteration, after the updates."""
        raise NotImplementedError

    def awaits_evaluation(self) -> bool:
        """Returns whether all steps are done, but the evaluator has not answered with the last weights yet."""
        return False

    def finish(self) -> None:
        """Ends workers."""

    def check_finite(self) -> None:
        """Raises `NotFiniteError` where the last rollout holds a reward or an observation that is not finite."""

    def when(self) -> str:
        """Returns a text on the time of the last updates, for errors."""
        raise NotImplementedError

    def score(self) -> Scored | None:
        """Returns the newest mean return; None before it is known."""
        raise NotImplementedError

    def split(self) -> dict[str, float]:
        """Returns kind of work → seconds spent on it since training began."""
        raise NotImplementedError

    def speeds(self) -> dict[str, float | None]:
        """Returns name → rate per second; None before the rate is known."""
        raise NotImplementedError

    def details(self) -> dict[str, Any]:
        """Returns further entries of a line of metrics."""
        raise NotImplementedError

    def state(self) -> dict[str, Tensor]:
        """Returns the tensors of a checkpoint, beside those of the learner."""
        raise NotImplementedError

    def load(self, point: Checkpoint, continues: bool) -> None:
        """Restores a checkpoint; unless ``continues``, new episodes begin in all environments."""
        raise NotImplementedError

    def close(self) -> None:
        """Closes pools, and ends workers."""
        raise NotImplementedError


class Learner:
    """Makes updates.

    Attributes:
        continues: whether the checkpoint that was loaded held all that learning continues from, such as a replay.
    """

    continues = True

    def begin(self, interrupt: object) -> None:
        """Called before the first step; ``interrupt`` becomes true once the run is to end."""

    def learn(self, rollouts: list[Any], step: int) -> None:
        """Makes the updates that are due; with workers those of the next fraction of a second.

        Args:
            rollouts: what `Source.collect` returned.
            step: agent steps of the run before the rollout.
        """
        raise NotImplementedError

    def finished(self, step: int) -> bool:
        """Returns whether all steps of the run, of which ``step`` were taken, and all updates from them are done."""
        raise NotImplementedError

    def prepare(self) -> None:
        """Prepares a checkpoint, in every process: writes the files that its counters refer to."""

    def publish(self) -> None:
        """Publishes the present weights to workers."""

    def settle(self) -> None:
        """Reads the newest weights and optimiser state of another process that learns, if there is one."""

    def report(self) -> None:
        """Stores the statistics of the updates since the last call in the policies."""

    def set_rates(self, config: Config) -> None:
        """Takes other schedules of settings; raises `OptionError` where they cannot change."""

    def split(self) -> dict[str, float]:
        """As `Source.split`; seconds of the same name add up."""
        raise NotImplementedError

    def speeds(self) -> dict[str, float | None]:
        """As `Source.speeds`."""
        return {}

    def counts(self) -> dict[str, int]:
        """Returns the counts of a line of metrics beside agent steps, such as updates; a checkpoint holds them, too."""
        raise NotImplementedError

    def details(self) -> dict[str, Any]:
        """As `Source.details`."""
        return {}

    def counters(self) -> dict[str, Any]:
        """Returns what else a checkpoint holds as JSON."""
        return {}

    def state(self) -> dict[str, Tensor]:
        """As `Source.state`."""
        raise NotImplementedError

    def load(self, point: Checkpoint, step: int) -> None:
        """Restores a checkpoint of ``step`` agent steps, whose networks and optimisers are restored already."""
        raise NotImplementedError

    def write(self, counters: Mapping[str, Any]) -> None:
        """Writes what a checkpoint with these counters needs beside it, such as a replay, in whichever thread."""

    def close(self) -> None:
        """Frees the memory that it shares with workers."""


class SamplerLearner(Learner):
    """Learns from what samplers write.

    Args:
        shared: the counters that the run shares with its workers.
        extras: further numbers that are published beside the weights.

    Attributes:
        memory: what samplers write to, a `StepReplay` or `Rollouts`.
        weights: the buffer in which it publishes weights for samplers and the evaluator.
    """

    memory: Any

    def __init__(self, policy: Policy, shared: Counters, extras: int = 0):
        self.policy, self.shared = policy, shared
        self.policy_copy = PolicyCopy(policy)
        self.weights = self.policy_copy.buffer(extras)

    def sampler(self, number: int) -> tuple[Callable[..., None], tuple[Any, ...]]:
        """Returns a sampler's main function, and its arguments but for the last, the number of earlier starts."""
        raise NotImplementedError

    def start_workers(self, supervisor: Supervisor) -> None:
        """Starts further processes that learn."""
