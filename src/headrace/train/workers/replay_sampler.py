"""The sampler of a replay: writes every step to its own segment.

With a fixed replay ratio it waits while the learner is behind.
"""

from __future__ import annotations

import dataclasses
import time
from math import isfinite
from typing import Any

import numpy as np
import torch
from torch import Tensor

from headrace.pool.registry import build_task
from headrace.train.algorithms.off_policy import OffPolicy
from headrace.train.config.settings import Config
from headrace.train.logging.finite import check_observations, check_rewards
from headrace.train.processes.counters import PACED, Counters
from headrace.train.processes.weight_buffer import WeightBuffer, WeightSource
from headrace.train.storage.step_replay import StepReplay
from headrace.train.storage.writer import StepWriter
from headrace.train.workers.sampler import Sampler, run_sampler

STACKS = ("stack_num", "frame_stack")  # tasks' names for the number of frames in one observation


@dataclasses.dataclass(frozen=True)
class Frames:
    """The form in which observations are stored.

    Attributes:
        options: options of the task whose pool returns the stored observations.
        stack: number of stored observations in one observation of the policy; 1 if they are the same.
    """

    options: dict[str, Any]
    stack: int = 1

    @classmethod
    def of(cls, config: Config) -> Frames:
        """Returns the form for a run: stacked images are stored as single frames, other observations unchanged."""
        spec = build_task(config.task, **config.env_options).spec
        for name in STACKS:
            stack = spec.options.get(name)
            shape, dtype = spec.observation.shape, spec.observation.dtype
            if stack and stack > 1 and dtype == np.uint8 and len(shape or ()) == 3:
                return cls({**config.env_options, name: 1}, stack)
        return cls(dict(config.env_options))


class ReplaySampler(Sampler):
    """One sampler of steps; ``writer`` receives them, the other arguments are those of `Sampler`."""

    def __init__(
        self, config: Config, number: int, life: int, writer: StepWriter, weights: WeightSource, counters: Counters
    ) -> None:
        frames = Frames.of(config)
        super().__init__(config, number, life, weights, counters, "next_step", frames.options)
        self.writer, self._stack = writer, frames.stack
        self._resets = np.zeros(config.num_envs, np.bool_)  # whether an environment's next step only begins an episode
        self._take_weights()
        self._begin()

    def _begin(self) -> None:
        """Begins new episodes in all environments."""
        self.writer.row.observation[...], _ = self.pool.reset()
        self.writer.begin()
        self._resets[:] = False

    @torch.inference_mode()
    def step(self) -> None:
        """One step of all environments."""
        clock = time.perf_counter
        began = clock()
        self._take_weights()
        if self._next_stage():
            self._begin()
        row = self.writer.row
        actions = self._act(row.observation)
        row.action[...] = actions.numpy()
        taken = self.distribution.to_env(actions).numpy()
        acted = clock()
        seen, reward, terminated, truncated, info = self.pool.step(taken)
        stepped = clock()
        if not (isfinite(reward.sum()) and (self.encoder.image or isfinite(seen.sum()))):
            self._check(reward, seen)
        row.reward[...] = reward
        self.writer.following.observation[...] = seen
        self.writer.publish(terminated, truncated, self._version)
        self.counters.steps[self.number] += len(reward) - np.count_nonzero(self._resets)  # which took no step
        self._note(reward, terminated, truncated, info)
        self.counters.seconds[self.number, :2] += acted - began, stepped - acted

    def run(self) -> None:
        counters = self.counters
        while not counters.stopped:
            if self._is_ahead():
                self._rest(self._is_ahead, PACED)
            else:
                self.step()

    def _is_ahead(self) -> bool:
        """Returns whether all steps that the replay ratio allows have been taken."""
        return self.counters.total_steps() >= self.counters.allowed[0]

    def _check(self, reward: np.ndarray, seen: np.ndarray) -> None:
        """Raises `NotFiniteError` unless a step's results are finite, before they are published."""
        when = f"after {self.writer.written:,} of sampler {self.number}"
        check_rewards(torch.from_numpy(reward)[None], when)
        check_observations({"obs": torch.from_numpy(seen)[None]}, when)

    def _act(self, seen: np.ndarray) -> Tensor:
        """Returns actions for the present observations, as they are stored."""
        steps = self.counters.total_steps()
        if steps < self.config.learning_starts:
            return self.distribution.random(self.config.num_envs, self._generator)
        assert isinstance(self.policy, OffPolicy)
        self.policy.explore(steps)
        return self._choose(torch.from_numpy(seen) if self._stack == 1 else self.writer.stack()).actions

    def _note(self, reward: np.ndarray, terminated: np.ndarray, truncated: np.ndarray, info: dict[str, Any]) -> None:
        """Tracks episodes by the game's own rewards and ends, if the task changes them (clipped rewards, lives)."""
        ends = np.asarray(info.get("terminated", terminated), bool) | truncated
        self._count(info.get("reward", reward), ~self._resets, ends)
        self._resets = terminated | truncated


def work(config: Config, number: int, replay: StepReplay, weights: WeightBuffer, counters: Counters, life: int) -> None:
    """The main function of a sampler's process."""
    run_sampler(lambda: ReplaySampler(config, number, life, replay.writer(number), weights, counters))
