"""Sampling rollouts: a pool, a copy of the policy, and slots that wait to be learnt from.

A sampler acts with the newest weights that it finds at every step, and notes how likely its actions were by them: the
learner, whose policy has moved on by then, needs nothing else of the policy that acted.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import torch

import headrace
from headrace.pool.registry import usable_cores
from headrace.train.config import Config
from headrace.train.experience import InputEncoder
from headrace.train.workers.acting import Acting
from headrace.train.workers.board import Board
from headrace.train.workers.pace import REST
from headrace.train.workers.rollouts import Rollouts, Slot
from headrace.train.workers.sampler import acting_policy, seed_of
from headrace.train.workers.weights import WeightBuffer


class RolloutSampler:
    """One sampler of rollouts, wherever it runs; arguments as `headrace.train.workers.sampler.Sampler`'s."""

    def __init__(
        self, config: Config, number: int, life: int, rollouts: Rollouts, weights: WeightBuffer, board: Board
    ) -> None:
        self.config, self.number, self.rollouts, self.weights, self.board = config, number, rollouts, weights, board
        self.policy, seat = acting_policy(config)
        seed, rows = seed_of(config, number, life), config.num_envs
        threads = config.num_threads or max(1, (usable_cores() - 1) // config.samplers)
        self.pool = headrace.make(
            config.task, num_envs=rows, num_threads=threads, seed=seed, autoreset="same_step", **config.env_options
        )
        self._generator = torch.Generator().manual_seed(seed)
        self._distribution = self.policy.distribution
        self._encoder = InputEncoder(config, seat.observation, torch.device("cpu"))
        self._acting = Acting(self.policy, self._encoder)
        self._inputs = torch.empty(rows, *self._encoder.shape, dtype=self._encoder.dtype)
        self._noise = torch.empty(rows, self._distribution.noise_size)
        self._params = torch.empty(config.num_steps, rows, self._distribution.size)
        self._returns, self._lengths = np.zeros(rows), np.zeros(rows, np.int64)
        self._version, self._fresh = 0, True
        self._seen, _ = self.pool.reset()

    def run(self) -> None:
        """Rollouts until the board says stop."""
        while not self.board.stopped:
            slot = self.rollouts.free(self.number)
            if slot is None:
                self._rest()
            elif self.fill(slot):
                self.rollouts.publish(self.number)

    @torch.inference_mode()
    def fill(self, slot: Slot) -> bool:
        """One rollout; answers whether it is whole, and not broken off because all are to stop."""
        slot.begin(self._fresh)
        slot.observations[0] = self._seen
        for t in range(self.config.num_steps):
            if self.board.stopped:
                return False
            self._step(t, slot)
        actions = torch.from_numpy(slot.actions).flatten(0, 1)
        log_probs = self._distribution.evaluate(self._params.flatten(0, 1), actions)[0]
        slot.log_probs[...] = log_probs.view(slot.log_probs.shape).numpy()
        self._fresh = False
        return True

    def close(self) -> None:
        """Free the pool."""
        self.pool.close()

    def _step(self, t: int, slot: Slot) -> None:
        """Step t of all environments."""
        clock = time.perf_counter
        began = clock()
        self._version = self._acting.read(self.weights) or self._version
        seen = torch.from_numpy(slot.observations[t])
        inputs = seen if self._encoder.is_identity else self._encoder(seen, self._inputs)
        params, _ = self.policy.forward(inputs)
        actions = self._distribution.sample(params, self._distribution.draw(self._noise, self._generator))
        self._params[t] = params
        slot.actions[t], slot.versions[t] = actions.numpy(), self._version
        taken = self._distribution.to_env(actions).numpy()
        acted = clock()
        self._seen, reward, terminated, truncated, info = self.pool.step(taken)
        stepped = clock()
        slot.rewards[t], slot.terminated[t], slot.truncated[t] = reward, terminated, truncated
        slot.observations[t + 1] = self._seen
        if truncated.any():
            (envs,) = truncated.nonzero()
            slot.add_finals(t, envs, info["final_obs"][envs])
        self._note(reward, terminated, truncated, info)
        self.board.steps[self.number] += len(reward)
        self.board.seconds[self.number] += acted - began, stepped - acted, 0.0

    def _note(self, reward: np.ndarray, terminated: np.ndarray, truncated: np.ndarray, info: dict[str, Any]) -> None:
        """Count episodes as the game does, where the task rewards or ends them otherwise (clipped rewards, lives)."""
        over = terminated | truncated
        final = info.get("final_info", {})

        def game(name: str, otherwise: np.ndarray) -> np.ndarray:
            # a finished row carries the new episode's info; the old one's is beside it
            return np.where(over, final[name], info[name]) if name in final else info.get(name, otherwise)

        self._returns += game("reward", reward)
        self._lengths += 1
        ends = game("terminated", terminated).astype(bool) | truncated
        if ends.any():
            self.board.note_episodes(self.number, self._returns[ends], self._lengths[ends])
            self._returns[ends], self._lengths[ends] = 0.0, 0

    def _rest(self) -> None:
        board, began = self.board, time.perf_counter()
        while self.rollouts.free(self.number) is None and not board.stopped:
            time.sleep(REST)
        board.seconds[self.number, 2] += time.perf_counter() - began


def work(config: Config, number: int, rollouts: Rollouts, weights: WeightBuffer, board: Board, life: int) -> None:
    """The process of one sampler."""
    torch.set_num_threads(1)  # a few rows at a time: sharing them costs more than computing them
    sampler = RolloutSampler(config, number, life, rollouts, weights, board)
    try:
        sampler.run()
    finally:
        sampler.close()
