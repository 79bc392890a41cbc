"""The base class of executors on a device: requests, checks of arguments, launches, states.

Their memory consists of torch tensors, on a CPU or a GPU. Only functions that copy bytes to the host (`save_state`,
`on_host`) and `check` wait for the device.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from headrace.pool.executor import Executor
from headrace.pool.executors.device.guards import Guards
from headrace.pool.executors.device.memory import DeviceMemory, DeviceTable
from headrace.pool.executors.kernels.changes import put_tables
from headrace.pool.executors.kernels.diagnostics.mistakes import faults_named
from headrace.pool.executors.kernels.launch import Run
from headrace.pool.executors.kernels.launch_splitter import LaunchSplitter
from headrace.pool.executors.kernels.memory import SavedField, pack_rows, unpacked_rows
from headrace.pool.executors.kernels.program import RESEED, RESET, Bounds
from headrace.pool.executors.kernels.simulation import kept_fields, requests_for
from headrace.pool.spec import PoolSettings, TaskSpec
from headrace.pool.torch.batch import TorchBatch

Tensors = torch.Tensor | Mapping[str, torch.Tensor]


@dataclass(slots=True)
class _Binding:
    """The launches that fill a batch: a step of all environments in order, a step of some, and a reset."""

    everyone: Run | None = None
    some: Run | None = None
    resets: Run | None = None


class DeviceExecutor(Executor[TorchBatch, Tensors]):
    """The executor of a `TorchPool`: N environments on one device, and the launches that advance them.

    Args:
        env: the kernel environment or MuJoCo task; its name and functions appear in messages.
        spec: the task's spec.
        settings: the options that every task shares.
        state, streams, episodes, actions: see the attributes.
        bounds: those of the environment's state arrays.

    Attributes:
        env: the environment, as given.
        state, streams, episodes: tables of the data that persist between steps.
        actions: name → tensor [N, …], the actions of the next step; row i belongs to row i of the requests.
        everyone, some, resets: requests for a step of all environments in order, a step of some, and a reset.
        over: bool [N], whether each environment's episode has ended and no other has begun.
        guards: checks of actions and env_ids.
    """

    def __init__(
        self,
        env: Any,
        spec: TaskSpec,
        settings: PoolSettings,
        state: DeviceTable,
        streams: DeviceTable,
        episodes: DeviceTable,
        actions: dict[str, torch.Tensor],
        bounds: Bounds | None = None,
    ):
        n, self.device = settings.num_envs, torch.device(settings.device)
        self.env, self.state, self.streams, self.episodes, self.actions = env, state, streams, episodes, actions
        self._saved = kept_fields(state, streams, episodes, bounds or {})
        self.over, memory = episodes.arrays["over"], DeviceMemory(self.device)
        self.everyone, self.some, self.resets = (requests_for(memory, n) for _ in range(3))
        manual = settings.autoreset == "disabled"
        self.guards = Guards(spec, self.device, actions, self.some.arrays["env_id"], self.over, manual)
        self._splitter = LaunchSplitter(settings.num_threads, spec.num_agents)

    @abstractmethod
    def record(self, requests: Any, tensors: Mapping[str, torch.Tensor], rows: int) -> Run:
        """Returns the launch that serves the first ``rows`` requests, into the same rows of ``tensors``.

        On a GPU it uses torch's current stream.
        """
        ...

    # -- calls -----------------------------------------------------------------------------------

    def bind(self, batch: TorchBatch) -> None:
        batch.binding = _Binding()

    def step(self, actions: Tensors, env_ids: torch.Tensor | None, batch: TorchBatch) -> None:
        """Advances k environments by one agent step and fills the k rows of the batch.

        Raises:
            ActionError: shape, dtype or device of the actions is wrong; no environment was stepped.
        """
        self.guards.take(actions, batch.rows)
        if env_ids is None:
            self.advance(batch)
            return
        batch.check_place()
        binding = batch.binding
        self.guards.take_env_ids(env_ids)
        if self.guards.manual:
            self.guards.refuse_finished(self.some.arrays["env_id"], batch.rows)
        if binding.some is None:
            binding.some = self._bound(self.some, batch)
        binding.some()

    def advance(self, batch: TorchBatch) -> None:
        """Steps all environments, in order, with the actions that `Guards` copied."""
        batch.check_place()
        if self.guards.manual:
            self.guards.refuse_finished(self.everyone.arrays["env_id"], batch.rows)
        run = batch.binding.everyone
        if run is None:
            run = batch.binding.everyone = self._bound(self.everyone, batch)
        run()

    def reset(self, env_ids: np.ndarray | None, seeds: np.ndarray | None, batch: TorchBatch) -> None:
        batch.check_place()
        asked, put, k = self.resets.arrays, DeviceMemory(self.device).put, batch.rows
        put(asked["env_id"][:k], np.arange(k, dtype=np.int32) if env_ids is None else env_ids)
        asked["command"][:k].fill_(int(RESET if seeds is None else RESEED))
        if seeds is not None:
            put(asked["seed"][:k], seeds)
        if batch.binding.resets is None:
            batch.binding.resets = self._bound(self.resets, batch)
        batch.binding.resets()

    def _bound(self, requests: Any, batch: TorchBatch) -> Run:
        return self._splitter.launch(batch.rows, self.record(requests, batch.held, batch.rows))

    # -- errors ----------------------------------------------------------------------------------

    def check(self) -> None:
        """Waits for the device and raises errors in earlier arguments, once; see `TorchPool.check_errors`."""
        with self.faults_named():
            self.guards.check()

    def faults_named(self) -> AbstractContextManager[None]:
        """Returns a context in which a device fault of the environment's kernels is raised as `KernelError`."""
        return faults_named(self.env)

    # -- states ----------------------------------------------------------------------------------

    def save_state(self, env_ids: np.ndarray) -> list[bytes]:
        where = self._where(env_ids)
        return pack_rows([rows[where].cpu().numpy() for rows in self.memory()], np.arange(len(env_ids)))

    def load_state(self, env_ids: np.ndarray, blobs: list[bytes]) -> None:
        memory, where = self.memory(), self._where(env_ids)
        rest = [SavedField("", np.dtype(np.uint8), (rows.shape[1],)) for rows in memory[len(self._saved) :]]
        parts = unpacked_rows([*self._saved, *rest], env_ids, blobs)
        for rows, part in zip(memory, parts, strict=True):
            flat = part.reshape(len(env_ids), -1).view(np.uint8)
            rows[where] = torch.from_numpy(flat).to(self.device)

    def state_arrays(self) -> dict[str, torch.Tensor]:
        return self.state.arrays

    def put_tables(self, tables: Mapping[str, np.ndarray]) -> None:
        put_tables(self.state.struct, tables, str(self.device))

    def on_host(self, name: str, env_ids: np.ndarray) -> np.ndarray:
        """Returns a copy of these environments' rows of one state array, [k, …], in the dtype of the struct."""
        array = self.state_arrays()[name][self._where(env_ids)].cpu().numpy()
        return array.view(self.state.dtypes[name]) if name in self.state.dtypes else array

    def memory(self) -> list[torch.Tensor]:
        """Returns the environments' complete state as tensors uint8 [N, …] over the same memory."""
        return [rows for table in (self.state, self.streams, self.episodes) for rows in table.rows.values()]

    def close(self) -> None:
        if splitter := vars(self).pop("_splitter", None):
            splitter.close()
        vars(self).clear()  # tensors are freed with their last reference

    def _where(self, env_ids: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(env_ids.astype(np.int64)).to(self.device)
