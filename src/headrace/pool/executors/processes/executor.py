"""The `processes` executor: environments that are Python objects, in worker processes, over shared memory.

A step uses neither pickles nor pipes: actions are copied into shared memory, and each worker reads its requests there
and writes results directly into the rows that the pool's caller receives. Waiting processes sleep on a futex.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from headrace.errors import EnvironmentFailure, RecvTimeoutError, StateError
from headrace.pool.actions import Actions, action_columns
from headrace.pool.batch import Batch, BatchRing, batch_fields
from headrace.pool.executor import HostExecutor
from headrace.pool.executors.processes import control as codes
from headrace.pool.executors.processes import slots
from headrace.pool.executors.processes.arena import Arena
from headrace.pool.executors.processes.calls import CallFile
from headrace.pool.executors.processes.control import Control, Share
from headrace.pool.executors.processes.deaths import MARK, Deaths
from headrace.pool.executors.processes.dispatch import Dispatch
from headrace.pool.executors.processes.mailbox import InfoMessage, Mailbox
from headrace.pool.executors.processes.worker import Orders
from headrace.pool.executors.processes.worker_processes import dumped
from headrace.pool.frames import rgb_frames
from headrace.pool.infos import OURS
from headrace.pool.spec import PoolSettings, TaskSpec

FAILURE = {"failed": True}  # the info of a row that holds no result


class Sent(NamedTuple):
    """A call that was sent and not yet received: complete once worker w has served ``due[w]`` requests."""

    env_ids: np.ndarray
    batch: Batch
    held: tuple[np.ndarray, ...]
    due: list[int]


class ProcessesExecutor(HostExecutor):
    """The executor of any function that makes a `gymnasium.Env`.

    Args:
        maker: a function env_id → environment; it is sent to the workers by value.
        timeout, restart, deaths: see `Dispatch`.
    """

    pickles = True
    background = True
    takes_options = True
    finishes_steps = True  # workers finish every request, even if an exception has ended the caller's wait

    def __init__(
        self,
        maker: Callable[[int], Any],
        timeout: float,
        restart: bool,
        spec: TaskSpec,
        settings: PoolSettings,
        ring: BatchRing,
        deaths: Deaths | None = None,
    ):
        n = settings.num_envs
        self.waiting = True
        self._spec, self._settings, self._ring = spec, settings, ring
        self._control = control = Control(spec, n, min(n, settings.num_threads))
        control.seed[:] = settings.seeds
        fields = batch_fields(spec, settings.autoreset)
        self._objects = [f for f in fields if f.dtype == object]
        self._arena = Arena([f for f in fields if f.dtype != object], n)
        self._everyone = np.arange(n, dtype=np.int32)
        self._failed = np.zeros(n, np.bool_)  # environments that raised and were not reset since
        self._sent: deque[Sent] = deque()  # synchronous, oldest first
        self._unfinished: Sent | None = None  # a call that an exception ended before its results had arrived
        self._done = deque[int]()  # asynchronous: environments whose results have arrived
        self._kept: list[tuple[Batch, tuple[np.ndarray, ...]]] = []  # results in which one failed, for the next recv
        if settings.is_async:
            place, self._staged = self._arena.take(n)
            control.place[:] = np.stack([np.full(n, place), np.full(n, n), np.arange(n)], 1)
        made = dumped((maker, replace(spec, options={})))

        # keys that the pool itself may add to info
        self._mark = mark = ("restarted" if deaths is None else MARK) if restart else ""
        reserved = OURS | ({mark} if mark else set()) | (FAILURE.keys() if settings.is_async else set())

        def orders(share: Share, box: Mailbox, call_file: CallFile) -> Orders:
            chunks = self._arena.chunks
            return Orders(share, made, settings.autoreset, control, box, chunks, call_file, mark, reserved)

        self._dispatch = Dispatch(control, orders, spec.task, timeout, restart, settings.is_async, deaths)
        self._taken = [0 for _ in self._dispatch.workers]  # asynchronous: served requests that were added to `_done`

    # -- memory ----------------------------------------------------------------------------------

    def allocate(self, rows: int) -> dict[str, np.ndarray]:
        """Returns the arrays [rows, …] of a batch, in shared memory except for arrays of objects."""
        _, arrays = self._arena.take(rows)
        return arrays | {f.name: np.full(rows, None, object) for f in self._objects}

    def bind(self, batch: Batch) -> None:
        batch.binding = self._arena.place_of(batch.arrays)

    # -- synchronous calls -----------------------------------------------------------------------

    def step(self, actions: Actions, env_ids: np.ndarray | None, batch: Batch) -> None:
        self._settle()
        target, ids = self._target(batch), self._everyone if env_ids is None else env_ids
        if env_ids is None and not np.count_nonzero(self._dispatch.lost):
            control = self._control
            for name, column in action_columns(actions).items():
                control.actions[name][...] = column
            control.whole[0], control.whole[1] = target.binding, target.rows
            self._unfinished = Sent(ids, target, target.hold(), [])
            self._dispatch.ask_everyone()
        else:
            self._post(ids, target, actions)
        self._receive(ids, batch, target)

    def reset(
        self,
        env_ids: np.ndarray | None,
        seeds: np.ndarray | None,
        batch: Batch,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self._settle()
        target, ids = self._target(batch), self._everyone if env_ids is None else env_ids
        self._post_resets(ids, seeds, target, options)
        self._receive(ids, batch, target)

    def _target(self, batch: Batch) -> Batch:
        """Returns the batch that workers write: ``batch`` itself, or a temporary one if it is not in shared memory."""
        return batch if batch.binding is not None else self._ring.take(batch.rows)

    def _receive(self, env_ids: np.ndarray, batch: Batch, target: Batch) -> None:
        """Waits for the results of the latest request, and puts them into ``batch``."""
        self._dispatch.wait(self._dispatch.due())
        self._unfinished = None
        if target is not batch:
            for name, array in batch.arrays.items():
                array[...] = target.arrays[name]
        self._finish(env_ids, batch)

    def _settle(self) -> None:
        """Waits for an earlier call that an exception interrupted before its results had arrived."""
        if self._unfinished is not None:
            self._dispatch.wait(self._dispatch.due())
            self._unfinished = None

    # -- requests --------------------------------------------------------------------------------

    def send(self, actions: Actions, env_ids: np.ndarray) -> None:
        self._settle()
        batch = self._new_batch(len(env_ids))
        self._post(env_ids, batch, actions)
        self._note_sent(env_ids, batch)

    def send_reset(
        self, env_ids: np.ndarray, seeds: np.ndarray | None, options: Mapping[str, Any] | None = None
    ) -> None:
        self._settle()
        batch = self._new_batch(len(env_ids))
        self._post_resets(env_ids, seeds, batch, options)
        self._note_sent(env_ids, batch)

    def _new_batch(self, rows: int) -> Batch | None:
        return None if self._settings.is_async else self._ring.take(rows)

    def _note_sent(self, env_ids: np.ndarray, batch: Batch | None) -> None:
        if batch is not None:
            self._sent.append(Sent(env_ids, batch, batch.hold(), self._dispatch.due()))
            self._unfinished = None

    def _post(self, env_ids: np.ndarray, batch: Batch | None, actions: Actions) -> None:
        """Requests a step of these environments; row i of the batch receives the result of ``env_ids[i]``."""
        for name, column in action_columns(actions).items():
            self._control.actions[name][env_ids] = column
        self._control.command[env_ids] = np.where(self._dispatch.lost[env_ids], codes.RESTART, codes.STEP)
        self._post_each(env_ids, batch)

    def _post_resets(
        self, env_ids: np.ndarray, seeds: np.ndarray | None, batch: Batch | None, options: Mapping[str, Any] | None
    ) -> None:
        if options:
            self._call(slots.told, {env_id: dict(options) for env_id in env_ids.tolist()})
        self._clear_failures(env_ids)
        command = codes.RESET if seeds is None else codes.RESEED
        self._control.command[env_ids] = command + (codes.WITH_OPTIONS if options else 0)
        if seeds is not None:
            self._control.seed[env_ids] = seeds
        self._post_each(env_ids, batch)

    def _post_each(self, env_ids: np.ndarray, batch: Batch | None) -> None:
        self._dispatch.lost[env_ids] = False
        if batch is not None:
            place = self._control.place
            place[env_ids, 0], place[env_ids, 1] = batch.binding, batch.rows
            place[env_ids, 2] = np.arange(len(env_ids))
            self._unfinished = Sent(env_ids, batch, batch.hold(), [])
        self._dispatch.ask_each(env_ids)

    # -- results ---------------------------------------------------------------------------------

    def recv(self, timeout: float | None) -> Batch:
        self._settle()
        if self._settings.is_async:
            return self._collect(self._settings.batch_size, timeout)
        oldest = self._sent[0]
        if not self._dispatch.wait(oldest.due, timeout):
            raise RecvTimeoutError(
                f"the steps that were sent did not finish within {timeout} s; another recv waits for them"
            )
        self.waiting = False
        self._sent.popleft()
        try:
            self._finish(oldest.env_ids, oldest.batch)
        except EnvironmentFailure:
            self.waiting = True
            raise
        self.waiting = True
        return oldest.batch

    def _collect(self, rows: int, timeout: float | None) -> Batch:
        """Returns the ``rows`` results that are complete first, in a new batch."""
        if not self._kept and not self._dispatch.wait_for(rows, self._look_for_results, timeout):
            raise RecvTimeoutError(f"{rows} results were not ready within {timeout} s; another recv waits for them")
        self.waiting = False
        try:
            batch = self._kept.pop()[0] if self._kept else self._take_done(rows)
        except EnvironmentFailure:
            self.waiting = True
            raise
        self.waiting = True
        return batch

    def _take_done(self, rows: int) -> Batch:
        """Returns ``rows`` results that have arrived; if one failed, raises and keeps them for the next call."""
        batch = self._ring.take(rows)
        ids = np.array([self._done.popleft() for _ in range(rows)], np.int32)
        for name, staged in self._staged.items():
            np.take(staged, ids, 0, out=batch.arrays[name])
        try:
            self._finish(ids, batch)
        except EnvironmentFailure:
            self._kept.append((batch, batch.hold()))
            raise
        finally:
            if gone := self._dispatch.gone:
                for row, env_id in enumerate(ids.tolist()):
                    if env_id in gone:
                        self._fail(batch, row, env_id)
        return batch

    def _fail(self, batch: Batch, row: int, env_id: int) -> None:
        """Fills the row of an environment whose result was lost with its process."""
        for name in ("reward", "terminated", "truncated", "elapsed_step"):
            batch.arrays[name][row] = 0
        batch.arrays["env_id"][row] = env_id
        batch.infos[row] = FAILURE

    def _look_for_results(self) -> int:
        """Records which results have arrived; returns the number of those not yet received."""
        for worker, served in enumerate(self._control.served):
            asked_for, before, now = self._dispatch.asked_for[worker], self._taken[worker], served[0]
            if now == before:
                continue
            self.waiting = False  # an exception between the next statements would record results twice
            self._done += [request for i in range(before, now) if (request := asked_for[i]) >= 0]
            self._taken[worker] = now
            for i in range(before, now):
                asked_for.pop(i, None)
            self.waiting = True
        return len(self._done)

    def discard(self) -> None:
        dispatch = self._dispatch
        dispatch.wait(dispatch.due())
        if self._settings.is_async:
            self._look_for_results()
        for forgotten in (self._done, self._kept, self._sent, *dispatch.asked_for):
            forgotten.clear()
        self._unfinished = None
        self._messages(self._everyone)
        dispatch.failures.clear()  # failures of discarded results are discarded, too
        self.waiting = True

    def _finish(self, env_ids: np.ndarray, batch: Batch) -> None:
        """Reads the messages of these environments into the batch; raises the failure of one that failed."""
        batch.infos, batch.final_infos = {}, {}
        if messages := self._messages(env_ids):
            told = {row: FAILURE if message.error else message.info for row, message in messages.items()}
            batch.infos = {row: info for row, info in told.items() if info}
            batch.final_infos = {row: message.final for row, message in messages.items() if message.final}
            for row, message in messages.items():
                for name, value in (message.objects or {}).items():
                    batch.arrays[name][row] = value
        if failures := self._dispatch.failures:
            others = [str(failures.pop()).splitlines()[0] for _ in failures[1:]]
            if others:
                failures[0].add_note(f"so did others: {'; '.join(reversed(others))}")
            raise failures.pop()  # without a local name, which would make a reference cycle with this frame

    def _messages(self, env_ids: np.ndarray) -> dict[int, InfoMessage]:
        """Returns row → message of these environments; appends their exceptions to the dispatch's failures."""
        dispatch, messages, found = self._dispatch, self._control.message, {}
        lengths = messages[:, 1] if env_ids is self._everyone else messages[env_ids, 1]
        if not np.count_nonzero(lengths):
            return found
        for row in np.flatnonzero(lengths).tolist():
            env_id = int(env_ids[row])
            message = dispatch.mailboxes[dispatch.worker_of[env_id]].read(env_id, messages)
            if message is None:
                continue
            found[row] = message
            if self._mark in message.info:
                dispatch.note_restart(env_id)
            if message.error is not None:
                self._failed[env_id] = True
                dispatch.failures.append(dispatch.failure(env_id, *message.error))
        return found

    # -- the rest --------------------------------------------------------------------------------

    def save_state(self, env_ids: np.ndarray) -> list[bytes]:
        self._check_there(env_ids.tolist())
        try:
            return self._call(slots.saved, dict.fromkeys(env_ids.tolist()))
        except EnvironmentFailure as error:
            self._check_there(env_ids.tolist())  # whose process was lost meanwhile
            why = error.__cause__ or error
            raise StateError(
                f"an environment of {self._spec.task} cannot be saved, because it cannot be pickled: {why}"
            ) from error

    def load_state(self, env_ids: np.ndarray, blobs: list[bytes]) -> None:
        try:
            self._call(slots.loaded, dict(zip(env_ids.tolist(), blobs, strict=True)))
            self._call(slots.replaced, dict.fromkeys(env_ids.tolist()))
            self._clear_failures(env_ids)
            self._dispatch.lost[env_ids] = False
        except EnvironmentFailure as error:
            raise StateError(f"the state cannot be restored: {error}") from error

    def state_arrays(self) -> Mapping[str, np.ndarray]:
        return {}

    def render(self, env_ids: np.ndarray) -> np.ndarray:
        self._check_there(env_ids.tolist())
        return rgb_frames(self._spec.task, self._call(slots.rendered, dict.fromkeys(env_ids.tolist())))

    def call(self, name: Any, arguments: Sequence[Any], keywords: Mapping[str, Any], env_ids: np.ndarray) -> list[Any]:
        """Returns an attribute of each environment, or its result if it is callable; see `slots.called`."""
        self._check_there(env_ids.tolist())
        function = partial(slots.called, name, tuple(arguments), dict(keywords))
        return self._call(function, dict.fromkeys(env_ids.tolist()))

    def set_attr(self, name: str, values: Mapping[int, Any]) -> None:
        """Sets an attribute of environments; ``values`` maps env_id to value."""
        self._check_there(values)
        self._call(partial(slots.assigned, name), values)

    def _clear_failures(self, env_ids: np.ndarray) -> None:
        """Clears the records of earlier failures of environments that are reset or loaded."""
        self._dispatch.gone.difference_update(env_ids.tolist())
        self._failed[env_ids] = False

    def _check_there(self, env_ids: Iterable[int]) -> None:
        """Raises `EnvironmentFailure` for an environment that was lost or has failed, and must first be reset."""
        for i in env_ids:
            if self._dispatch.lost[i]:
                what = "was lost with its process; its next step begins another episode and says so: step or reset it"
            elif i in self._dispatch.gone:
                what = "was lost with its process: reset it"
            elif self._failed[i]:
                what = "has raised since its last reset: reset it"
            else:
                continue
            raise EnvironmentFailure(f"{self._spec.task}: environment {i} {what} first")

    def _call(self, function: Callable[[Any, Any], Any], arguments: Mapping[int, Any]) -> list[Any]:
        self._settle()
        return self._dispatch.call(function, arguments)

    def wake(self) -> None:
        if vars(self):
            self._dispatch.wake()

    def close(self) -> None:
        dispatch = vars(self).pop("_dispatch", None)
        if dispatch is not None:
            dispatch.close()
            self._control.close()
            self._arena.close()
            vars(self).clear()
