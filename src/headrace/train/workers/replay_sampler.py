"""The sampler of a replay, which writes every step to its own segment.

With a fixed replay ratio it waits while the learner is behind.
"""

from __future__ import annotations

import time

import numpy as np
import torch
from torch import Tensor

from headrace.train.algorithms.off_policy import OffPolicy
from headrace.train.collect.steps import Frames, StepRecorder
from headrace.train.config.settings import Config
from headrace.train.modules.action_masks import forbidden
from headrace.train.processes.counters import PACED, Counters
from headrace.train.processes.weight_buffer import WeightBuffer
from headrace.train.storage.step_replay import StepReplay
from headrace.train.storage.writer import StepWriter
from headrace.train.workers.sampler import Sampler, run_sampler


class ReplaySampler(Sampler):
    """A sampler of steps; ``writer`` receives the steps, the other arguments are those of `Sampler`."""

    def __init__(
        self, config: Config, number: int, restarts: int, writer: StepWriter, weights: WeightBuffer, counters: Counters
    ) -> None:
        frames = Frames.of(config)
        super().__init__(config, number, restarts, weights, counters, "next_step", frames.options)
        self.writer, self._stack = writer, frames.stack
        self._take_weights()
        self._begin()

    def _begin(self) -> None:
        self._recorder = StepRecorder(self.pool, self.policy, self.writer, self._stack, self._when)
        self._recorder.begin()

    @torch.inference_mode()
    def step(self) -> None:
        clock = time.perf_counter
        began = clock()
        self._take_weights()
        if self._next_stage():
            self._begin()
        actions = self._act()
        taken = self.distribution.to_env(actions).numpy()
        acted = clock()
        done = self._recorder.step(actions, taken, self._version)
        self.counters.steps[self.number] += np.count_nonzero(done.taken)
        stepped = clock()
        self._count(done.scores, done.taken, done.ends)
        self.counters.seconds[self.number, :2] += acted - began, stepped - acted

    def run(self) -> None:
        counters = self.counters
        while not counters.stopped:
            if self._is_ahead():
                self._rest(self._is_ahead, PACED)
            else:
                self.step()

    def _is_ahead(self) -> bool:
        return self.counters.total_steps() >= self.counters.allowed[0]

    def _when(self) -> str:
        return f"after {self.writer.written:,} of sampler {self.number}"

    def _act(self) -> Tensor:
        steps = self.counters.total_steps()
        masks = self._recorder.masks()
        assert isinstance(self.policy, OffPolicy)
        self.policy.explore(steps, steps < self.policy.config.learning_starts)
        closed = None if masks is None else forbidden(masks, self.policy.heads)
        return self._choose(self._recorder.observations(), closed).actions


def work(
    config: Config, number: int, replay: StepReplay, weights: WeightBuffer, counters: Counters, restarts: int
) -> None:
    """Runs a sampler; the main function of its process."""
    run_sampler(lambda: ReplaySampler(config, number, restarts, replay.writer(number), weights, counters))
