"""Sampling: a pool, a copy of the policy, and a segment of the replay that every step is written to.

A sampler waits for nobody. It acts with the newest weights that it finds, and says on the board how far it is; only
where the run has a fixed pace does it rest while the learner is behind.
"""

from __future__ import annotations

import dataclasses
import time
from typing import Any

import numpy as np
import torch
from torch import Tensor

import headrace
from headrace.pool.registry import build_task, usable_cores
from headrace.train.config import Config
from headrace.train.experience import InputEncoder
from headrace.train.off_policy.policy import OffPolicy
from headrace.train.off_policy.segment import Segment
from headrace.train.off_policy.steps import StepReplay
from headrace.train.policy import Policy
from headrace.train.seats import Seat
from headrace.train.setup import dealt_seats, make_policy
from headrace.train.workers.board import Board
from headrace.train.workers.pace import REST
from headrace.train.workers.weights import WeightBuffer

STACKS = ("stack_num", "frame_stack")  # names that tasks have for the frames in one observation


@dataclasses.dataclass(frozen=True)
class Frames:
    """How observations are stored.

    Attributes:
        options: of the task whose pool gives what is stored.
        stack: how many of those are one observation of the policy; 1 where they are the same.
    """

    options: dict[str, Any]
    stack: int = 1

    @classmethod
    def of(cls, config: Config) -> Frames:
        """Stacked images are stored as the frames that they are made of; all else as it is."""
        spec = build_task(config.task, **config.env_options).spec
        for name in STACKS:
            stack = spec.options.get(name)
            shape, dtype = spec.observation.shape, spec.observation.dtype
            if stack and stack > 1 and dtype == np.uint8 and len(shape or ()) == 3:
                return cls({**config.env_options, name: 1}, stack)
        return cls(dict(config.env_options))


def acting_policy(config: Config) -> tuple[Policy, Seat]:
    """A policy that only acts, on the CPU, and its seat."""
    spec = build_task(config.task, **config.env_options).spec
    (seat,) = dealt_seats(config, spec).values()
    policy = make_policy("", dataclasses.replace(config, frozen=True, compile=False), seat, torch.device("cpu"))
    return policy, seat


def seed_of(config: Config, *path: int) -> int:
    """A seed for one life of one worker: nobody else's environments begin like its own."""
    return int(np.random.SeedSequence((config.seed, *path)).generate_state(1, np.uint32)[0] >> 1)


class Sampler:
    """One sampler, wherever it runs.

    Args:
        config: the run's settings.
        number, life: which sampler, and how often it was started before.
        segment: where its steps go.
        weights: where its policy comes from.
        board: what it tells all others.
    """

    def __init__(
        self, config: Config, number: int, life: int, segment: Segment, weights: WeightBuffer, board: Board
    ) -> None:
        self.config, self.number, self.segment, self.weights, self.board = config, number, segment, weights, board
        policy, seat = acting_policy(config)
        assert isinstance(policy, OffPolicy)
        self.policy = policy
        seed, frames = seed_of(config, number, life), Frames.of(config)
        threads = config.num_threads or max(1, (usable_cores() - 1) // config.samplers)
        self.pool = headrace.make(
            config.task,
            num_envs=config.num_envs,
            num_threads=threads,
            seed=seed,
            autoreset="next_step",
            **frames.options,
        )
        self._generator = torch.Generator().manual_seed(seed)
        self._distribution = self.policy.distribution
        self._encoder = InputEncoder(config, seat.observation, torch.device("cpu"))
        rows = config.num_envs
        self._inputs = torch.empty(rows, *self._encoder.shape, dtype=self._encoder.dtype)
        self._noise = torch.empty(rows, self._distribution.noise_size)
        self._returns, self._lengths = np.zeros(rows), np.zeros(rows, np.int64)
        self._resets = np.zeros(rows, np.bool_)  # whose next step only begins an episode
        self._version, self._stack = 0, frames.stack
        self._take_weights()
        segment.row.observation[...], _ = self.pool.reset()
        segment.begin()

    @torch.inference_mode()
    def step(self) -> None:
        """One step of all environments."""
        clock = time.perf_counter
        began = clock()
        self._take_weights()
        row = self.segment.row
        actions = self._act(row.observation)
        row.action[...] = actions.numpy()
        taken = self._distribution.to_env(actions).numpy()
        acted = clock()
        seen, reward, terminated, truncated, info = self.pool.step(taken)
        stepped = clock()
        row.reward[...] = reward
        self.segment.following.observation[...] = seen
        self.segment.publish(terminated, truncated, self._version)
        self.board.steps[self.number] += len(reward) - np.count_nonzero(self._resets)  # which took no step
        self._note(reward, terminated, truncated, info)
        self.board.seconds[self.number] += acted - began, stepped - acted, 0.0

    def run(self) -> None:
        """Steps until the board says stop, at the pace that it allows."""
        board = self.board
        while not board.stopped:
            if board.total_steps() >= board.allowed[0]:
                self._rest()
            else:
                self.step()

    def close(self) -> None:
        """Free the pool."""
        self.pool.close()

    def _rest(self) -> None:
        board, began = self.board, time.perf_counter()
        while board.total_steps() >= board.allowed[0] and not board.stopped:
            time.sleep(REST)
        board.seconds[self.number, 2] += time.perf_counter() - began

    def _take_weights(self) -> None:
        self._version = self.weights.read(self.policy.acting) or self._version

    def _act(self, seen: np.ndarray) -> Tensor:
        """Actions for what is seen, as they are stored."""
        steps = self.board.total_steps()
        if steps < self.config.learning_starts:
            return self._distribution.random(len(self._inputs), self._generator)
        self.policy.explore(steps)
        observations = torch.from_numpy(seen) if self._stack == 1 else self.segment.stack()
        inputs = observations if self._encoder.image else self._encoder(observations, self._inputs)
        params, _ = self.policy.forward(inputs)
        return self._distribution.sample(params, self._distribution.draw(self._noise, self._generator))

    def _note(self, reward: np.ndarray, terminated: np.ndarray, truncated: np.ndarray, info: dict[str, Any]) -> None:
        """Count episodes as the game does, where the task rewards or ends them otherwise (clipped rewards, lives)."""
        self._returns += info.get("reward", reward)
        self._lengths += ~self._resets
        ends = np.asarray(info.get("terminated", terminated), bool) | truncated
        if ends.any():
            self.board.note_episodes(self.number, self._returns[ends], self._lengths[ends])
            self._returns[ends], self._lengths[ends] = 0.0, 0
        self._resets = terminated | truncated


def work(config: Config, number: int, replay: StepReplay, weights: WeightBuffer, board: Board, life: int) -> None:
    """The process of one sampler."""
    torch.set_num_threads(1)  # a few rows at a time: sharing them costs more than computing them
    sampler = Sampler(config, number, life, replay.segment(number), weights, board)
    try:
        sampler.run()
    finally:
        sampler.close()
