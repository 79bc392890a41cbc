"""The Ray actor: runs a sampler or the evaluator in a thread, and answers the coordinator's orders in another.

The sampler is the same as on one machine. It writes to shared arrays in the actor's process, and the actor sends the
rows or the rollout written since its last answer. The sampler waits when the learner's memory has no room for further
steps: at its limit of steps, at the end of its ring, or while its rollouts have not been read.
"""

from __future__ import annotations

import dataclasses
import threading
import time
from typing import Any

import torch

from headrace.errors import WorkerError
from headrace.pool.executors.processes.task import spaces_read_once
from headrace.train.cluster.messages import ActorStart, Answer, Order, ReceivedWeights, Weights
from headrace.train.config.settings import Config
from headrace.train.processes.counters import Counters
from headrace.train.processes.start import Report
from headrace.train.storage.blocks import Rollout, Rows, ring_of, take_rollout, take_rows
from headrace.train.storage.rollout_slots import Rollouts, Slot
from headrace.train.storage.writer import StepWriter
from headrace.version import __version__

LOOK = 1e-3  # seconds between two checks of the sampler's progress


class Actor:
    """One sampler or evaluator on a node of the cluster. Ray creates it, and calls its methods one at a time.

    Args:
        beginning: the run's settings and the state from which it begins.
    """

    def __init__(self, beginning: ActorStart):
        self._beginning, self._node = beginning, _node()
        self._counters: Counters | None = None
        self._weights, self._place = ReceivedWeights(), 0
        self._job: Any = None
        self._report: Report | None = None
        self._thread: threading.Thread | None = None

    def exchange(self, order: Order, weights: Weights | None = None) -> Answer:
        """Executes an order, and returns the results since the last one.

        Args:
            order: the steps that the sampler may reach, and the seconds after which to answer.
            weights: newer weights; None to keep the present ones.
        """
        if weights is not None:
            self._weights.receive(weights)
        if self._thread is None:
            self._begin(order)
        self._admit(order)
        now = time.monotonic()
        early, until = now + order.least, now + order.patience
        while now < until and self._report is None and not (now >= early and self._job and self._job.has_enough(order)):
            time.sleep(LOOK)
            now = time.monotonic()
        return self._answer()

    def stop(self) -> None:
        """Stops the sampler and waits until it has closed its environments."""
        if self._counters is not None and self._thread is not None:
            self._counters.stop()
            self._thread.join()

    def _begin(self, order: Order) -> None:
        beginning = self._beginning
        self._counters = counters = Counters(beginning.number + 2)  # the last counts the steps of all other samplers
        self._place = beginning.number
        counters.begun[0], counters.steps[self._place] = beginning.begun, beginning.steps
        self._admit(order)
        self._thread = threading.Thread(target=self._live, name="sampler", daemon=True)
        self._thread.start()

    def _admit(self, order: Order) -> None:
        counters = self._counters
        assert counters is not None
        counters.steps[-1] = order.others  # before the limit: a sampler that reads between the two waits
        counters.allowed[0] = order.others + order.limit
        if self._job is not None:
            self._job.admit(order)

    @spaces_read_once()
    def _live(self) -> None:
        try:
            beginning = self._beginning
            if beginning.version != __version__:
                raise WorkerError(
                    f"node {self._node} has Headrace {__version__}, the learner {beginning.version}: "
                    "install the same on all nodes"
                )
            place = beginning.code.unpack()
            beginning.code.import_script(place)
            make, (values, *rest) = beginning.settings
            config = make(beginning.code.settings(values, place), *rest)
            assert self._counters is not None
            self._job = JOBS[beginning.kind](config, beginning, self._weights, self._counters)
            self._job.run()
        except BaseException as error:
            self._report = Report.of(error)

    def _answer(self) -> Answer:
        counters, place = self._counters, self._place
        assert counters is not None
        # read before the rows: the answer may hold rows that are not counted yet, but never counts rows it lacks
        steps, report = int(counters.steps[place]), self._report
        return Answer(
            self._node,
            self._weights.version,
            steps,
            counters.seconds[place].copy(),
            int(counters.rests[place]),
            counters.new_episodes(),
            block=self._job.block() if self._job else None,
            found=self._job.found() if self._job else None,
            played=int(counters.played[0]),
            failure=report,
        )


class Job:
    """The work of an actor: `run` is called in a separate thread, the other methods in the actor's thread."""

    def run(self) -> None:
        """Works until the counters signal the end of the run."""

    def admit(self, order: Order) -> None:
        """Sets the limits of an order that the counters do not hold."""

    def has_enough(self, order: Order) -> bool:
        """Returns whether there is enough to send before the order's ``patience`` seconds are over."""
        return False

    def block(self) -> Rows | Rollout | None:
        """Returns the rows or the rollout collected since the last call; None if there are none."""

    def found(self) -> Weights | None:
        """Returns the weights evaluated since the last call, with the results as extras; None if there are none."""


class RowsJob(Job):
    """A sampler that writes rows of a replay into a ring."""

    def __init__(self, config: Config, beginning: ActorStart, weights: ReceivedWeights, counters: Counters):
        assert beginning.layout is not None
        self._config, self._beginning, self._weights, self._counters = config, beginning, weights, counters
        self._arrays = ring_of(beginning.layout)
        self._writer, self._sent = StepWriter(beginning.layout, self._arrays, 0), 0

    def run(self) -> None:
        from headrace.train.workers.replay_sampler import ReplaySampler
        from headrace.train.workers.sampler import run_sampler

        config, beginning = self._config, self._beginning
        run_sampler(
            lambda: ReplaySampler(
                config, beginning.number, beginning.restarts, self._writer, self._weights, self._counters
            )
        )

    def has_enough(self, order: Order) -> bool:
        rows, steps = self._writer.written - self._sent, int(self._counters.steps[self._beginning.number])
        return rows > 0 and steps >= order.limit

    def block(self) -> Rows | None:
        low, high = self._sent, self._writer.written
        if low == high:
            return None
        rows = take_rows(self._arrays, low, high)
        self._sent = high
        return rows


class RolloutsJob(Job):
    """A sampler that writes rollouts into slots."""

    def __init__(self, config: Config, beginning: ActorStart, weights: ReceivedWeights, counters: Counters):
        self._config, self._beginning, self._weights, self._counters = config, beginning, weights, counters
        self._rollouts = OwnRollouts(*beginning.slots)
        self._sent = 0

    def run(self) -> None:
        from headrace.train.workers.rollout_sampler import RolloutSampler
        from headrace.train.workers.sampler import run_sampler

        config, beginning = self._config, self._beginning
        run_sampler(
            lambda: RolloutSampler(
                config, beginning.number, beginning.restarts, self._rollouts, self._weights, self._counters
            )
        )

    def admit(self, order: Order) -> None:
        self._rollouts.arrays["taken"][0] = self._sent - order.waiting

    def has_enough(self, order: Order) -> bool:
        return int(self._rollouts.arrays["filled"][0]) > self._sent

    def block(self) -> Rollout | None:
        if int(self._rollouts.arrays["filled"][0]) == self._sent:
            return None
        rollout = take_rollout(self._rollouts._slot(0, self._sent))
        self._sent += 1
        return rollout


class OwnRollouts(Rollouts):
    """The slots of one sampler, which has number 0 here, whatever its number in the run."""

    def free(self, sampler: int) -> Slot | None:
        """Returns the slot to fill next, as `Rollouts.free`, for the only sampler."""
        return super().free(0)

    def publish(self, sampler: int) -> None:
        """Makes a slot visible, as `Rollouts.publish`, for the only sampler."""
        super().publish(0)


class EvaluatorJob(Job):
    """The evaluator, without videos, as its node has no run folder."""

    def __init__(self, config: Config, beginning: ActorStart, weights: ReceivedWeights, counters: Counters):
        from headrace.train.workers.evaluator import RESULTS
        from headrace.train.workers.policy_copy import PolicyCopy, frozen_policy

        self._config, self._beginning = dataclasses.replace(config, video=False), beginning
        self._weights, self._counters = weights, counters
        copy = PolicyCopy(frozen_policy(config))
        self._results = copy.buffer(len(RESULTS))
        self._vector = torch.zeros_like(copy.vector)
        self._extras = torch.zeros(len(RESULTS) + len(copy.known()), dtype=torch.float64)

    def run(self) -> None:
        from pathlib import Path

        from headrace.train.workers import evaluator

        evaluator.work(self._config, Path(), self._weights, self._results, self._counters, self._beginning.restarts)

    def found(self) -> Weights | None:
        if self._results.read(self._vector, self._extras) is None:
            return None
        version = int(self._extras[3])
        return Weights(version, self._vector.numpy().copy(), self._extras.numpy().copy())


JOBS = {"rows": RowsJob, "rollouts": RolloutsJob, "evaluator": EvaluatorJob}


def _node() -> str:
    import ray

    context = ray.get_runtime_context()
    return f"{ray.util.get_node_ip_address()} ({context.get_node_id()[:6]})"
