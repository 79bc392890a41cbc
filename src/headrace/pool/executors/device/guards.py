"""Checks the arguments of a `TorchPool`'s calls, and copies them to where the environments read them.

On a GPU a kernel checks the values, and errors are raised later; on a CPU NumPy checks them immediately, without any
torch operation: one would take longer than a step of a few environments.
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
from headrace.pool.actions import ACTION, action_check, action_fields, farthest
from headrace.pool.executors.device import guard_kernels as guards
from headrace.pool.executors.kernels.launch import Run, load, quiet, record, record_over, view_of
from headrace.pool.spec import TaskSpec, bounds, subspaces
from headrace.pool.torch.tensors import convertible, mismatch, torch_dtype

BLOCK = 256


class Guards:
    """The checks of a pool's arguments: copies actions and env_ids into the environments' memory, and records errors.

    Args:
        spec: the task's spec.
        device: the pool's device.
        actions: the destination of actions, see `DeviceExecutor`.
        env_ids: the destination of the env_ids of environments to step, int32 [N].
        over: bool [N], whether each environment's episode is over.
        manual: see the attribute.

    Attributes:
        manual: whether autoreset is disabled, so that finished environments must not be stepped.
        now: whether errors are raised by the call itself, as on a CPU, rather than by `check`.
    """

    def __init__(
        self,
        spec: TaskSpec,
        device: torch.device,
        actions: dict[str, torch.Tensor],
        env_ids: torch.Tensor,
        over: torch.Tensor,
        manual: bool,
    ):
        space = spec.action
        self._task = spec.task
        self.manual, self.now = manual, device.type == "cpu"
        self._space, self._actions, self._env_ids, self._over = space, actions, env_ids, over
        self._place, self._device = device, str(device)
        self._wrong = torch.full((4,), guards.NONE, dtype=torch.int32, device=device)
        self._claims = torch.zeros(len(over), dtype=torch.int32, device=device)
        self._wanted = {name: (torch_dtype(dtype), shape) for name, (dtype, shape) in action_fields(space).items()}
        self._check = action_check(space)
        self._kept = {name: t.numpy() for name, t in actions.items()} if self.now else {}
        self._bounds = {name: self._bounds_of(sub) for name, sub in subspaces(space, ACTION).items()}
        self._recorded: dict[Any, Any] = {}
        for name, tensor in actions.items():  # compiled here, since it could not be during a CUDA graph's capture
            self._recorded[name, len(tensor)] = self._record_actions(name, tensor)

    def take(self, action: Any, rows: int) -> None:
        """Copies tensors to the first rows; numbers of another dtype are converted where `convertible` allows it.

        Raises:
            ActionError: a shape, dtype or device is wrong; or, if `now` is set, a value is invalid.
        """
        self._taking(self._columns(action, rows)[0], rows)()

    def taking(self, action: Any, rows: int) -> Run:
        """Returns a function that copies the tensors' contents, as they are when it is called, to the first rows.

        Shape, dtype and device are checked here only; the tensors' memory must not move. If `now` is set, the
        function raises `ActionError` for an invalid value.

        Raises:
            ActionError: a shape, dtype or device is wrong.
        """
        given, converted = self._columns(action, rows)
        return partial(self.take, action, rows) if converted else self._taking(given, rows)

    def _taking(self, given: Mapping[str, torch.Tensor], rows: int) -> Run:
        if self.now:
            return partial(self._take_now, {name: tensor.detach().numpy() for name, tensor in given.items()}, rows)
        return partial(self._take_later, dict(given))

    def _columns(self, action: Any, rows: int) -> tuple[Mapping[str, torch.Tensor], bool]:
        """Returns actions by the names of `action_fields`, and whether any was converted to another dtype.

        Raises:
            ActionError: a type, shape, dtype or device is wrong.
        """
        plain, device = ACTION in self._wanted, self._place
        given = {ACTION: action} if plain else action
        if not isinstance(given, dict) or given.keys() != self._wanted.keys():
            raise ActionError(f"actions must be a dict with a tensor for each of {sorted(self._wanted)}")
        converted = False
        for name, (dtype, shape) in self._wanted.items():
            if isinstance(tensor := given[name], torch.Tensor) and convertible(tensor.dtype, dtype):
                given, converted = {**given, name: tensor.to(dtype)}, True
            if problem := mismatch(given[name], dtype, (rows, *shape), device):
                raise ActionError(f"{'actions' if plain else name} {problem}")
        return given, converted

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
        """Copies env_ids [k] to the requests for some environments; if `now` is set they have been checked before."""
        env_ids = self._env_ids
        if self.now:
            env_ids[: len(given)].copy_(given)
            return
        key = (given.dtype, len(given))
        if key not in self._recorded:
            self._recorded[key] = self._record_env_ids(given, env_ids)
        guard, repeats = self._recorded[key]
        guard(given.data_ptr())
        repeats()

    def refuse_finished(self, env_ids: torch.Tensor, rows: int) -> None:
        """Records environments among the first ``rows`` of ``env_ids``, int32 [N], whose episodes are over.

        If `now` is set, raises `SequenceError` for them. It is called without autoreset only.
        """
        key = (env_ids.data_ptr(), rows)
        if key not in self._recorded:
            arguments = [self._array(t) for t in (self._over, env_ids, self._wrong)]
            self._recorded[key] = self._record(guards.finished_guard, rows, arguments)
        self._recorded[key]()
        if self.now:
            self.check()

    def check(self) -> None:
        """Waits for the device, and raises and clears an error recorded since the last check.

        Raises:
            EnvIdError, ActionError, SequenceError: the first error of the first kind found, in this order.
        """
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
        """Returns the least and greatest value of each column of a row, or None if any finite number is valid."""
        dtype = np.dtype(space.dtype)
        if dtype.kind == "f":
            return None
        low, high = bounds(space)
        columns = (torch.from_numpy(np.ravel(bound).astype(dtype)) for bound in (low, high))
        low, high = (column.to(self._place) for column in columns)
        return low, high

    def _record_actions(self, name: str, given: torch.Tensor) -> Any:
        kept, bounds = self._actions[name].view(-1), self._bounds[name]
        dtype = wp.dtype_from_torch(given.dtype)
        columns = max(given.numel() // given.shape[0], 1)
        if bounds is None:
            kernel, middle = guards.float_guard(dtype), [columns, farthest(subspaces(self._space, ACTION)[name])]
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
        load(kernel, self._device, block, f"the checks of {self._task}'s actions")
        return (record_over if moving else record)(kernel, threads, arguments, self._device, block)

    def _array(self, tensor: torch.Tensor) -> wp.array:
        with quiet():
            return view_of(tensor, wp.dtype_from_torch(tensor.dtype))
