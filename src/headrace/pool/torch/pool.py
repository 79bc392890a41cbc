"""A pool whose arrays are torch tensors on one device, for learners on the same device.

Environments, actions and results are in torch tensors on the device: a step copies no data to the host, allocates no
memory and does not wait, so that it can be part of a CUDA graph together with the policy that chooses its actions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import torch

from headrace.errors import ActionError, EnvIdError, OptionError, SequenceError
from headrace.pool.actions import check_env_ids
from headrace.pool.arguments import given_arrays, reset_arguments
from headrace.pool.base import BasePool
from headrace.pool.batch import batch_fields, rows_of
from headrace.pool.executors.device.executor import DeviceExecutor
from headrace.pool.pickles import Recipe
from headrace.pool.seeds import SeedLike
from headrace.pool.spec import PoolSettings
from headrace.pool.task import Task
from headrace.pool.torch.batch import TorchBatch, TorchResult
from headrace.pool.torch.tensors import mismatch, torch_dtype
from headrace.pool.turns import exclusive


class TorchPool(BasePool[DeviceExecutor]):
    """N environments of one task, stepped together, with torch tensors on one device.

    `step` returns ``(obs, reward float32[k], terminated bool[k], truncated bool[k], info)``. It returns the same
    tensors every time, in new dicts: the next step overwrites them. Steps and resets of a part of the environments
    share other tensors than those of all. Results that must last are copied, or a step writes directly into the rows of
    a rollout buffer (`make_batch`). Launches use torch's current stream. Only one thread may use the pool.

    On a GPU the device checks the values of actions: an integer outside the action space is clipped, a float that is
    not finite becomes 0, and `check_errors` raises the error later; `reset`, `save_state` and `close` call it. Shapes,
    dtypes and devices, and on a CPU also values, are checked immediately.

    Example:
        >>> pool = headrace.make_torch("CartPole-v1", num_envs=4096, device="cuda:0", seed=1)
        >>> obs, info = pool.reset()
        >>> obs, reward, terminated, truncated, info = pool.step(policy(obs))
    """

    def __init__(self, task: Task, settings: PoolSettings, recipe: Recipe | None = None):
        if task.make_on_device is None:
            raise OptionError(
                f"{task.spec.task} cannot be a pool of torch tensors: it is no kernel environment, or runs as plain "
                "Python (debug=True, HEADRACE_DEBUG=1). Take headrace.make, without a device"
            )
        # the device tracks finished environments, so the host's status does not (manual is False)
        super().__init__(task.spec, settings, task.make_on_device(task.spec, settings), False, recipe)
        self.device, self._changes = torch.device(settings.device), task.changes
        self._fields = {f.name: f for f in batch_fields(task.spec, settings.autoreset)}
        self._batches: dict[int, TorchBatch] = {}
        self._partial: dict[str, torch.Tensor] = {}  # for `_shared`

    def _particulars(self) -> dict[str, Any]:
        return {"device": self.device}

    # -- stepping --------------------------------------------------------------------------------

    @exclusive
    def reset(
        self, env_id: Any = None, *, seed: SeedLike = None, out: TorchBatch | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Starts new episodes in all environments, or in ``env_id``, and returns (obs, info).

        Arguments are those of `Pool.reset`; ``out`` is a batch from `make_batch`. The call may wait for the device, so
        it cannot be part of a CUDA graph.

        Raises:
            EnvIdError, OptionError: the arguments are wrong; no environment was reset.
            ActionError, EnvIdError, SequenceError: an earlier step on a GPU was wrong, see `check_errors`.
        """
        self._executor.check()
        ids, seeds, _ = reset_arguments(_host(env_id), seed, None, self.all_env_ids, False)
        batch = self._batch(self.num_envs if ids is None else len(ids), out)
        batch.check_place()
        self._unsure, self._ready = self.all_env_ids if ids is None else ids, False
        self._executor.reset(ids, seeds, batch)
        self._status.note_started(ids)
        self._settled()
        obs, _, _, _, info = batch.result()
        return obs, info

    def step(
        self, action: Any, env_id: torch.Tensor | Sequence[int] | None = None, *, out: TorchBatch | None = None
    ) -> TorchResult:
        """Advances all environments, or those of ``env_id``, by one agent step.

        Args:
            action: tensor [k, *action_space.shape] on the pool's device, contiguous, of the action space's
                dtype or one that is converted to it, such as float32 for float64; a dict of them for a `Dict` space.
            env_id: the environments to step, k distinct integers; all by default. On a GPU, a tensor on the device
                needs no copy.
            out: the batch to write to, from `make_batch`.

        Raises:
            ActionError: shape, dtype or device of the action is wrong; no environment was stepped.
            EnvIdError: env_id is not a list of integers, or on a CPU out of range or repeated.
            SequenceError: an environment has never been reset.
        """
        if env_id is not None:
            return self._step_some(action, env_id, out)
        if not self._ready:
            self._check_started(self.all_env_ids)
        batch = self._batch(self.num_envs, out)
        self._executor.step(action, None, batch)
        return batch.result()

    def bind(self, action: Any, out: TorchBatch) -> Callable[[], TorchResult]:
        """Checks a step's tensors once, for a learner that uses the same tensors for every step.

        Returns:
            A function without arguments that is equivalent to ``step(action, out=out)`` with the tensors' contents at
            the time of the call; values are checked at each call. The tensors' memory must not move.

        Raises:
            ActionError: shape, dtype or device of the action is wrong.
        """
        batch = self._batch(self.num_envs, out)
        take, advance = self._executor.guards.taking(action, self.num_envs), self._executor.advance

        def step() -> TorchResult:
            if not self._ready:
                self._check_started(self.all_env_ids)
            take()
            advance(batch)
            return batch.result()

        return step

    def make_batch(self, tensors: Mapping[str, torch.Tensor] | None = None, **more: torch.Tensor) -> TorchBatch:
        """Returns a batch over the caller's own tensors, into which a step writes its results.

        Args:
            tensors, more: field (``obs``, ``reward``, ``terminated``, ``info:lives``, …) → contiguous tensor
                [k, …] on the pool's device, of the field's dtype. Fields not given get new tensors.

        Returns:
            The `TorchBatch` that ``step(…, out=…)`` takes, for example one for each row of a rollout buffer.

        Raises:
            OptionError: a tensor has the wrong name, shape, dtype, device or memory layout.
        """
        self._check_open()
        given = given_arrays(tensors, more)
        rows = rows_of(given, self._fields, self.num_envs)
        for name, tensor in given.items():
            f = self._fields[name]
            if problem := mismatch(tensor, torch_dtype(f.dtype), (rows, *f.shape), self.device):
                raise OptionError(f"{name} {problem}")
        return self._new_batch(rows, given)

    def check_errors(self) -> None:
        """Waits for the device, and raises an error of earlier steps, if there is one; each is raised once.

        Raises:
            ActionError: actions were outside the action space or not finite; they were clipped, or taken as 0.
            EnvIdError: env_ids were out of range or repeated, so that other environments than intended were stepped.
            SequenceError: with autoreset disabled, environments were stepped whose episodes were over.
            KernelError: a kernel of the environment failed on the device.
        """
        self._check_open()
        self._executor.check()

    def faults_named(self) -> AbstractContextManager[None]:
        """Returns a context in which a device fault of the environment's kernels is raised as `KernelError`.

        A GPU reports a fault at any later call, also of another library; such calls are made within this context.
        """
        return self._executor.faults_named()

    # -- states ----------------------------------------------------------------------------------

    def save_state(self, env_ids: Any = None) -> list[bytes]:
        """Returns the complete state of the environments ``env_ids`` (all by default), one `bytes` each.

        Any pool of the task, also one on another device, can load it.

        Raises:
            ActionError, EnvIdError, SequenceError: an earlier step on a GPU was wrong, see `check_errors`.
        """
        self.check_errors()
        return super().save_state(env_ids)

    def state_arrays(self, names: Sequence[str] | None = None, env_ids: Any = None) -> dict[str, np.ndarray]:
        """Returns copies of the environments' state as NumPy arrays [k, …] by name; see `Pool.state_arrays`.

        Raises:
            ActionError, EnvIdError, SequenceError: an earlier step on a GPU was wrong, see `check_errors`.
        """
        self.check_errors()
        return super().state_arrays(names, env_ids)

    def _finished(self, ids: np.ndarray) -> np.ndarray:
        if self.autoreset != "disabled":
            return np.zeros(len(ids), np.bool_)
        return self._executor.over.cpu().numpy()[ids]

    def _copied(self, name: str, ids: np.ndarray) -> np.ndarray:
        return self._executor.on_host(name, ids)

    # -- lifetime --------------------------------------------------------------------------------

    def close(self) -> None:
        """Frees the device's memory, and raises an error of earlier steps, as `check_errors` does.

        Further calls have no effect.
        """
        if self._closed is None:
            guards = vars(self._executor).get("guards")  # None if the garbage collector has freed the pool
            super().close()
            if guards is not None:
                guards.check()

    def end(self, reason: str) -> None:
        super().end(reason)
        self._batches.clear()
        self._partial.clear()

    def __exit__(self, kind: Any, *_: object) -> None:
        try:
            self.close()
        except (ActionError, EnvIdError, SequenceError):
            if kind is None:
                raise

    # -- helpers ---------------------------------------------------------------------------------

    @exclusive
    def _check_started(self, env_ids: np.ndarray) -> None:
        """Raises `SequenceError` unless these environments have been reset."""
        self._status.check_started(env_ids)

    def _step_some(self, action: Any, env_id: Any, out: TorchBatch | None) -> TorchResult:
        self._check_open()
        tensor = env_id if isinstance(env_id, torch.Tensor) else torch.as_tensor(np.asarray(env_id))
        if self._executor.guards.now:
            tensor = torch.from_numpy(check_env_ids(_host(tensor), self.num_envs))
        elif tensor.dtype not in (torch.int32, torch.int64) or tensor.ndim != 1 or not tensor.is_contiguous():
            what = f"{tensor.dtype}{list(tensor.shape)}"
            raise EnvIdError(f"env_id must be a contiguous list of integers (int32 or int64), not {what}")
        elif not 1 <= len(tensor) <= self.num_envs:
            raise EnvIdError(f"env_id names {len(tensor)} environments; this pool has {self.num_envs}")
        if not self._ready:  # the host checks only until all environments have been reset once
            self._check_started(check_env_ids(_host(tensor), self.num_envs))
        batch = self._batch(len(tensor), out)
        self._executor.step(action, tensor.to(self.device), batch)
        return batch.result()

    def _batch(self, rows: int, out: TorchBatch | None) -> TorchBatch:
        self._check_open()
        if out is None:
            if rows not in self._batches:
                self._batches[rows] = self._new_batch(rows, self._shared(rows))
            return self._batches[rows]
        if not isinstance(out, TorchBatch) or out.owner is not self._executor:
            raise OptionError("out= must come from this pool's make_batch")
        if out.rows != rows:
            raise OptionError(f"out= has {out.rows} rows; this call writes {rows}")
        return out

    def _shared(self, rows: int) -> dict[str, torch.Tensor]:
        """Returns tensors [rows, …] in the memory that all batches of a part of the environments share."""
        if rows == self.num_envs:
            return {}
        if not self._partial:
            self._partial = self._new_batch(self.num_envs, {}).tensors
        return {name: tensor[:rows] for name, tensor in self._partial.items()}

    def _new_batch(self, rows: int, given: Mapping[str, torch.Tensor]) -> TorchBatch:
        batch = TorchBatch(rows, self._fields, given, self.observation_space, self.device, self._executor)
        self._executor.bind(batch)
        return batch

    def _ids(self, env_ids: Any) -> np.ndarray:
        return super()._ids(_host(env_ids))


def _host(ids: Any) -> Any:
    return ids.cpu().numpy() if isinstance(ids, torch.Tensor) else ids
