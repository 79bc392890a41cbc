"""The `kernels` executor: light environments, written in Python, at compiled speed.

Where an environment's step takes nanoseconds, everything around it is what costs. So a
step of a whole pool is one launch, prepared when its batch was bound: copy the actions
into place, call, done. Results are written by the kernel into the batch's own arrays.
All kinds of calls (full, partial, reset, mixed) are rows of requests to the same kernel;
an asynchronous pool keeps them in a queue and serves them when they are received.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from headrace.errors import OptionError, RenderError
from headrace.pool.actions import ACTION, Actions, action_columns, action_fields
from headrace.pool.batch import FINAL, INFO, Batch, BatchRing
from headrace.pool.executors.kernels.build import AnyEnv, Program, actions_over, program_of, rules_of, scalars_of
from headrace.pool.executors.kernels.checks import check_environment, view_name
from headrace.pool.executors.kernels.launch import Run, load, record
from headrace.pool.executors.kernels.memory import Table, pack_rows, struct_over, unpack_rows
from headrace.pool.executors.kernels.mistakes import mistakes_named
from headrace.pool.executors.kernels.program import RESEED, RESET, STEP, Episodes, Requests
from headrace.pool.executors.kernels.queue import RequestQueue
from headrace.pool.executors.kernels.sharing import Sharing
from headrace.pool.spec import PoolSettings, TaskSpec


@dataclass(slots=True)
class _Binding:
    """The launches that fill a batch: from every environment in order, or from those picked."""

    everyone: Run | None = None
    picked: Run | None = None


class KernelExecutor:
    """Implements `headrace.pool.executor.Executor` over one `KernelEnv` or `MultiAgentEnv`.

    Results do not depend on the number of threads or the size of a call: each row is one
    environment's, and what happens in it follows from that environment's arrays alone.
    """

    def __init__(self, env: AnyEnv, spec: TaskSpec, settings: PoolSettings, ring: BatchRing):
        if settings.device != "cpu":
            raise OptionError(f"arrays on {settings.device!r} are torch tensors: use headrace.make_torch")
        self._env, self._ring, self._device = env, ring, settings.device
        self._num_envs, self._batch_size = settings.num_envs, settings.batch_size
        self._is_async = settings.is_async
        n, device = settings.num_envs, settings.device
        self._scalars = scalars = scalars_of(env, spec)
        check_environment(env, spec, scalars)
        self._state = Table(env.state, n, device, env.shapes, scalars, env.tables)
        self._program = program = program_of(env, spec, device)
        self._streams = Table(program.streams, n, device, program.stream_shapes, program.stream_scalars)
        self._streams.arrays["seed"][:] = settings.seeds
        self._episodes = Table(Episodes, n, device)
        self._rules = rules_of(spec, settings.autoreset, program)
        self._load()
        self._everyone = Table(Requests, n, device)
        self._everyone.arrays["env_id"][:] = np.arange(n)
        self._picked = Table(Requests, n, device)
        actions = {name: np.zeros((n, *shape), dtype) for name, (dtype, shape) in action_fields(spec.action).items()}
        self._actions, self._all_actions = actions.get(ACTION), actions_over(program, actions)
        self._columns = {**self._picked.arrays, **_columns_of(actions)}
        self._queue = RequestQueue(self._columns)
        self._sharing = Sharing(settings.num_threads, spec.num_agents, settings.thread_affinity_offset)

    # -- synchronous calls -----------------------------------------------------------------------

    def bind(self, batch: Batch) -> None:
        batch.binding = _Binding()
        if batch.rows == self._num_envs and self._batch_size == self._num_envs:
            batch.binding.everyone = self._bound(self._everyone, batch)

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
        """The oldest requests are served here and now, so there is nothing to wait for."""
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
        unpack_rows(self._saved_arrays(), env_ids, blobs)

    def state_arrays(self) -> dict[str, np.ndarray]:
        return self._state.arrays

    def render(self, env_ids: np.ndarray) -> np.ndarray:
        arrays = {name: array[env_ids] for name, array in self._state.arrays.items()}
        return rendered(self._env, self._scalars, arrays, len(env_ids))

    def close(self) -> None:
        if sharing := vars(self).pop("_sharing", None):
            sharing.close()
        vars(self).clear()  # every array goes with its last reference

    def _saved_arrays(self) -> list[np.ndarray]:
        tables = (self._state, self._streams, self._episodes)
        return [array for table in tables for array in table.arrays.values()]

    # -- launches --------------------------------------------------------------------------------

    def _bound(self, requests: Table, batch: Batch) -> Run:
        return self._sharing.launch(batch.rows, partial(self._record, requests, batch.arrays))

    def _record(self, requests: Table, arrays: Mapping[str, np.ndarray], first: int, rows: int) -> Run:
        """The launch that serves ``rows`` requests from row ``first`` on into the same rows of a batch's arrays."""
        arguments = [
            self._state.struct,
            self._streams.struct,
            self._episodes.struct,
            self._rules,
            requests.struct,
            self._all_actions,
            *result_structs(self._env, self._program, arrays),
            first,
        ]
        return self._launch(rows, arguments)

    def _load(self) -> None:
        with mistakes_named(self._env):
            load(self._program.kernel, self._device, self._program.block_dim)

    def _launch(self, rows: int, arguments: list[Any]) -> Run:
        program = self._program
        return record(program.kernel, rows * program.lanes, arguments, self._device, program.block_dim)

    def _run_picked(self, batch: Batch) -> None:
        binding = batch.binding
        if binding.picked is None:
            binding.picked = self._bound(self._picked, batch)
        binding.picked()


def _columns_of(actions: Actions) -> dict[str, np.ndarray]:
    """Actions as columns of requests; the prefix keeps a `Dict`'s keys from theirs."""
    return {f"{ACTION}:{name}": array for name, array in action_columns(actions).items()}


def result_structs(env: AnyEnv, program: Program, arrays: Mapping[str, Any]) -> tuple[Any, Any, Any]:
    """A batch's arrays as kernels take them: outcome, view, and the view of what was last seen of an episode."""
    outcome = {name.replace(FINAL, "final_").replace(INFO, ""): array for name, array in arrays.items()}
    seen = {view_name(name): a for name, a in arrays.items() if not name.startswith(FINAL)}
    last = {view_name(name[len(FINAL) :]): a for name, a in arrays.items() if name.startswith(FINAL)}
    return struct_over(program.outcome, outcome), struct_over(env.view, seen), struct_over(env.view, last)


def rendered(env: AnyEnv, scalars: Mapping[str, Any], arrays: Mapping[str, np.ndarray], rows: int) -> np.ndarray:
    """Frames uint8[rows, height, width, 3] of environments from their state arrays [rows, …] and shared scalars."""
    if env.render is None:
        raise RenderError(f"{env.name} has no rendering")
    return np.stack([env.render({**scalars, **{name: a[i] for name, a in arrays.items()}}) for i in range(rows)])
