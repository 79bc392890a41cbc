"""Runs native simulators on the C++ engine's threads.

The engine (``native/engine``) is compiled into the extension module of each simulator; the executor is the same for all
of them. A synchronous pool runs loops in which the calling thread takes part; an asynchronous pool provides the engine
with a few batches, and the engine fills their rows in the order in which environments finish.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from headrace.errors import EnvironmentFailure, RecvTimeoutError, RenderError
from headrace.native_modules import checkout
from headrace.pool.batch import Batch, BatchRing
from headrace.pool.executor import HostExecutor
from headrace.pool.executors.simulators import check_simulator
from headrace.pool.spec import PoolSettings, TaskSpec


@dataclass(eq=False, slots=True)
class Sent:
    """A step or reset that a synchronous pool has sent and not yet received; owns its arguments.

    Attributes:
        start: the engine's method that starts it.
        arguments: the method's arguments except for the last, the batch's binding.
        batch: the batch of its results.
        held: references that prevent the batch's reuse.
        begun, done: whether the engine has started it, and whether it has finished it.
        failure: the failure of an environment, if one raised.
    """

    start: Callable[..., None]
    arguments: tuple[np.ndarray | None, ...]
    batch: Batch
    held: tuple[np.ndarray, ...]
    begun: bool = False
    done: bool = False
    failure: EnvironmentFailure | None = None


class ThreadsExecutor(HostExecutor):
    """The executor of a compiled simulator.

    Args:
        module: the extension module that binds the engine; see ``native/engine/module.hpp``.
        simulator: the object that the module's factory returned for this task and its options.

    Raises:
        SimulatorError: the fields that the simulator declares differ from the task's.
    """

    background = True
    finishes_steps = True  # the engine completes a loop before it raises

    def __init__(
        self, module: ModuleType | Any, simulator: Any, spec: TaskSpec, settings: PoolSettings, ring: BatchRing
    ):
        check_simulator(simulator, spec)
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
        # number of rows → the binding of a batch of so many, whose sizes the engine has checked
        self._bound: dict[int, Any] = {}
        self.waiting = True
        # references to the arrays of a loop in which the caller takes part: an exception may end the call before it
        self._used: tuple[Any, ...] | None = None
        # asynchronous: the batches that the engine fills, by position, and the references that prevent their reuse
        self._filling: list[tuple[Batch, tuple[np.ndarray, ...]]] = []
        self._fresh: tuple[Batch, tuple[np.ndarray, ...]] | None = None  # the next batch to be filled
        self._full: list[int] = []  # position of the full batch that the engine has returned in exchange
        # synchronous: calls sent, oldest first; the engine runs one at a time
        self._sent: deque[Sent] = deque()

    def bind(self, batch: Batch) -> None:
        known = self._bound.get(batch.rows)
        if known is None:
            known = self._bound[batch.rows] = self._engine.bind(list(batch.arrays.values()))
        batch.binding = known.over(batch.addresses)

    def step(self, actions: Any, env_ids: np.ndarray | None, batch: Batch) -> None:
        if self._sent:
            self._finish_sent()
        self._used = actions, env_ids, batch, batch.hold()
        self._engine.step(actions, env_ids, batch.binding)
        self._used = None

    def reset(self, env_ids: np.ndarray | None, seeds: np.ndarray | None, batch: Batch) -> None:
        self._finish_sent()
        self._used = env_ids, seeds, batch, batch.hold()
        self._engine.reset(env_ids, seeds, batch.binding)
        self._used = None

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
        return self._recv_filled(timeout) if self._settings.is_async else self._recv_sent(timeout)

    def _recv_filled(self, timeout: float | None) -> Batch:
        """Returns the next full batch, in exchange for a new one; after an exception the next call returns it."""
        if self._fresh is None:
            fresh = self._ring.take(self._settings.batch_size)
            self._fresh = fresh, fresh.hold()
        if not self._full or self._full[0] < 0:
            # map: exchange and append both run in compiled code, so that no signal handler can raise between them
            self._full = []
            self._full.extend(map(self._engine.recv, [timeout], [self._fresh[0].binding]))
        position = self._full[0]
        if position < 0:
            self._full = []
            raise RecvTimeoutError(
                f"{self._settings.batch_size} results were not ready within {timeout} s; another recv waits for them"
            )
        batch, _ = self._filling[position]
        self._filling[position], self._fresh, self._full = self._fresh, None, []
        return batch

    def _recv_sent(self, timeout: float | None) -> Batch:
        oldest = self._sent[0]
        if not self._finished(oldest, timeout):
            raise RecvTimeoutError(
                f"the steps that were sent did not finish within {timeout} s; another recv waits for them"
            )
        self.waiting = False
        self._begin_next()
        self._sent.popleft()
        self.waiting = True
        if oldest.failure is not None:
            raise oldest.failure
        return oldest.batch

    def discard(self) -> None:
        if self._settings.is_async:
            if self._full and self._full[0] >= 0:
                self._recv_filled(None)
            self._engine.discard()
            return
        if self._used is not None:
            with suppress(EnvironmentFailure):  # failures of discarded results are discarded, too
                self._engine.finish(None)
            self._used = None
        self._finish_sent()
        self._sent.clear()
        self.waiting = True

    def save_state(self, env_ids: np.ndarray) -> list[bytes]:
        return [self._engine.save(int(i)) for i in env_ids]

    def load_state(self, env_ids: np.ndarray, blobs: list[bytes]) -> None:
        self._engine.load(env_ids, blobs)

    def state_arrays(self) -> dict[str, np.ndarray]:
        return {}

    def render(self, env_ids: np.ndarray) -> np.ndarray:
        if 0 in self._frame_shape:
            raise RenderError("the simulator has no rendering")
        frames = np.empty((len(env_ids), *self._frame_shape), np.uint8)
        for i, frame in zip(env_ids, frames, strict=True):
            self._engine.render(int(i), frame)
        return frames

    def wake(self) -> None:
        self._engine.close()

    def close(self) -> None:
        self._engine.close()
        self._filling.clear()
        self._sent.clear()
        self._fresh = self._used = None

    def _prime(self) -> None:
        """Provides the engine with its first batches."""
        if not self._filling:
            filling = []
            for _ in range(self._engine.num_slots):
                batch = self._ring.take(self._settings.batch_size)
                filling.append((batch, batch.hold()))
            self._engine.set_slots([batch.binding for batch, _ in filling])
            self._filling = filling

    def _enqueue(self, start: Callable[..., None], arguments: tuple[np.ndarray | None, ...], rows: int) -> None:
        batch = self._ring.take(rows)
        self._sent.append(Sent(start, arguments, batch, batch.hold()))
        self._begin_next()

    def _begin_next(self) -> None:
        """Starts the oldest unfinished call in the engine, unless it has begun."""
        for sent in self._sent:
            if not sent.done:
                if not sent.begun:
                    sent.begun = True
                    sent.start(*sent.arguments, sent.batch.binding)
                return

    def _finished(self, sent: Sent, timeout: float | None = None) -> bool:
        """Waits until the engine has finished ``sent``, the oldest unfinished call; returns whether it has."""
        if not sent.done:
            self._begin_next()
            try:
                if not self._engine.finish(timeout):
                    return False
            except EnvironmentFailure as failure:
                sent.failure = failure
            sent.done = True
        return True

    def _finish_sent(self) -> None:
        """Waits for all calls sent, since the engine runs one loop at a time."""
        for sent in self._sent:
            self._finished(sent)


def get_include() -> str:
    """Returns the include folder for a C++ compiler, with ``headrace/engine/module.hpp`` and the engine's sources.

    Raises:
        FileNotFoundError: this installation lacks the sources.
    """
    package = Path(__file__).parents[2]
    for include in (package / "include", checkout() / "native" / "include"):
        if (include / "headrace" / "engine").is_dir():
            return str(include)
    raise FileNotFoundError(f"the engine's sources are not in {package}: install headrace anew")
