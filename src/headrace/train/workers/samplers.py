"""Samplers: a pool, a copy of the policy, and the shared counters; their steps go to a replay or to slots of rollouts.

A sampler uses the newest weights at every step. That of a replay writes every step to its own segment, and waits only
while the learner is behind a fixed replay ratio. That of rollouts waits for a free slot, and stores the
log-probabilities of its actions: the learner, whose policy is newer by then, needs no other data of the policy that
acted.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import closing
from typing import Any

import numpy as np
import torch
from torch import Tensor

from headrace.errors import ActionError
from headrace.machine import usable_cores
from headrace.pool.seeds import seed_globals
from headrace.pool.spec import AutoresetMode
from headrace.pool.views.make import make
from headrace.pool.wrappers import unwrapped
from headrace.train.algorithms.off_policy import OffPolicy
from headrace.train.collect.curriculum import options_at, scheduled_options
from headrace.train.collect.game_values import game_over, game_value, lost_steps, metric_names, reported
from headrace.train.collect.pools import replacing_workers, rewarded
from headrace.train.collect.steps import Frames, StepRecorder
from headrace.train.logging.finite import check_observations, check_rewards
from headrace.train.modules.action_masks import MASK, check_declared, forbidden
from headrace.train.modules.policy_module import Acted
from headrace.train.processes.counters import PACED, WAITING, Counters
from headrace.train.processes.start import seed_of
from headrace.train.processes.weight_buffer import WeightBuffer
from headrace.train.settings.config import Config
from headrace.train.storage.rollout_slots import Rollouts, Slot
from headrace.train.storage.step_replay import StepReplay
from headrace.train.storage.writer import StepWriter
from headrace.train.workers.policy_copy import PolicyCopy, acting_policy
from headrace.train.workers.rate_limiter import REST


class Sampler(ABC):
    """One sampler."""

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
        self.policy = acting_policy(config)
        self.distribution = self.policy.distribution
        seed, rows = seed_of(config, number, restarts, int(counters.begun[0])), config.num_envs
        seed_globals(seed)  # which a user's reward function may draw from
        threads = config.num_threads or max(1, (usable_cores() - 1) // config.samplers)
        self._fixed = dict(options)
        self._arguments: dict[str, Any] = {"num_envs": rows, "num_threads": threads, "autoreset": autoreset}
        self._stage, self._scheduled = options_at(config, int(counters.begun[0])), dict[str, float]()
        self.pool = self._make_pool(seed)
        self._follow_schedules()
        self._generator = torch.Generator().manual_seed(seed)
        self._noise = torch.empty(rows, self.distribution.noise_size)
        self._returns, self._lengths = np.zeros(rows), np.zeros(rows, np.int64)
        self._metrics = metric_names(config)
        self._policy_copy, self._version = PolicyCopy(self.policy), 0

    def _make_pool(self, seed: int) -> Any:
        stage = {name: self._stage[name] for name in self.config.curriculum if name in self._stage}
        with replacing_workers(self.config):
            pool = make(self.config.task, seed=seed, **self._arguments, **(self._fixed | stage))
        return rewarded(self.config, pool)

    def _follow_schedules(self) -> None:
        """Changes options of the environments that have a schedule."""
        now = scheduled_options(self.config, self.counters.total_steps())
        if now != self._scheduled:
            unwrapped(self.pool).set_options(**now)
            self._scheduled = now

    def _next_stage(self) -> bool:
        """Makes new environments if the curriculum has other options now; returns whether it has."""
        self._follow_schedules()
        if not self.config.curriculum:
            return False
        stage = options_at(self.config, self.counters.total_steps())
        if stage == self._stage:
            return False
        self._stage = stage
        self.pool.close()
        self.pool = self._make_pool(int(torch.randint(2**31, (), generator=self._generator)))
        self._scheduled = {}
        self._follow_schedules()
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

    def _count(self, rewards: np.ndarray, steps: np.ndarray | int, ends: np.ndarray, info: Mapping[str, Any]) -> None:
        """Adds a step's rewards to the episodes' returns and its steps to their lengths; reports those that ended."""
        self._returns += rewards
        self._lengths += steps
        if ends.any():
            told = reported(self._metrics, info, ends)
            self.counters.note_episodes(self.number, self._returns[ends], self._lengths[ends], told)
            self._returns[ends], self._lengths[ends] = 0.0, 0

    def _rest(self, must: Callable[[], bool], part: int) -> None:
        """Sleeps while ``must()`` is true, unless the run stops; adds the time to a part of the counters' seconds."""
        counters, began = self.counters, time.perf_counter()
        while must() and not counters.stopped:
            counters.rests[self.number] += 1
            time.sleep(REST)
        counters.seconds[self.number, part] += time.perf_counter() - began


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
        self._count(done.scores, done.taken, done.ends, done.info)
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
        self.policy.explore(steps, self.policy.begins_uniformly(steps))
        closed = None if masks is None else forbidden(masks, self.policy.heads)
        return self._choose(self._recorder.observations(), closed).actions


class RolloutSampler(Sampler):
    """A sampler of rollouts; ``rollouts`` holds the slots that it fills, other arguments are those of `Sampler`."""

    def __init__(
        self, config: Config, number: int, restarts: int, rollouts: Rollouts, weights: WeightBuffer, counters: Counters
    ) -> None:
        super().__init__(config, number, restarts, weights, counters, "same_step", config.env_options)
        self.rollouts = rollouts
        self._params = torch.empty(config.num_steps, config.num_envs, self.distribution.size)
        self._fresh, self._begun = True, 0
        self._seen, self._told = self.pool.reset()

    def run(self) -> None:
        while not self.counters.stopped:
            slot = self.rollouts.free(self.number)
            if slot is None:
                self._rest(lambda: self.rollouts.free(self.number) is None, WAITING)
            elif self.fill(slot):
                self.rollouts.publish(self.number)

    @torch.inference_mode()
    def fill(self, slot: Slot) -> bool:
        """Collects one rollout; returns whether it is complete, and not cut short by the end of the run."""
        if self._next_stage():
            self._seen, self._told = self.pool.reset()
            self._fresh = True
        slot.begin(self._fresh)
        slot.observations[0], self._begun = self._seen, int(self.counters.steps[self.number])
        for t in range(self.config.num_steps):
            if self.counters.stopped:
                return False
            try:
                self._step(t, slot)
            except ActionError:  # possibly because of an observation that is not finite
                self._check(slot, t)
                raise
        self._check(slot, self.config.num_steps)
        actions = torch.from_numpy(slot.actions).flatten(0, 1)
        log_probs = self.distribution.evaluate(self._params.flatten(0, 1), actions)[0]
        slot.log_probs[...] = log_probs.view(slot.log_probs.shape).numpy()
        self._fresh = False
        return True

    def _check(self, slot: Slot, steps: int) -> None:
        """Raises `NotFiniteError` unless the first ``steps`` steps of a rollout, not yet published, are finite."""
        when = f"of the rollout after {self._begun:,} agent steps of sampler {self.number}"
        check_rewards(torch.from_numpy(slot.rewards[:steps]), when)
        check_observations({"obs": torch.from_numpy(slot.observations[: steps + 1])}, when)

    def _step(self, t: int, slot: Slot) -> None:
        clock = time.perf_counter
        began = clock()
        self._take_weights()
        closed = None
        if self.policy.heads:
            closed = forbidden(torch.from_numpy(self._told[MASK]), self.policy.heads)
            slot.forbidden[t] = closed.numpy()
        else:
            check_declared(self._told, self.pool.spec, self.config.action_masks)
        acted = self._choose(torch.from_numpy(slot.observations[t]), closed)
        self._params[t], actions = acted.params, acted.actions
        slot.actions[t], slot.versions[t] = actions.numpy(), self._version
        taken = self.distribution.to_env(actions).numpy()
        chosen = clock()
        self._seen, reward, terminated, truncated, self._told = self.pool.step(taken)
        stepped = clock()
        slot.rewards[t], slot.terminated[t], slot.truncated[t] = reward, terminated, truncated
        slot.observations[t + 1] = self._seen
        if truncated.any():
            (envs,) = truncated.nonzero()
            finals = self._told["final_obs"][envs]
            if (lost := lost_steps(self._told)) is not None:
                finals[lost[envs]] = slot.observations[t, lost]
            slot.add_final_observations(t, envs, finals)
        self._note(reward, terminated, truncated, self._told)
        self.counters.steps[self.number] += len(reward)
        self.counters.seconds[self.number, :2] += chosen - began, stepped - chosen

    def _note(self, reward: np.ndarray, terminated: np.ndarray, truncated: np.ndarray, info: dict[str, Any]) -> None:
        """Tracks episodes by the game's own rewards and ends, if the task changes them (clipped rewards, lives)."""
        rewards = game_value(self.pool.spec, info, "reward", terminated | truncated, reward)
        self._count(rewards, 1, game_over(self.pool.spec, terminated, truncated, info), info)


def work(
    config: Config,
    number: int,
    memory: StepReplay | Rollouts,
    weights: WeightBuffer,
    counters: Counters,
    restarts: int,
) -> None:
    torch.set_num_threads(1)  # for a few rows, sharing the work among threads takes longer than the work
    if isinstance(memory, StepReplay):
        sampler = ReplaySampler(config, number, restarts, memory.writer(number), weights, counters)
    else:
        sampler = RolloutSampler(config, number, restarts, memory, weights, counters)
    with closing(sampler):
        sampler.run()
