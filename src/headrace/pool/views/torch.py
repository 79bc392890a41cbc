"""A pool whose arrays are torch tensors on one device, for learners that live there.

Environments, actions and results share the device's memory with torch: nothing is copied
to the host, nothing is allocated in a step, and nothing waits, so that a step can be part
of a CUDA graph with the policy that chooses its actions.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch

from headrace.errors import ActionError, ClosedError, EnvIdError, OptionError, SequenceError
from headrace.pool.actions import check_env_ids
from headrace.pool.batch import FINAL, batch_fields, info_of, observation_of, rows_of
from headrace.pool.executors.kernels import device as devices
from headrace.pool.executors.kernels.device import DeviceEnvironments, DeviceTable, torch_dtype
from headrace.pool.executors.kernels.launch import Run
from headrace.pool.executors.kernels.mistakes import faults_named
from headrace.pool.executors.kernels.sharing import Sharing
from headrace.pool.registry import autoreset_mode, build_task, check_int, usable_cores
from headrace.pool.seeds import SeedLike, seeds_of
from headrace.pool.spec import AutoresetMode, PoolSettings, Task, TaskSpec
from headrace.pool.state import chosen_arrays, seal, task_key, unseal
from headrace.pool.views.torch_guards import Guards, mismatch

TorchResult = tuple[Any, torch.Tensor, torch.Tensor, torch.Tensor, dict[str, Any]]


@dataclass(eq=False, slots=True)
class TorchBatch:
    """Tensors of k result rows, and the launches that fill them.

    Attributes:
        rows: k.
        tensors: field (``obs``, ``reward``, ``info:lives``, …) → tensor [k, …].
        result: what a step into this batch returns.
    """

    rows: int
    tensors: dict[str, torch.Tensor]
    result: TorchResult
    owner: TorchPool
    note_done: Run | None = None  # same-step mode: says which rows have final: values
    everyone: Run | None = None
    some: Run | None = None
    resets: Run | None = None


class TorchPool:
    """N environments of one task, stepped together, with torch tensors on one device.

    `step` returns ``(obs, reward float32[k], terminated bool[k], truncated bool[k], info)``, the same tensors
    every time: the next step writes over them. Copy what must last, or let a step write straight into the
    rows of a rollout buffer (`make_batch`). Launches go to torch's current stream. Call it from one thread.

    On a GPU the values of actions are looked at by the device: an integer outside the action space is clipped,
    a float that is not finite becomes 0, and `check_errors` says so later; `reset`, `save_state` and `close`
    call it. Shapes, dtypes and devices, and on a CPU values too, are checked at once.

    Example:
        >>> pool = headrace.make_torch("CartPole-v1", num_envs=4096, device="cuda:0", seed=1)
        >>> obs, info = pool.reset()
        >>> obs, reward, terminated, truncated, info = pool.step(policy(obs))
    """

    def __init__(self, task: Task, settings: PoolSettings):
        self.spec: TaskSpec = task.spec
        self.settings = settings
        self.num_envs, self.device = settings.num_envs, torch.device(settings.device)
        self.observation_space = self.single_observation_space = task.spec.observation
        self.action_space = self.single_action_space = task.spec.action
        self._environments = _environments(task, settings)
        self._guards = Guards(task.spec.action, self._environments, settings.autoreset == "disabled")
        self._fields = {f.name: f for f in batch_fields(task.spec, settings.autoreset)}
        self._key = task_key(task.spec, settings.autoreset)
        self._batches: dict[int, TorchBatch] = {}
        self._started = np.zeros(settings.num_envs, np.bool_)
        self._all_started = False
        self._closed = False
        threads = settings.num_threads if self._environments.divisible else 1
        sharing = Sharing(threads, task.spec.num_agents)
        self._launch, self._end_threads = sharing.launch, weakref.finalize(self, sharing.close)

    @property
    def autoreset(self) -> AutoresetMode:
        return self.settings.autoreset

    def __len__(self) -> int:
        return self.num_envs

    def __repr__(self) -> str:
        state = "closed" if self._closed else "open"
        return f"<TorchPool {self.spec.task}, num_envs={self.num_envs}, device={self.device}, {state}>"

    # -- stepping --------------------------------------------------------------------------------

    def reset(
        self, env_id: Any = None, *, seed: SeedLike = None, out: TorchBatch | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Start new episodes, in all environments or those named, and return (obs, info).

        Arguments as in `Pool.reset`. It may wait for the device, so it cannot be part of a CUDA graph.

        Raises:
            ActionError, EnvIdError, SequenceError: an earlier step on a GPU was wrong, see `check_errors`.
        """
        self.check_errors()
        ids = self._ids(env_id)
        seeds = None if seed is None else seeds_of(seed, ids)
        batch = self._batch(len(ids), out)
        self._environments.ask_reset(ids, seeds)
        if batch.resets is None:
            batch.resets = self._bound(self._environments.resets, batch)
        batch.resets()
        self._started[ids] = True
        self._all_started = bool(self._started.all())
        return batch.result[0], batch.result[4]

    def step(
        self, action: Any, env_id: torch.Tensor | Sequence[int] | None = None, *, out: TorchBatch | None = None
    ) -> TorchResult:
        """Advance all environments, or those named, by one agent step.

        Args:
            action: tensor [k, *action_space.shape] on the pool's device, contiguous, of the action space's
                dtype; a dict of them for a `Dict` space.
            env_id: integers [k], distinct; on a GPU best a tensor there, so that nothing need be copied.
            out: where to write: a batch from `make_batch`.

        Raises:
            ActionError: shape, dtype or device of the action is wrong; nothing was stepped.
            SequenceError: an environment was not reset yet.
        """
        if env_id is not None:
            return self._step_some(action, env_id, out)
        self._check_started()
        self._guards.take_actions(action, self.num_envs)
        return self._step_all(self._batch(self.num_envs, out))

    def bind(self, action: Any, out: TorchBatch) -> Callable[[], TorchResult]:
        """Check a step's tensors once, for a learner that uses the same ones again and again.

        Returns:
            A function that does what ``step(action, out=out)`` would do with what the tensors hold by then, values
            checked as ever. Their memory must stay where it is.

        Raises:
            ActionError: shape, dtype or device of the action is wrong.
        """
        batch = self._batch(self.num_envs, out)
        take = self._guards.taking(action, self.num_envs)

        def step() -> TorchResult:
            self._check_started()
            take()
            return self._step_all(batch)

        return step

    def make_batch(self, tensors: Mapping[str, torch.Tensor] | None = None, **more: torch.Tensor) -> TorchBatch:
        """Bind tensors of the caller's as the place where a step writes its results.

        Args:
            tensors, more: field (``obs``, ``reward``, ``terminated``, ``info:lives``, …) → contiguous tensor
                [k, …] on the pool's device, of the field's dtype. Fields not given get new tensors.

        Returns:
            What ``step(…, out=…)`` takes. Bind once for each row of a rollout buffer and use it again and again.
        """
        self._check_open()
        given = {**(tensors or {}), **more}
        rows = rows_of(given, self._fields, self.num_envs)
        for name, tensor in given.items():
            f = self._fields[name]
            if problem := mismatch(tensor, torch_dtype(f.dtype), (rows, *f.shape), self.device):
                raise OptionError(f"{name} {problem}")
        return self._make_batch(rows, given)

    def check_errors(self) -> None:
        """Wait for the device, and raise what was wrong with earlier steps, once.

        Raises:
            ActionError: actions were outside the action space or not finite; they were clipped, or taken as 0.
            EnvIdError: env_ids were out of range or repeated: other environments were stepped than were meant.
            SequenceError: with autoreset disabled, environments were stepped whose episodes were over.
            KernelError: a kernel of the environment went wrong on the device.
        """
        self._check_open()
        with self.faults_named():
            self._guards.check()

    def faults_named(self) -> AbstractContextManager[None]:
        """Around any use of the device: a fault of the environment's kernels comes out as a `KernelError`.

        A GPU reports it at whatever call comes next, be it another library's.
        """
        return faults_named(self._environments.env)

    # -- states ----------------------------------------------------------------------------------

    def render(self, env_ids: Any = None) -> np.ndarray:
        """RGB frames uint8[k, height, width, 3], drawn on the host; of environment 0 by default."""
        ids = self._idle(0 if env_ids is None else env_ids)
        return self._environments.render(ids)

    def state_arrays(self, names: Sequence[str] | None = None, env_ids: Any = None) -> dict[str, np.ndarray]:
        """Copies of the environments' state as NumPy arrays on the host; see `Pool.state_arrays`."""
        self.check_errors()
        ids, here = self._idle(env_ids), self._environments
        return here.state_arrays(chosen_arrays(self.spec.task, here.columns(), names), ids)

    def save_state(self, env_ids: Any = None) -> list[bytes]:
        """Everything that decides the environments' futures, one blob each; any pool of the task can load them."""
        self.check_errors()
        ids = self._idle(env_ids)
        manual = self.autoreset == "disabled"
        finished = self._environments.over.cpu().numpy()[ids] if manual else np.zeros(len(ids), np.bool_)
        blobs = self._environments.save(ids)
        return [seal(blob, self._key, bool(over)) for blob, over in zip(blobs, finished, strict=True)]

    def load_state(self, env_ids: Any, blobs: list[bytes]) -> None:
        """Put saved states into the environments named (None: all)."""
        self._check_open()
        ids = self._ids(env_ids)
        if len(blobs) != len(ids):
            raise OptionError(f"{len(blobs)} states were given for {len(ids)} environments")
        self._environments.load(ids, [unseal(b, self._key, int(i))[0] for i, b in zip(ids, blobs, strict=True)])
        self._started[ids] = True
        self._all_started = bool(self._started.all())

    # -- lifetime --------------------------------------------------------------------------------

    def close(self) -> None:
        """Free the device's memory, and raise what `check_errors` would. Calling it again does nothing."""
        if self._closed:
            return
        self._closed, self._all_started = True, False
        self._end_threads()
        guards = self._guards
        del self._environments, self._guards
        self._batches.clear()
        guards.check()

    def __enter__(self) -> TorchPool:
        self._check_open()
        return self

    def __exit__(self, kind: Any, *_: object) -> None:
        try:
            self.close()
        except (ActionError, EnvIdError, SequenceError):
            if kind is None:
                raise

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedError(f"this pool of {self.spec.task} is closed: make a new one")

    def _check_started(self) -> None:
        """That all environments can be stepped."""
        if not self._all_started:
            self._check_open()
            raise SequenceError(f"environment {int(np.argmin(self._started))} was not reset yet: call reset first")

    # -- how -------------------------------------------------------------------------------------

    def _step_all(self, batch: TorchBatch) -> TorchResult:
        if self._guards.manual:
            self._guards.refuse_finished(self._environments.everyone, self.num_envs)
        if batch.everyone is None:
            batch.everyone = self._bound(self._environments.everyone, batch)
        return self._advance(batch.everyone, batch)

    def _advance(self, run: Run, batch: TorchBatch) -> TorchResult:
        run()
        if batch.note_done is not None:
            batch.note_done()
        return batch.result

    def _step_some(self, action: Any, env_id: Any, out: TorchBatch | None) -> TorchResult:
        self._check_open()
        tensor = env_id if isinstance(env_id, torch.Tensor) else torch.as_tensor(np.asarray(env_id))
        if self._guards.now:
            tensor = torch.from_numpy(check_env_ids(_host(tensor), self.num_envs))
        elif tensor.dtype not in (torch.int32, torch.int64) or tensor.ndim != 1 or not tensor.is_contiguous():
            what = f"{tensor.dtype}{list(tensor.shape)}"
            raise EnvIdError(f"env_id must be a contiguous list of integers (int32 or int64), not {what}")
        elif not 1 <= len(tensor) <= self.num_envs:
            raise EnvIdError(f"env_id names {len(tensor)} environments; this pool has {self.num_envs}")
        if not self._all_started:  # looked at on the host only until all were reset once
            ids = check_env_ids(_host(tensor), self.num_envs)
            if not self._started[ids].all():
                raise SequenceError(f"environment {ids[~self._started[ids]][0]} was not reset yet: reset it first")
        rows, here = len(tensor), self._environments
        self._guards.take_actions(action, rows)
        batch = self._batch(rows, out)
        self._guards.take_env_ids(tensor.to(self.device))
        if self._guards.manual:
            self._guards.refuse_finished(here.some, rows)
        if batch.some is None:
            batch.some = self._bound(here.some, batch)
        return self._advance(batch.some, batch)

    def _batch(self, rows: int, out: TorchBatch | None) -> TorchBatch:
        self._check_open()
        if out is None:
            if rows not in self._batches:
                self._batches[rows] = self._make_batch(rows, {})
            return self._batches[rows]
        if not isinstance(out, TorchBatch) or out.owner is not self:
            raise OptionError("out= must come from this pool's make_batch")
        if out.rows != rows:
            raise OptionError(f"out= has {out.rows} rows; this call writes {rows}")
        return out

    def _make_batch(self, rows: int, given: Mapping[str, torch.Tensor]) -> TorchBatch:
        def new(name: str) -> torch.Tensor:
            f = self._fields[name]
            return torch.zeros((rows, *f.shape), dtype=torch_dtype(f.dtype), device=self.device)

        tensors = {name: given[name] if name in given else new(name) for name in self._fields}
        info, note_done = info_of(tensors), None
        if self.autoreset == "same_step":
            done = torch.zeros(rows, dtype=torch.bool, device=self.device)
            note_done = _either(tensors["terminated"], tensors["truncated"], done)
            info |= {"final_obs": observation_of(tensors, FINAL), "_final_obs": done}
            info |= {"final_info": info_of(tensors, FINAL), "_final_info": done}
        result = (observation_of(tensors), tensors["reward"], tensors["terminated"], tensors["truncated"], info)
        return TorchBatch(rows, tensors, result, self, note_done)

    def _bound(self, requests: DeviceTable, batch: TorchBatch) -> Run:
        return self._launch(batch.rows, partial(self._environments.record, requests, batch.tensors))

    def _ids(self, env_ids: Any) -> np.ndarray:
        if env_ids is None:
            return np.arange(self.num_envs, dtype=np.int32)
        return check_env_ids(_host(env_ids), self.num_envs)

    def _idle(self, env_ids: Any) -> np.ndarray:
        self._check_open()
        ids = self._ids(env_ids)
        if not self._started[ids].all():
            raise SequenceError(f"environment {ids[~self._started[ids]][0]} was not reset yet: reset it first")
        return ids


def make_torch(
    task: str,
    num_envs: int = 1,
    device: str | torch.device = "cpu",
    seed: SeedLike = None,
    autoreset: AutoresetMode = "next_step",
    num_threads: int = 0,
    **options: Any,
) -> TorchPool:
    """Make a `TorchPool`; see `headrace.make_torch`."""
    check_int("num_envs", num_envs, 1)
    check_int("num_threads", num_threads, 0)
    where = devices.check_device(device)
    threads = num_threads or min(num_envs, usable_cores())
    settings = PoolSettings(
        num_envs=num_envs,
        batch_size=num_envs,
        num_threads=threads if where == "cpu" else 1,
        seeds=seeds_of(seed, np.arange(num_envs, dtype=np.int32)),
        autoreset=autoreset_mode(autoreset),
        device=where,
    )
    return TorchPool(build_task(task, **options), settings)


def _environments(task: Task, settings: PoolSettings) -> DeviceEnvironments:
    """The environments of a task on a device; only kernels and MuJoCo's tasks can live there."""
    if task.kernel is not None:
        return devices.KernelEnvironments(task.kernel, task.spec, settings)
    if task.make_on_device is not None:
        return task.make_on_device(task.spec, settings)
    why = "is no kernel environment, or in debug mode"
    raise OptionError(f"{task.spec.task} {why}, so it runs without torch: leave the device out of headrace.make")


def _either(a: torch.Tensor, b: torch.Tensor, out: torch.Tensor) -> Run:
    """A function that writes ``a | b`` of booleans; NumPy is quicker about it where it can be asked."""
    if out.device.type == "cpu":
        return partial(np.logical_or, a.numpy(), b.numpy(), out.numpy())
    return partial(torch.logical_or, a, b, out=out)


def _host(ids: Any) -> Any:
    return ids.cpu().numpy() if isinstance(ids, torch.Tensor) else ids
