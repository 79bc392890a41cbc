"""What a caller of a `TorchPool` sends is checked here, and brought where the environments read it.

On a GPU the device looks at the values, and they become exceptions later; on a CPU NumPy does, at once. There
a step of a few environments costs less than one operation of torch, so none is made.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
import torch
import warp as wp

from headrace.errors import ActionError, EnvIdError, SequenceError
from headrace.pool.actions import ACTION, action_check, action_fields
from headrace.pool.executors.kernels import guards
from headrace.pool.executors.kernels.device import DeviceEnvironments, DeviceTable, torch_dtype
from headrace.pool.executors.kernels.launch import Run, load, quiet, record_on_torch, record_over, view_of
from headrace.pool.spec import bounds, subspaces

BLOCK = 256


class Guards:
    """Takes what a caller sends into the environments' memory, and remembers what was wrong with it.

    Attributes:
        manual: autoreset is disabled, so finished environments must not be stepped.
        now: nothing is left for later, as on a CPU: the exception comes from the call itself.
    """

    def __init__(self, space: gym.Space, environments: DeviceEnvironments, manual: bool):
        device = environments.device
        self.manual, self.now = manual, device.type == "cpu"
        self._space, self._here = space, environments
        self._device = str(device)
        self._wrong = torch.full((4,), guards.NONE, dtype=torch.int32, device=device)
        self._claims = torch.zeros(len(environments.over), dtype=torch.int32, device=device)
        self._wanted = {name: (torch_dtype(dtype), shape) for name, (dtype, shape) in action_fields(space).items()}
        self._check = action_check(space)
        self._kept = {name: t.numpy() for name, t in environments.actions.items()} if self.now else {}
        self._bounds = {name: self._bounds_of(sub) for name, sub in subspaces(space, ACTION).items()}
        self._recorded: dict[Any, Any] = {}
        for name, tensor in environments.actions.items():  # compiled now, since a CUDA graph cannot wait for it
            self._recorded[name, len(tensor)] = self._record_actions(name, tensor)

    def take_actions(self, action: Any, rows: int) -> None:
        """Check a step's actions, and copy them to the first rows of what the environments read.

        Raises:
            ActionError: shape, dtype or device is wrong; with ``now`` also: values are.
        """
        self.taking(action, rows)()

    def taking(self, action: Any, rows: int) -> Run:
        """A function that takes whatever these very tensors hold by then, as `take_actions` does.

        Shape, dtype and device are looked at here, once; the tensors' memory must stay where it is.
        """
        given = self._columns(action, rows)
        if self.now:
            return partial(self._take_now, {name: tensor.detach().numpy() for name, tensor in given.items()}, rows)
        return partial(self._take_later, dict(given))

    def _columns(self, action: Any, rows: int) -> Mapping[str, torch.Tensor]:
        """Actions by the names of `action_fields`, once they are known to be tensors of the right kind."""
        plain, device = ACTION in self._wanted, self._here.device
        given = {ACTION: action} if plain else action
        if not isinstance(given, dict) or given.keys() != self._wanted.keys():
            raise ActionError(f"actions must be a dict with a tensor for each of {sorted(self._wanted)}")
        for name, (dtype, shape) in self._wanted.items():
            if problem := mismatch(given[name], dtype, (rows, *shape), device):
                raise ActionError(f"{'actions' if plain else name} {problem}")
        return given

    def _take_now(self, given: Mapping[str, np.ndarray], rows: int) -> None:
        self._check(given.get(ACTION, given), rows)
        for name, array in given.items():
            np.copyto(self._kept[name][:rows], array)

    def _take_later(self, given: Mapping[str, torch.Tensor]) -> None:
        for name, tensor in given.items():
            key = (name, len(tensor))
            if key not in self._recorded:
                self._recorded[key] = self._record_actions(name, tensor)
            self._recorded[key](tensor.data_ptr())

    def take_env_ids(self, given: torch.Tensor) -> None:
        """Copy env_ids [k] to the requests for some environments; with ``now`` they are known to be right."""
        env_ids = self._here.some.column("env_id")
        if self.now:
            env_ids[: len(given)].copy_(given)
            return
        key = (given.dtype, len(given))
        if key not in self._recorded:
            self._recorded[key] = self._record_env_ids(given, env_ids)
        guard, repeats = self._recorded[key]
        guard(given.data_ptr())
        repeats()

    def refuse_finished(self, requests: DeviceTable, rows: int) -> None:
        """Without autoreset: note environments among the first rows of the requests whose episodes are over."""
        key = (id(requests), rows)
        if key not in self._recorded:
            arguments = [self._array(t) for t in (self._here.over, requests.column("env_id"), self._wrong)]
            self._recorded[key] = self._record(guards.finished_guard, rows, arguments)
        self._recorded[key]()
        if self.now:
            self.check()

    def check(self) -> None:
        """Wait, raise what was wrong since the last time, and forget it."""
        first = self._wrong.tolist()
        if min(first) == guards.NONE:
            return
        self._wrong.fill_(guards.NONE)
        if (row := first[guards.ENV_ID]) != guards.NONE:
            raise EnvIdError(f"row {row} of env_id was not in [0, {len(self._claims) - 1}]: reset the pool")
        if (row := first[guards.REPEATED]) != guards.NONE:
            raise EnvIdError(f"row {row} of env_id named an environment that another row named too: reset the pool")
        if (row := first[guards.ACTION]) != guards.NONE:
            what = "it was replaced by the nearest that is, or by 0"
            raise ActionError(f"the action in row {row} of an earlier step was not in {self._space}: {what}")
        row = first[guards.FINISHED]
        raise SequenceError(f"row {row} stepped an environment whose episode is over: reset it first")

    # -- launches --------------------------------------------------------------------------------

    def _bounds_of(self, space: gym.Space) -> tuple[torch.Tensor, torch.Tensor] | None:
        """The least and greatest value of each column of a row, or None where any finite number will do."""
        dtype = np.dtype(space.dtype)
        if dtype.kind == "f":
            return None
        low, high = bounds(space)
        if isinstance(space, gym.spaces.Box):  # environments clip integers as their originals do
            low, high = np.iinfo(dtype.name).min, np.iinfo(dtype.name).max
        columns = (torch.from_numpy(np.ravel(bound).astype(dtype)) for bound in (low, high))
        low, high = (column.to(self._here.device) for column in columns)
        return low, high

    def _record_actions(self, name: str, given: torch.Tensor) -> Any:
        kept, bounds = self._here.actions[name].view(-1), self._bounds[name]
        dtype = wp.dtype_from_torch(given.dtype)
        columns = max(given.numel() // given.shape[0], 1)
        if bounds is None:
            kernel, middle = guards.float_guard(dtype), [columns]
        else:
            kernel, middle = guards.integer_guard(dtype), [self._array(b) for b in bounds]
        arguments = [self._array(given.view(-1)), *middle, self._array(kept), self._array(self._wrong)]
        return self._record(kernel, given.numel(), arguments, moving=True)

    def _record_env_ids(self, given: torch.Tensor, env_ids: torch.Tensor) -> Any:
        claims, ids, wrong = (self._array(t) for t in (self._claims, env_ids, self._wrong))
        kernel = guards.env_id_guard(wp.dtype_from_torch(given.dtype))
        guard = self._record(kernel, len(given), [self._array(given), claims, ids, wrong], moving=True)
        return guard, self._record(guards.repeat_guard, len(given), [claims, ids, wrong])

    def _record(self, kernel: Any, threads: int, arguments: list[Any], moving: bool = False) -> Any:
        block = 1 if self._device == "cpu" else BLOCK
        load(kernel, self._device, block)
        return (record_over if moving else record_on_torch)(kernel, threads, arguments, self._device, block)

    def _array(self, tensor: torch.Tensor) -> wp.array:
        with quiet():
            return view_of(tensor, wp.dtype_from_torch(tensor.dtype))


def mismatch(tensor: Any, dtype: torch.dtype, shape: tuple[int, ...], device: torch.device) -> str:
    """What is wrong with a tensor, in words; empty where nothing is."""
    if not isinstance(tensor, torch.Tensor):
        return f"must be a torch tensor on {device}, not {type(tensor).__name__}"
    if tensor.device != device:
        return f"must be on {device}, not on {tensor.device}"
    if tensor.shape != shape:
        return f"must have shape {list(shape)}, not {list(tensor.shape)}"
    if tensor.dtype != dtype:
        return f"must be {dtype}, not {tensor.dtype}"
    return "" if tensor.is_contiguous() else "must be contiguous"
