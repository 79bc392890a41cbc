"""The Ray actors of a run: samplers of rows and of rollouts, and the evaluator.

They use the samplers and the evaluator of a run on one machine, but return steps as blocks, instead of writing them to
memory that the learner shares.
"""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch

from headrace.errors import WorkerError
from headrace.pool.executors.processes.task import spaces_read_once
from headrace.train.cluster.code import Code
from headrace.train.collect.game_values import metric_names
from headrace.train.processes.counters import PACED, WAITING, Counters, Episodes
from headrace.train.processes.weight_buffer import WeightBuffer
from headrace.train.settings.config import Config
from headrace.train.storage.blocks import Block, ring_of, take_rollout, take_rows
from headrace.train.storage.layout import StepLayout
from headrace.train.storage.rollout_slots import Rollouts
from headrace.train.storage.writer import StepWriter
from headrace.train.workers.evaluator import Evaluator
from headrace.train.workers.samplers import ReplaySampler, RolloutSampler
from headrace.version import __version__

Weights = tuple[int, np.ndarray, np.ndarray]
"""a version, the actor's parameters, float32[P], and statistics of observations, float64[E]"""


@dataclass(frozen=True)
class Start:
    """What an actor needs to begin, whenever Ray starts it again.

    Attributes:
        settings: a function that makes the run's settings, and its arguments, of which the first is values by name.
        number: the sampler's number.
        begun: agent steps of the run when its actors were first started.
        sizes: elements P and E of `Weights`.
        memory: the layout of a sampler's ring of rows, or the arguments of its `Rollouts`; None for the evaluator.
        seconds: maximum time of a block of rows.
    """

    settings: tuple[Any, tuple[Any, ...]]
    code: Code
    number: int
    begun: int
    sizes: tuple[int, int]
    memory: StepLayout | tuple[Any, ...] | None
    seconds: float
    version: str = __version__


class Sampled(NamedTuple):
    """The result of one call of a sampler: its agent steps, and the seconds in each of `PARTS`, float64[4]."""

    data: Block
    steps: int
    seconds: np.ndarray
    episodes: Episodes


class RunActor:
    """The base of both actors. Ray makes it, and calls its methods one at a time."""

    def __init__(self, start: Start):
        self._start, self._worker, self._weights = start, None, WeightBuffer(*start.sizes)

    @spaces_read_once()
    def begin(self, restarts: int) -> str:
        """Makes the sampler or the evaluator, in place of one that has failed; returns a name of this node.

        Args:
            restarts: the number of earlier calls, over all processes of this actor.

        Raises:
            WorkerError: this node has another version of Headrace than the learner.
        """
        import ray

        start, node = self._start, f"{ray.util.get_node_ip_address()} ({ray.get_runtime_context().get_node_id()[:6]})"
        if start.version != __version__:
            raise WorkerError(
                f"node {node} has Headrace {__version__}, the learner {start.version}: install the same on all nodes"
            )
        make, (values, *rest) = start.settings
        self.close()
        torch.set_num_threads(1)
        self._worker = self._make(make(start.code.installed(values), *rest), restarts)
        return node

    def _make(self, config: Config, restarts: int) -> Any:
        raise NotImplementedError

    def _receive(self, weights: Weights | None) -> None:
        if weights is not None:
            version, vector, extras = weights
            self._weights.publish(torch.tensor(vector), torch.tensor(extras), version)

    def close(self) -> None:
        worker, self._worker = self._worker, None
        if worker is not None:
            with suppress(Exception):  # of environments that have failed
                worker.close()


class SamplerActor(RunActor):
    """A sampler on a node of the cluster."""

    def _make(self, config: Config, restarts: int) -> ReplaySampler | RolloutSampler:
        memory, number = self._start.memory, self._start.number
        self._counters, self._ended = Counters(config.samplers, len(metric_names(config))), time.perf_counter()
        self._counters.begun[0] = self._start.begun
        if isinstance(memory, StepLayout):
            self._ring = ring_of(memory)
            writer = StepWriter(memory, self._ring, 0)
            return ReplaySampler(config, number, restarts, writer, self._weights, self._counters)
        assert memory is not None
        return RolloutSampler(config, number, restarts, Rollouts(*memory), self._weights, self._counters)

    def sample(self, weights: Weights | None, steps: list[int], most: int) -> Sampled | None:
        """Returns rows of at most ``most`` agent steps, or a rollout; None if `begin` must be called before.

        Args:
            weights: newer weights; None to keep the present ones.
            steps: agent steps of all samplers of the run so far, int[S].
        """
        sampler, number, began = self._worker, self._start.number, time.perf_counter()
        if sampler is None:
            return None
        counters, by_rows = self._counters, isinstance(sampler, ReplaySampler)
        counters.steps[:], counters.seconds[:] = steps, 0
        counters.seconds[number, PACED if by_rows else WAITING] = began - self._ended
        self._receive(weights)
        if by_rows:
            data = self._rows(sampler, steps[number] + most - sampler.config.num_envs, began + self._start.seconds)
        else:
            slot = sampler.rollouts.free(0)  # always the same one, as it is not published
            sampler.fill(slot)
            data = take_rollout(slot)
        self._ended = time.perf_counter()
        taken = int(counters.steps[number]) - steps[number]
        return Sampled(data, taken, counters.seconds[number].copy(), counters.new_episodes())

    def _rows(self, sampler: ReplaySampler, last: int, until: float) -> Block:
        """Returns new rows, the last of which begins at most ``last`` agent steps, and before the time ``until``."""
        steps, number, writer, first = self._counters.steps, self._start.number, sampler.writer, sampler.writer.written
        room = len(self._ring["flags"]) // 4
        while steps[number] <= last and writer.written - first < room and time.perf_counter() < until:
            sampler.step()
        return take_rows(self._ring, first, writer.written)


class EvaluatorActor(RunActor):
    """The evaluator on a node of the cluster."""

    def _make(self, config: Config, restarts: int) -> Evaluator:
        return Evaluator(config, self._start.begun, restarts)

    def evaluate(self, weights: Weights, step: int) -> tuple[np.ndarray, np.ndarray, float] | None:
        """Plays episodes with weights of agent step ``step``.

        Returns:
            The weights, float32[P]; results and statistics, float64[…]; and the seconds until the next evaluation is
            due. None if `begin` must be called before.
        """
        self._receive(weights)
        evaluator: Evaluator | None = self._worker
        found = None if evaluator is None else evaluator.play(self._weights, step)
        if evaluator is None or found is None:
            return None
        results, pause = found
        return weights[1], torch.cat((results, evaluator.copy.known())).numpy(), pause
