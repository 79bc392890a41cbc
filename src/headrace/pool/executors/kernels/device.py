"""Environments whose memory is torch's, on a CPU or a GPU.

Everything that kernels read or write is a tensor; Warp sees the same memory. Nothing
here waits for the device, except what must bring bytes to the host (`save`, `state_arrays`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import warp as wp

from headrace.errors import OptionError
from headrace.pool.actions import action_fields
from headrace.pool.executors.kernels.build import AnyEnv, actions_over, program_of, rules_of, scalars_of
from headrace.pool.executors.kernels.checks import check_environment
from headrace.pool.executors.kernels.executor import rendered, result_structs
from headrace.pool.executors.kernels.launch import Run, load, quiet, record_on_torch
from headrace.pool.executors.kernels.memory import array_fields, pack_rows, row_shape, scalar_fields, unpack_rows
from headrace.pool.executors.kernels.mistakes import mistakes_named
from headrace.pool.executors.kernels.program import RESEED, RESET, STEP, Episodes, Requests
from headrace.pool.spec import PoolSettings, TaskSpec


def torch_dtype(dtype: Any) -> torch.dtype:
    """The torch dtype of a NumPy dtype."""
    return torch.from_numpy(np.zeros(0, dtype)).dtype


def check_device(device: str | torch.device) -> str:
    """``"cpu"`` or ``"cuda:i"``; raises `OptionError` naming the devices that there are."""
    with quiet():
        usable = wp.get_cuda_device_count() if torch.cuda.is_available() else 0
    here = ["cpu", *(f"cuda:{i}" for i in range(min(usable, torch.cuda.device_count())))]
    try:
        wanted = torch.device(device)
    except (RuntimeError, TypeError):
        raise OptionError(f"device must be one of {', '.join(here)}, not {device!r}") from None
    index = wanted.index
    if wanted.type == "cuda" and index is None:
        index = torch.cuda.current_device() if usable else 0
    name = "cpu" if wanted.type == "cpu" else f"{wanted.type}:{index or 0}"
    if name not in here:
        raise OptionError(f"there is no device {str(device)!r} here; there is {', '.join(here)}")
    return name


@dataclass(slots=True)
class DeviceTable:
    """Rows for the array fields of a `warp.struct`, as bytes.

    Attributes:
        struct: the struct's instance, as kernels take it.
        rows: name → tensor uint8 [rows, bytes of a row].
        layout: name → NumPy dtype and shape of one row.
        shared: tensors that all rows share.
    """

    struct: Any
    rows: dict[str, torch.Tensor]
    layout: dict[str, tuple[np.dtype, tuple[int, ...]]]
    shared: list[Any]

    def column(self, name: str) -> torch.Tensor:
        """The tensor [rows, …] of a field; unsigned integers of 32 or 64 bits come as signed ones."""
        dtype, shape = self.layout[name]
        signed = np.dtype(f"i{dtype.itemsize}") if dtype.kind == "u" and dtype.itemsize > 1 else dtype
        tensor = self.rows[name].view(torch_dtype(signed))
        return tensor.reshape(-1, *shape)


def device_table(
    struct: Any,
    rows: int,
    device: torch.device,
    shapes: Mapping[str, Any] | None = None,
    scalars: Mapping[str, Any] | None = None,
    shared: Mapping[str, np.ndarray] | None = None,
) -> DeviceTable:
    """As `memory.Table`, in torch's memory, all zero."""
    table = DeviceTable(struct(), {}, {}, [])
    for name, kind in array_fields(struct).items():
        if name in (shared or {}):
            with quiet():
                array = wp.array((shared or {})[name], dtype=kind.dtype, ndim=kind.ndim, device=str(device))
            table.shared.append(array)
        else:
            shape = row_shape(name, shapes or {}, scalars or {})
            scalar = np.dtype(wp.dtype_to_numpy(getattr(kind.dtype, "_wp_scalar_type_", kind.dtype)))
            inner = (*shape, *getattr(kind.dtype, "_shape_", ()))
            size = int(np.prod(inner, dtype=np.int64)) * scalar.itemsize
            memory = torch.zeros((rows, size), dtype=torch.uint8, device=device)
            table.rows[name], table.layout[name] = memory, (scalar, inner)
            with quiet():
                array = wp.array(ptr=memory.data_ptr(), shape=(rows, *shape), dtype=kind.dtype, device=str(device))
        setattr(table.struct, name, array)
    for name in scalar_fields(struct):
        setattr(table.struct, name, (scalars or {})[name])
    return table


class DeviceEnvironments(ABC):
    """N environments on one device, and the launches that advance them.

    Attributes:
        env: what they are made of; its `name` and functions are for messages.
        state, streams, episodes: tables of what lives from step to step.
        actions: name → tensor [N, …]: what the next step reads, row i for row i of the requests.
        everyone, some, resets: requests: a step of all in order, a step of those named, a reset.
        over: bool [N], the episode has ended and no other has begun.
        divisible: whether a launch may be shared among threads.
    """

    divisible = False

    def __init__(self, env: Any, state: DeviceTable, streams: DeviceTable, spec: TaskSpec, settings: PoolSettings):
        n, device = settings.num_envs, torch.device(settings.device)
        self.env, self.device, self.state, self.streams = env, device, state, streams
        self.streams.column("seed").copy_(torch.from_numpy(settings.seeds.view(np.int64)))
        self.episodes = device_table(Episodes, n, device)
        self.over = self.episodes.column("over")
        self.everyone, self.some, self.resets = (device_table(Requests, n, device) for _ in range(3))
        self.everyone.column("env_id").copy_(torch.arange(n, device=device))
        self.everyone.column("command").fill_(int(STEP))
        self.some.column("command").fill_(int(STEP))
        self.actions = {
            name: torch.zeros((n, *shape), dtype=torch_dtype(dtype), device=device)
            for name, (dtype, shape) in action_fields(spec.action).items()
        }

    @abstractmethod
    def record(self, requests: DeviceTable, tensors: Mapping[str, torch.Tensor], first: int, rows: int) -> Run:
        """The launch that serves ``rows`` requests from row ``first`` on into the same rows of these tensors.

        On a GPU it goes to torch's current stream.
        """

    @abstractmethod
    def render(self, env_ids: np.ndarray) -> np.ndarray:
        """Frames uint8[k, height, width, 3], drawn on the host."""

    def ask_reset(self, env_ids: np.ndarray, seeds: np.ndarray | None) -> None:
        """Fill the first rows of ``resets``."""
        k = len(env_ids)
        self.resets.column("env_id")[:k].copy_(torch.from_numpy(env_ids))
        self.resets.column("command")[:k].fill_(int(RESET if seeds is None else RESEED))
        if seeds is not None:
            self.resets.column("seed")[:k].copy_(torch.from_numpy(seeds.view(np.int64)))

    # -- on the host -----------------------------------------------------------------------------

    def save(self, env_ids: np.ndarray) -> list[bytes]:
        """What `Executor.save_state` gives for these environments."""
        host = [rows.cpu().numpy() for rows in self._picked(env_ids)]
        return pack_rows(host, np.arange(len(env_ids)))

    def load(self, env_ids: np.ndarray, blobs: list[bytes]) -> None:
        """Restore what `save` gave; raises `StateError` before anything is written."""
        host = [rows.cpu().numpy() for rows in self._picked(env_ids)]
        unpack_rows(host, np.arange(len(env_ids)), blobs)  # the message counts rows: same sizes for all
        where = self._where(env_ids)
        for rows, part in zip(self.memory(), host, strict=True):
            rows[where] = torch.from_numpy(part).to(self.device)

    def columns(self) -> dict[str, torch.Tensor]:
        """The environments' state by name: [N, …]."""
        return {name: self.state.column(name) for name in self.state.rows}

    def state_arrays(self, names: Iterable[str], env_ids: np.ndarray) -> dict[str, np.ndarray]:
        """Copies of these environments' state on the host, by name: [k, …]."""
        where, columns, arrays = self._where(env_ids), self.columns(), {}
        for name in names:
            array = columns[name][where].cpu().numpy()
            arrays[name] = array.view(self.state.layout[name][0]) if name in self.state.layout else array
        return arrays

    def memory(self) -> list[torch.Tensor]:
        """Everything that decides the environments' futures, as bytes [N, …] over the same memory."""
        return [rows for table in (self.state, self.streams, self.episodes) for rows in table.rows.values()]

    def _where(self, env_ids: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(env_ids.astype(np.int64)).to(self.device)

    def _picked(self, env_ids: np.ndarray) -> list[torch.Tensor]:
        where = self._where(env_ids)
        return [rows[where] for rows in self.memory()]


class KernelEnvironments(DeviceEnvironments):
    """N kernel environments: a step is a single launch."""

    divisible = True

    def __init__(self, env: AnyEnv, spec: TaskSpec, settings: PoolSettings):
        n, device = settings.num_envs, torch.device(settings.device)
        self.scalars = scalars_of(env, spec)
        check_environment(env, spec, self.scalars)
        self.program = program = program_of(env, spec, settings.device)
        with mistakes_named(env):
            load(program.kernel, settings.device, program.block_dim)
        state = device_table(env.state, n, device, env.shapes, self.scalars, env.tables)
        streams = device_table(program.streams, n, device, program.stream_shapes, program.stream_scalars)
        super().__init__(env, state, streams, spec, settings)
        self.rules = rules_of(spec, settings.autoreset, program)
        with quiet():
            self._actions = actions_over(program, self.actions)
        if device.type == "cuda":  # what was copied there on Warp's stream and torch's is ready for any other
            torch.cuda.synchronize(device)

    def record(self, requests: DeviceTable, tensors: Mapping[str, torch.Tensor], first: int, rows: int) -> Run:
        with quiet():
            results = result_structs(self.env, self.program, tensors)
        tables = (self.state.struct, self.streams.struct, self.episodes.struct, self.rules, requests.struct)
        program, arguments = self.program, [*tables, self._actions, *results, first]
        return record_on_torch(program.kernel, rows * program.lanes, arguments, str(self.device), program.block_dim)

    def render(self, env_ids: np.ndarray) -> np.ndarray:
        arrays = self.state_arrays(self.state.rows, env_ids)
        return rendered(self.env, self.scalars, arrays, len(env_ids))
