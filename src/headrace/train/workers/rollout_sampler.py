"""The sampler of rollouts, which fills slots for the learner.

A sampler uses the newest weights at every step, and stores the log-probabilities of its actions. The learner, whose
policy is newer by then, needs no other data of the policy that acted.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import torch

from headrace.errors import ActionError
from headrace.train.collect.game_values import game_over, game_value
from headrace.train.config.settings import Config
from headrace.train.logging.finite import check_observations, check_rewards
from headrace.train.modules.action_masks import MASK, check_declared, forbidden
from headrace.train.processes.counters import WAITING, Counters
from headrace.train.processes.weight_buffer import WeightBuffer
from headrace.train.storage.rollout_slots import Rollouts, Slot
from headrace.train.workers.sampler import Sampler, run_sampler


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
            slot.add_final_observations(t, envs, self._told["final_obs"][envs])
        self._note(reward, terminated, truncated, self._told)
        self.counters.steps[self.number] += len(reward)
        self.counters.seconds[self.number, :2] += chosen - began, stepped - chosen

    def _note(self, reward: np.ndarray, terminated: np.ndarray, truncated: np.ndarray, info: dict[str, Any]) -> None:
        """Tracks episodes by the game's own rewards and ends, if the task changes them (clipped rewards, lives)."""
        rewards = game_value(self.pool.spec, info, "reward", terminated | truncated, reward)
        self._count(rewards, 1, game_over(self.pool.spec, terminated, truncated, info))


def work(
    config: Config, number: int, rollouts: Rollouts, weights: WeightBuffer, counters: Counters, restarts: int
) -> None:
    """Runs a sampler; the main function of its process."""
    run_sampler(lambda: RolloutSampler(config, number, restarts, rollouts, weights, counters))
