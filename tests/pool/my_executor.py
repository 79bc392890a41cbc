"""Walks along a line, all of a pool in a few NumPy operations:  headrace check my_executor.py

A walker goes left or right. It begins near 0, earns 1 for each step, and falls at either end.
"""

from __future__ import annotations

import pickle
from collections import deque
from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np

import headrace
from headrace.errors import RenderError, StateError
from headrace.pool.batch import Batch, BatchRing
from headrace.pool.executor import HostExecutor
from headrace.pool.spec import PoolSettings, TaskSpec
from headrace.pool.task import Task

END = 8.0


class WalkExecutor(HostExecutor):
    """The executor of `Walk-v0`."""

    pickles = True  # as saved states are
    background = False  # what was sent waits for `recv`
    finishes_steps = False  # a signal may interrupt a step between two of its operations
    waiting = False  # `recv` never waits

    def __init__(self, spec: TaskSpec, settings: PoolSettings, ring: BatchRing):
        n = settings.num_envs
        self.settings, self.ring, self.longest = settings, ring, spec.max_episode_steps
        self.place, self.elapsed = np.zeros((n, 1), np.float32), np.zeros(n, np.int32)
        self.over = np.zeros(n, bool)  # where the last step ended an episode
        self.random = [np.random.default_rng(seed) for seed in settings.seeds]
        self.sent: deque[tuple[Any, ...]] = deque()  # of one environment each
        self.sizes: deque[int] = deque()  # of a synchronous pool's calls

    def bind(self, batch: Batch) -> None:
        """Has nothing to prepare: `serve` writes to the batch's arrays by their names."""

    def step(self, actions: Any, env_ids: np.ndarray | None, batch: Batch) -> None:
        ids = np.arange(self.settings.num_envs) if env_ids is None else env_ids
        self.serve(ids, actions, np.zeros(len(ids), bool), batch)

    def reset(self, env_ids: np.ndarray | None, seeds: np.ndarray | None, batch: Batch) -> None:
        ids = np.arange(self.settings.num_envs) if env_ids is None else env_ids
        self.seed(ids, seeds)
        self.serve(ids, np.zeros(len(ids), np.int64), np.ones(len(ids), bool), batch)

    def seed(self, ids: np.ndarray, seeds: np.ndarray | None) -> None:
        for env, seed in zip(ids, () if seeds is None else seeds, strict=seeds is not None):
            self.random[env] = np.random.default_rng(seed)

    def begin(self, ids: np.ndarray) -> None:
        self.place[ids, 0] = [self.random[env].uniform(-2, 2) for env in ids]
        self.elapsed[ids] = 0

    def serve(self, ids: np.ndarray, actions: np.ndarray, resets: np.ndarray, batch: Batch) -> None:
        """Steps environments int32[k], or begins episodes where ``resets``, bool[k]; fills the rows of a batch."""
        rows, mode = batch.arrays, self.settings.autoreset
        begins = resets | (self.over[ids] if mode == "next_step" else False)
        self.place[ids, 0] += 2 * actions - 1
        self.elapsed[ids] += 1
        self.begin(ids[begins])
        terminated = (np.abs(self.place[ids, 0]) >= END) & ~begins
        truncated = (self.elapsed[ids] == self.longest) & ~begins & (self.longest > 0)
        self.over[ids] = over = terminated | truncated
        rows["reward"][:], rows["terminated"][:], rows["truncated"][:] = ~begins, terminated, truncated
        rows["env_id"][:] = ids
        if mode == "same_step":
            rows["final:obs"][:], rows["final:elapsed_step"][:] = self.place[ids], self.elapsed[ids]
            self.begin(ids[over])
        rows["obs"][:], rows["elapsed_step"][:] = self.place[ids], self.elapsed[ids]

    # -- asynchronous calls ----------------------------------------------------------------------

    def send(self, actions: Any, env_ids: np.ndarray) -> None:
        self.sent += zip(env_ids, actions, [False] * len(env_ids), strict=True)
        self.sizes.append(len(env_ids))

    def send_reset(self, env_ids: np.ndarray, seeds: np.ndarray | None) -> None:
        self.seed(env_ids, seeds)
        self.sent += ((env, 0, True) for env in env_ids)
        self.sizes.append(len(env_ids))

    def recv(self, timeout: float | None) -> Batch:
        size = self.settings.batch_size if self.settings.is_async else self.sizes.popleft()
        ids, actions, resets = map(np.array, zip(*(self.sent.popleft() for _ in range(size)), strict=True))
        batch = self.ring.take(size)
        self.serve(ids, actions, resets, batch)
        return batch

    def discard(self) -> None:
        self.sent.clear()
        self.sizes.clear()

    # -- the rest --------------------------------------------------------------------------------

    def save_state(self, env_ids: np.ndarray) -> list[bytes]:
        return [pickle.dumps((self.place[e], self.elapsed[e], self.over[e], self.random[e])) for e in env_ids]

    def load_state(self, env_ids: np.ndarray, blobs: list[bytes]) -> None:
        try:
            states = [pickle.loads(blob) for blob in blobs]
            for env, (place, elapsed, over, random) in zip(env_ids, states, strict=True):
                self.place[env], self.elapsed[env], self.over[env], self.random[env] = place, elapsed, over, random
        except (pickle.UnpicklingError, ValueError, TypeError, EOFError) as error:
            raise StateError(f"this is no state of Walk-v0: {error}") from error

    def state_arrays(self) -> Mapping[str, Any]:
        return {"place": self.place}

    def render(self, env_ids: np.ndarray) -> np.ndarray:
        raise RenderError("Walk-v0 has no pictures")

    def close(self) -> None:
        self.sent.clear()


def walk(task: str, max_episode_steps: int = 200) -> Task:
    seen, moves = gym.spaces.Box(-END - 1, END + 1, (1,), np.float32), gym.spaces.Discrete(2)
    options = {"max_episode_steps": max_episode_steps}
    return Task(TaskSpec(task, seen, moves, max_episode_steps=max_episode_steps, options=options), WalkExecutor)


headrace.register("Walk-v0", walk, replace=True)
