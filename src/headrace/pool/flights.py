"""Sending and receiving of a pool: requests in flight, and their clean-up after an exception."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from threading import get_ident
from typing import Any

import numpy as np

from headrace.errors import ClosedError, EnvironmentFailure, RecvTimeoutError, SequenceError
from headrace.pool.base import BasePool
from headrace.pool.batch import Batch, BatchRing
from headrace.pool.executor import HostExecutor
from headrace.pool.pickles import Recipe
from headrace.pool.spec import PoolSettings
from headrace.pool.task import Task
from headrace.pool.turns import NOBODY, exclusive, receiving


class Flights(BasePool[HostExecutor]):
    """The part of a `Pool` that sends requests and receives results.

    Attributes:
        batch_size: number of rows that `recv` returns; ``num_envs`` in a synchronous pool.
    """

    def __init__(self, task: Task, settings: PoolSettings, recipe: Recipe | None):
        # about N / B batches are in flight, and the caller keeps a few results
        n, k = settings.num_envs, settings.batch_size
        self._ring = BatchRing(task.spec, settings.autoreset, k, 8 + n // k)
        executor = task.make_executor(task.spec, settings, self._ring)
        self._ring.serve(executor)
        self._manual = settings.autoreset == "disabled"
        super().__init__(task.spec, settings, executor, self._manual, recipe)
        self.batch_size, self._changes = settings.batch_size, task.changes
        self._sent: deque[np.ndarray] = deque()  # synchronous pools: env_ids of each send
        # synchronous pools: batches of a recv that timed out half-way, protected from reuse
        self._received: list[tuple[Batch, tuple[np.ndarray, ...]]] = []
        self._arrived: Batch | None = None  # asynchronous pools: a received batch whose status is not yet recorded

    # -- sending ---------------------------------------------------------------------------------

    @exclusive
    def _send_reset(
        self, ids: np.ndarray | None, seeds: np.ndarray | None, *options: Any, received_next: bool = False
    ) -> None:
        """Starts resets (of all environments if ``ids`` is None) and returns immediately.

        Args:
            ids, seeds, options: as `reset_arguments` returns them.
            received_next: whether the next batch must consist of results of these environments only.
        """
        if ids is None:
            self._discard()
            ids = self.all_env_ids
        self._status.check_idle(ids)
        if received_next:
            self._check_received_next(ids)
        self._sending(ids, lambda: self._executor.send_reset(ids, seeds, *options), starts=True)

    def _check_received_next(self, ids: np.ndarray) -> None:
        """Raises `SequenceError` if the next batch would wait for results of other environments, or contain any."""
        if self._status.num_in_flight:
            busy = np.flatnonzero(self._status.in_flight)[0]
            raise SequenceError(
                f"environment {busy} is in flight, and reset could return its step in place of a first observation: "
                "recv what is in flight first, or start the resets with async_reset(env_id)"
            )
        if len(ids) < self.batch_size:
            raise SequenceError(
                f"reset returns {self.batch_size} rows, but names {len(ids)} environments: "
                "start the resets with async_reset(env_id), and recv when enough is in flight"
            )

    def _sending(self, ids: np.ndarray, send: Callable[[], None], starts: bool = False) -> None:
        """Calls ``send`` and updates the status; another thread may receive meanwhile."""
        self._unsure = ids
        if self._executor.background:  # the results may be received before `send` returns
            self._status.note_sent(ids)
            send()
        else:  # results marked as in flight can be received immediately
            send()
            self._status.note_sent(ids)
        if starts:
            self._status.note_started(ids)
        if not self.settings.is_async:
            self._sent.append(ids)
        self._settled()

    # -- receiving -------------------------------------------------------------------------------

    def _received_batch(self, timeout: float | None) -> Batch:
        """Returns the batch that the executor receives; an exception while it waits leaves all results in flight."""
        self._torn = True
        try:
            return self._executor.recv(timeout)
        except (RecvTimeoutError, EnvironmentFailure, ClosedError):
            self._torn = False
            raise
        except BaseException:
            if self._executor.waiting:
                self._torn = False
            raise

    @receiving
    def _recv_async(self, timeout: float | None) -> Batch:
        in_flight = self._status.num_in_flight
        if in_flight < self.batch_size:
            raise SequenceError(
                f"recv returns {self.batch_size} results but {in_flight} are in flight: send more first"
            )
        if self._arrived is None:  # otherwise an exception interrupted the call that received it
            self._arrived = self._received_batch(timeout)
            self._torn = False
        batch = self._arrived
        self._status.note_results(batch)
        self._status.note_received(batch.arrays["env_id"])
        self._arrived = None
        return batch

    @exclusive
    def _recv_sync(self, timeout: float | None) -> Batch:
        if not self._sent and not self._received:
            raise SequenceError("recv with nothing in flight: send actions or reset first")
        while self._sent:
            try:
                batch = self._received_batch(timeout)
            except EnvironmentFailure:
                ids = self._sent.popleft()
                self._status.note_received(ids)
                if self._manual:  # without the lost results, it is unknown which environments have finished
                    self._status.note_broken(ids)
                self._settled()
                raise
            self._received.append((batch, batch.hold()))
            self._sent.popleft()
            self._torn = False
        batches = [batch for batch, _ in self._received]
        whole = batches[0] if len(batches) == 1 else self._ring.join(batches)
        self._torn = True
        self._status.note_results(whole)
        self._status.note_received(whole.arrays["env_id"])
        self._received = []
        self._torn = False
        self._settled()
        return whole

    # -- cleaning up -----------------------------------------------------------------------------

    def _recover(self) -> None:
        """Cleans up after a call that an exception interrupted.

        Its progress is unknown, so all results in flight are dropped, and the environments in flight or in the call
        must be reset.
        """
        self._status.note_broken(np.flatnonzero(self._status.in_flight))
        if self._unsure is not None:
            self._status.note_broken(self._unsure)
        self._forget()

    def _discard(self) -> None:
        """Waits for results in flight and drops them."""
        if self._status.num_in_flight:
            self._unsure = self.all_env_ids
            self._forget()

    def _forget(self) -> None:
        me = get_ident()
        if self._receiver:
            raise SequenceError("another thread is receiving from this pool: its recv must return first")
        self._receiver = me
        try:
            lost = self._executor.discard()
            if lost is not None:
                self._status.note_broken(lost)
            self._sent.clear()
            self._received.clear()
            self._arrived = None
            self._status.note_received(self.all_env_ids)
            self._torn = False
            self._settled()
        finally:
            self._receiver = NOBODY
