"""The executor of kernel environments on the host: turns calls into rows of requests, which one launch serves.

If an environment's step takes nanoseconds, the overhead dominates. A step of a whole pool is therefore a single
launch, prepared when its batch is bound: a step copies the actions and calls the launch. The kernel writes results
directly into the batch's arrays. All kinds of calls (full, partial, reset, mixed) are rows of requests to the same
kernel; an asynchronous pool keeps them in a queue and serves them in `recv`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from headrace.pool.actions import ACTION, Actions, action_columns
from headrace.pool.batch import Batch, BatchRing
from headrace.pool.executor import HostExecutor
from headrace.pool.executors.kernels.changes import put_tables
from headrace.pool.executors.kernels.launch import Call, Movable, Run
from headrace.pool.executors.kernels.launch_splitter import LaunchSplitter
from headrace.pool.executors.kernels.memory import HOST, Table, pack_rows, unpacked_rows
from headrace.pool.executors.kernels.program import RESEED, RESET, STEP
from headrace.pool.executors.kernels.queue import RequestQueue
from headrace.pool.executors.kernels.simulation import Simulation, kept_fields, requests_for
from headrace.pool.spec import PoolSettings, TaskSpec

MOST_PREPARED = 64  # launches, of different numbers of rows, that an executor remembers


@dataclass(slots=True)
class _Binding:
    """The launches that fill a batch: for all environments in order, and for any other requests."""

    everyone: Run | None = None
    picked: Run | None = None


class SimulationExecutor(HostExecutor):
    """An executor over a `Simulation` in NumPy's memory.

    Results do not depend on the number of threads or the size of a call: each row belongs to one environment and
    depends on that environment's arrays only.
    """

    background = False
    finishes_steps = False  # an exception may leave a part of the environments stepped
    waiting = False

    def __init__(self, simulation: Simulation[Table], spec: TaskSpec, settings: PoolSettings, ring: BatchRing):
        self._simulation, self._ring = simulation, ring
        self._num_envs, self._batch_size = settings.num_envs, settings.batch_size
        self._is_async = settings.is_async
        self._everyone, self._picked = (requests_for(HOST, settings.num_envs) for _ in range(2))
        self._actions = simulation.actions.get(ACTION)
        self._columns = {**self._picked.arrays, **_columns_of(simulation.actions)}
        self._queue = RequestQueue(self._columns)
        self._prepared: dict[tuple[bool, int], Movable] = {}
        self._splitter = LaunchSplitter(settings.num_threads, spec.num_agents, settings.thread_affinity_offset)

    # -- synchronous calls -----------------------------------------------------------------------

    def bind(self, batch: Batch) -> None:
        whole = batch.rows == self._num_envs and not self._is_async
        batch.binding = _Binding(self._bound(self._everyone, batch) if whole else None)

    def step(self, actions: Actions, env_ids: np.ndarray | None, batch: Batch) -> None:
        if env_ids is not None:
            self._serve(env_ids, STEP, batch, _columns_of(actions))
            return
        if self._actions is not None:
            self._actions[:] = actions
        else:
            for name, column in _columns_of(actions).items():
                self._columns[name][:] = column
        batch.binding.everyone()

    def reset(self, env_ids: np.ndarray | None, seeds: np.ndarray | None, batch: Batch) -> None:
        ids = self._everyone.arrays["env_id"] if env_ids is None else env_ids
        if seeds is None:
            self._serve(ids, RESET, batch, {})
        else:
            self._serve(ids, RESEED, batch, {"seed": seeds})

    def _serve(self, env_ids: np.ndarray, command: Any, batch: Batch, columns: Mapping[str, np.ndarray]) -> None:
        k = len(env_ids)
        self._columns["env_id"][:k] = env_ids
        self._columns["command"][:k] = int(command)
        for name, column in columns.items():
            self._columns[name][:k] = column
        self._run_picked(batch)

    # -- asynchronous calls ----------------------------------------------------------------------

    def send(self, actions: Actions, env_ids: np.ndarray) -> None:
        self._queue.push(len(env_ids), {"env_id": env_ids, "command": int(STEP), **_columns_of(actions)})

    def send_reset(self, env_ids: np.ndarray, seeds: np.ndarray | None) -> None:
        asked = {"command": int(RESET)} if seeds is None else {"command": int(RESEED), "seed": seeds}
        self._queue.push(len(env_ids), {"env_id": env_ids, **asked})

    def recv(self, timeout: float | None) -> Batch:
        """Serves the oldest requests immediately, so that ``timeout`` has no effect."""
        return self._serve_queued(self._batch_size if self._is_async else self._queue.oldest)

    def discard(self) -> None:
        while self._queue.size:
            self._serve_queued(min(self._queue.size, self._batch_size))

    def _serve_queued(self, rows: int) -> Batch:
        batch = self._ring.take(rows)
        self._queue.pop(rows, self._columns)
        self._run_picked(batch)
        return batch

    # -- the rest --------------------------------------------------------------------------------

    def save_state(self, env_ids: np.ndarray) -> list[bytes]:
        return pack_rows(self._saved_arrays(), env_ids)

    def load_state(self, env_ids: np.ndarray, blobs: list[bytes]) -> None:
        here = self._simulation
        rows = unpacked_rows(kept_fields(here.state, here.streams, here.episodes, here.bounds), env_ids, blobs)
        for array, part in zip(self._saved_arrays(), rows, strict=True):
            array[env_ids] = part

    def state_arrays(self) -> dict[str, np.ndarray]:
        return self._simulation.state.arrays

    def put_tables(self, tables: Mapping[str, np.ndarray]) -> None:
        put_tables(self._simulation.state.struct, tables)

    def render(self, env_ids: np.ndarray) -> np.ndarray:
        arrays = {name: array[env_ids] for name, array in self.state_arrays().items()}
        return self._simulation.render(arrays, len(env_ids))

    def close(self) -> None:
        if splitter := vars(self).pop("_splitter", None):
            splitter.close()
        vars(self).clear()  # arrays are freed with their last reference

    def _saved_arrays(self) -> list[np.ndarray]:
        here = self._simulation
        tables = (here.state, here.streams, here.episodes)
        return [array for table in tables for array in table.arrays.values()]

    # -- launches --------------------------------------------------------------------------------

    def _bound(self, requests: Table, batch: Batch) -> Run:
        """Returns the launch of all rows of a batch, which is prepared once for all batches of as many rows."""
        return self._splitter.launch(batch.rows, self._record(requests, batch))

    def _record(self, requests: Table, batch: Batch) -> Run:
        key = requests is self._picked, batch.rows
        if key in self._prepared:
            return self._prepared[key].over(batch.addresses)
        run = self._simulation.record(requests, batch.arrays, batch.rows)
        if isinstance(run, Call):  # not of debug mode, nor of a Warp whose compiled functions are out of reach
            if len(self._prepared) == MOST_PREPARED:
                self._prepared.clear()
            self._prepared[key] = Movable(run, self._simulation.places(batch.arrays))
        return run

    def _run_picked(self, batch: Batch) -> None:
        binding = batch.binding
        if binding.picked is None:
            binding.picked = self._bound(self._picked, batch)
        binding.picked()


def _columns_of(actions: Actions) -> dict[str, np.ndarray]:
    """Returns actions as columns of requests; a prefix distinguishes a `Dict`'s keys from other columns."""
    return {f"{ACTION}:{name}": array for name, array in action_columns(actions).items()}
