"""The checks of a `TorchPool` that the device makes, and how they become exceptions."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import torch
import warp as wp

from headrace.errors import ActionError, EnvIdError, SequenceError
from headrace.pool.actions import ACTION
from headrace.pool.executors.kernels import guards
from headrace.pool.executors.kernels.device import DeviceEnvironments, DeviceTable
from headrace.pool.executors.kernels.launch import load, quiet, record_on_torch, record_over, view_of
from headrace.pool.spec import bounds, subspaces

BLOCK = 256


class Guards:
    """Takes what a caller sends into the environments' memory, and remembers what was wrong with it.

    With ``now`` nothing is left for later: the exception comes from the call itself, which then waits.

    Attributes:
        manual: autoreset is disabled, so finished environments must not be stepped.
    """

    def __init__(self, space: gym.Space, environments: DeviceEnvironments, manual: bool):
        self.manual = manual
        self._space, self._here = space, environments
        device = environments.device
        self._device = str(device)
        self._wrong = torch.full((4,), guards.NONE, dtype=torch.int32, device=device)
        self._claims = torch.zeros(len(environments.over), dtype=torch.int32, device=device)
        self._bounds = {name: self._bounds_of(sub) for name, sub in subspaces(space, ACTION).items()}
        self._recorded: dict[Any, Any] = {}
        for name, tensor in environments.actions.items():  # compiled now, since a CUDA graph cannot wait for it
            self._recorded[name, len(tensor)] = self._record_actions(name, tensor)

    def take_actions(self, name: str, given: torch.Tensor) -> None:
        """Copy what is right of [k, …] actions to the first k rows of the environments' actions."""
        rows = given.shape[0]
        key = (name, rows)
        if key not in self._recorded:
            self._recorded[key] = self._record_actions(name, given)
        self._recorded[key](given.data_ptr())

    def take_env_ids(self, given: torch.Tensor, now: bool = False) -> None:
        """Copy env_ids [k] to the requests for some environments; ``now``: they are known to be right."""
        env_ids = self._here.some.column("env_id")
        if now:
            env_ids[: len(given)].copy_(given)
            return
        key = (given.dtype, len(given))
        if key not in self._recorded:
            self._recorded[key] = self._record_env_ids(given, env_ids)
        guard, repeats = self._recorded[key]
        guard(given.data_ptr())
        repeats()

    def refuse_finished(self, requests: DeviceTable, rows: int, now: bool = False) -> None:
        """Without autoreset: note environments among the first rows of the requests whose episodes are over."""
        key = (id(requests), rows)
        if key not in self._recorded:
            arguments = [self._array(t) for t in (self._here.over, requests.column("env_id"), self._wrong)]
            self._recorded[key] = self._record(guards.finished_guard, rows, arguments)
        self._recorded[key]()
        if now:
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
