"""The base of all samplers: a pool, a copy of the policy, and the shared counters.

A sampler waits only if the rate limiter requires it, and uses the newest weights.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from headrace.machine import usable_cores
from headrace.pool.seeds import seed_globals
from headrace.pool.spec import AutoresetMode
from headrace.pool.views.make import make
from headrace.train.collect.curriculum import options_at
from headrace.train.collect.setup import rewarded
from headrace.train.config.settings import Config
from headrace.train.modules.policy_module import Acted
from headrace.train.processes.counters import Counters
from headrace.train.processes.weight_buffer import WeightBuffer
from headrace.train.workers.policy_copy import PolicyCopy, frozen_policy
from headrace.train.workers.rate_limiter import REST
from headrace.train.workers.worker_seeds import seed_of


class Sampler(ABC):
    """One sampler.

    Args:
        weights: the buffer from which it reads its policy.
        counters: the run's shared counters.
    """

    def __init__(
        self,
        config: Config,
        number: int,
        restarts: int,
        weights: WeightBuffer,
        counters: Counters,
        autoreset: AutoresetMode,
        options: Mapping[str, Any],
    ) -> None:
        self.config, self.number, self.weights, self.counters = config, number, weights, counters
        self.policy = frozen_policy(config)
        self.distribution = self.policy.distribution
        seed, rows = seed_of(config, number, restarts, int(counters.begun[0])), config.num_envs
        seed_globals(seed)  # which a user's reward function may draw from
        threads = config.num_threads or max(1, (usable_cores() - 1) // config.samplers)
        self._fixed = dict(options)
        self._arguments: dict[str, Any] = {"num_envs": rows, "num_threads": threads, "autoreset": autoreset}
        self._stage = options_at(config, int(counters.begun[0]))
        self.pool = self._make_pool(seed)
        self._generator = torch.Generator().manual_seed(seed)
        self._noise = torch.empty(rows, self.distribution.noise_size)
        self._returns, self._lengths = np.zeros(rows), np.zeros(rows, np.int64)
        self._policy_copy, self._version = PolicyCopy(self.policy), 0

    def _make_pool(self, seed: int) -> Any:
        stage = {name: self._stage[name] for name in self.config.curriculum if name in self._stage}
        pool = make(self.config.task, seed=seed, **self._arguments, **(self._fixed | stage))
        return rewarded(self.config, pool)

    def _next_stage(self) -> bool:
        """Makes new environments if the curriculum has other options now; returns whether it has."""
        if not self.config.curriculum:
            return False
        stage = options_at(self.config, self.counters.total_steps())
        if stage == self._stage:
            return False
        self._stage = stage
        self.pool.close()
        self.pool = self._make_pool(int(torch.randint(2**31, (), generator=self._generator)))
        self._returns.fill(0.0)
        self._lengths.fill(0)
        return True

    @abstractmethod
    def run(self) -> None:
        """Samples until the counters tell it to stop."""

    def close(self) -> None:
        self.pool.close()

    def _take_weights(self) -> None:
        self._version = self._policy_copy.read(self.weights) or self._version

    def _choose(self, observations: Tensor, closed: Tensor | None = None) -> Acted:
        """Returns the policy's actions for observations, sampled from those that are not ``closed``, bool[N, K]."""
        noise = self.policy.draw(self._noise, self._generator)
        return self.policy.module.act(observations, noise=noise, forbidden=closed)

    def _count(self, rewards: np.ndarray, steps: np.ndarray | int, ends: np.ndarray) -> None:
        """Adds a step's rewards to the episodes' returns and its steps to their lengths; reports those that ended."""
        self._returns += rewards
        self._lengths += steps
        if ends.any():
            self.counters.note_episodes(self.number, self._returns[ends], self._lengths[ends])
            self._returns[ends], self._lengths[ends] = 0.0, 0

    def _rest(self, must: Callable[[], bool], part: int) -> None:
        """Sleeps while ``must()`` is true, unless the run stops; adds the time to a part of the counters' seconds."""
        counters, began = self.counters, time.perf_counter()
        while must() and not counters.stopped:
            counters.rests[self.number] += 1
            time.sleep(REST)
        counters.seconds[self.number, part] += time.perf_counter() - began


def run_sampler(make: Callable[[], Sampler]) -> None:
    torch.set_num_threads(1)  # for a few rows, sharing the work among threads takes longer than the work
    sampler = make()
    try:
        sampler.run()
    finally:
        sampler.close()
