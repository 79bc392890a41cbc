"""Debug mode: a pool whose environments run as plain Python, one row after the other.

The kernel that a pool would launch is interpreted (see `interpret`). Results are those of compiled code; a step takes
some thousand times as long. An index out of range, an integer division by zero, access to another environment's row, an
endless loop, state that is read before it was set, a view that is not filled, a reward or observation that is NaN or
infinite, and an observation outside of its space are reported with the line of the author's code.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import numpy as np

from headrace.errors import EnvironmentFailure, OptionError
from headrace.pool.batch import Batch, BatchRing
from headrace.pool.executors.kernels.build import AnyEnv, Program
from headrace.pool.executors.kernels.diagnostics.rows import Rows
from headrace.pool.executors.kernels.memory import HOST
from headrace.pool.executors.kernels.serving import SimulationExecutor
from headrace.pool.executors.kernels.simulation import Simulation
from headrace.pool.spec import PoolSettings, TaskSpec


class DebugExecutor(SimulationExecutor):
    """An executor that interprets its kernel instead of compiling and launching it."""

    def __init__(self, env: AnyEnv, spec: TaskSpec, settings: PoolSettings, ring: BatchRing):
        if settings.device != "cpu":
            raise OptionError(f"{spec.task}: debug mode runs on device 'cpu', not {settings.device!r}")
        settings, rows = replace(settings, num_threads=1), Rows(env, spec)
        simulation = Simulation(env, spec, settings, HOST, _not_compiled, rows.record)
        self._known = {name: np.zeros(array.shape, np.bool_) for name, array in simulation.state.arrays.items()}
        rows.known = self._known
        # asynchronous: the batch in which an environment failed, which the next recv returns
        self._kept: list[tuple[Batch, tuple[np.ndarray, ...]]] = []
        super().__init__(simulation, spec, settings, ring)

    def discard(self) -> None:
        while self._queue.size or self._kept:
            with suppress(EnvironmentFailure):  # failures of discarded results are discarded, too
                self._serve_queued(min(self._queue.size, self._batch_size))

    def load_state(self, env_ids: np.ndarray, blobs: list[bytes]) -> None:
        super().load_state(env_ids, blobs)
        for known in self._known.values():
            known[env_ids] = True

    def _serve_queued(self, rows: int) -> Batch:
        if self._kept:
            return self._kept.pop()[0]
        batch = self._ring.take(rows)
        self._queue.pop(rows, self._columns)
        try:
            self._run_picked(batch)
        except EnvironmentFailure:
            if self._is_async:
                self._kept.append((batch, batch.hold()))
            raise
        return batch


def _not_compiled(env: AnyEnv, spec: TaskSpec, program: Program, device: str) -> None:
    """Does nothing: an interpreted kernel is not loaded."""
