"""Runs native simulators on the C++ engine's threads.

The engine (``native/engine``) is compiled into each simulator's own extension module;
this class is the same for all of them. A synchronous pool runs loops in which the
calling thread takes part; an asynchronous pool keeps a few batches with the engine,
which fills their rows in the order in which environments finish.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from headrace.errors import EnvironmentFailure, RecvTimeoutError, RenderError
from headrace.pool.batch import Batch, BatchRing
from headrace.pool.spec import PoolSettings, TaskSpec


class Sent(NamedTuple):
    """A step or reset that a synchronous pool has sent and not yet received; owns its arguments."""

    start: Callable[..., None]
    arguments: tuple[np.ndarray | None, ...]
    batch: Batch
    held: tuple[np.ndarray, ...]


class ThreadsExecutor:
    """Implements `headrace.pool.executor.Executor` for a compiled simulator.

    Args:
        module: the extension module that binds the engine; see ``native/engine/module.hpp``.
        simulator: what the module's own factory returned for this task and its options.
    """

    def __init__(
        self, module: ModuleType | Any, simulator: Any, spec: TaskSpec, settings: PoolSettings, ring: BatchRing
    ):
        self._ring, self._settings = ring, settings
        self._frame_shape = tuple(simulator.frame_shape)
        self._engine = module.Engine(
            simulator=simulator,
            num_envs=settings.num_envs,
            batch_size=settings.batch_size,
            num_threads=settings.num_threads,
            seeds=settings.seeds.tolist(),
            autoreset=settings.autoreset,
            max_episode_steps=spec.max_episode_steps,
            pin_from=settings.thread_affinity_offset,
        )
        # asynchronous: the batches that the engine fills, by position, and what keeps them from reuse
        self._filling: list[tuple[Batch, tuple[np.ndarray, ...]]] = []
        # synchronous: oldest first; the engine runs the oldest
        self._sent: deque[Sent] = deque()

    def bind(self, batch: Batch) -> None:
        batch.binding = self._engine.bind(list(batch.arrays.values()))

    def step(self, actions: Any, env_ids: np.ndarray | None, batch: Batch) -> None:
        self._engine.step(actions, env_ids, batch.binding)

    def reset(self, env_ids: np.ndarray | None, seeds: np.ndarray | None, batch: Batch) -> None:
        self._engine.reset(env_ids, seeds, batch.binding)

    def send(self, actions: Any, env_ids: np.ndarray) -> None:
        if self._settings.is_async:
            self._prime()
            self._engine.send_step(actions, env_ids)
        else:
            # the caller may reuse its array before the step has run
            self._enqueue(self._engine.start_step, (actions.copy(), env_ids), len(env_ids))

    def send_reset(self, env_ids: np.ndarray, seeds: np.ndarray | None) -> None:
        if self._settings.is_async:
            self._prime()
            self._engine.send_reset(env_ids, seeds)
        else:
            self._enqueue(self._engine.start_reset, (env_ids, seeds), len(env_ids))

    def recv(self, timeout: float | None) -> Batch:
        if self._settings.is_async:
            fresh = self._ring.take(self._settings.batch_size)
            position = self._engine.recv(timeout, fresh.binding)
            if position < 0:
                raise RecvTimeoutError(f"no {fresh.rows} results within {timeout} s; they stay in flight")
            batch, _ = self._filling[position]
            self._filling[position] = fresh, fresh.hold()
            return batch
        try:
            done = self._engine.finish(timeout)
        except EnvironmentFailure:
            self._next()
            raise
        if not done:
            raise RecvTimeoutError(f"the steps sent are not done within {timeout} s; they stay in flight")
        return self._next().batch

    def discard(self) -> None:
        if self._settings.is_async:
            self._engine.discard()
            return
        if self._sent:
            with suppress(EnvironmentFailure):  # nobody wants to know: these results are discarded
                self._engine.finish(None)
            self._sent.clear()

    def save_state(self, env_ids: np.ndarray) -> list[bytes]:
        return [self._engine.save(int(i)) for i in env_ids]

    def load_state(self, env_ids: np.ndarray, blobs: list[bytes]) -> None:
        for i, blob in zip(env_ids, blobs, strict=True):
            self._engine.load(int(i), blob)

    def state_arrays(self) -> dict[str, np.ndarray]:
        return {}

    def render(self, env_ids: np.ndarray) -> np.ndarray:
        if 0 in self._frame_shape:
            raise RenderError("the simulator has no rendering")
        frames = np.empty((len(env_ids), *self._frame_shape), np.uint8)
        for i, frame in zip(env_ids, frames, strict=True):
            self._engine.render(int(i), frame)
        return frames

    def close(self) -> None:
        self._engine.close()
        self._filling.clear()
        self._sent.clear()

    def _prime(self) -> None:
        """Give the engine its first batches to fill."""
        if not self._filling:
            for _ in range(self._engine.num_slots):
                batch = self._ring.take(self._settings.batch_size)
                self._filling.append((batch, batch.hold()))
            self._engine.set_slots([batch.binding for batch, _ in self._filling])

    def _enqueue(self, start: Callable[..., None], arguments: tuple[np.ndarray | None, ...], rows: int) -> None:
        batch = self._ring.take(rows)
        self._sent.append(Sent(start, arguments, batch, batch.hold()))
        if len(self._sent) == 1:
            self._start()

    def _start(self) -> None:
        if self._sent:
            oldest = self._sent[0]
            oldest.start(*oldest.arguments, oldest.batch.binding)

    def _next(self) -> Sent:
        """Take the oldest off, and start the one behind it."""
        done = self._sent.popleft()
        self._start()
        return done


def get_include() -> str:
    """The folder to give a C++ compiler so that it finds ``headrace/engine/module.hpp`` and its sources.

    Raises:
        FileNotFoundError: this installation was made without the compiled core.
    """
    import headrace

    for root in map(Path, headrace.__path__):
        if (root / "include" / "headrace" / "engine").is_dir():
            return str(root / "include")
    raise FileNotFoundError("headrace was installed without its compiled core: install it with pip install .")
