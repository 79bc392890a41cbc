"""The pool: a batch of environments with one API for all executors.

All arguments and calls are validated here, so that executors stay small and fast: which environments have been
started, are in flight or have finished, and whether the pool is open. The pool does not process results: executors
write them into the arrays that the caller receives.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from threading import get_ident
from typing import Any

import gymnasium as gym
import numpy as np

from headrace.errors import EnvironmentFailure, OptionError, UnsupportedError
from headrace.pool import lifetime
from headrace.pool.actions import action_check, check_env_ids, unpacked
from headrace.pool.arguments import bound_arrays, given_arrays, patience_of, reset_arguments
from headrace.pool.batch import Batch
from headrace.pool.flights import Flights
from headrace.pool.pickles import Recipe
from headrace.pool.seeds import SeedLike
from headrace.pool.spec import PoolSettings
from headrace.pool.task import Task
from headrace.pool.turns import NOBODY, exclusive

StepResult = tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]


class Pool(Flights):
    """N environments of one task, stepped together (``batch_size == N``) or as they finish.

    Results are ``(obs, reward float32[k], terminated bool[k], truncated bool[k], info)``; rows are in the order sent
    (synchronous) or finished (asynchronous), and ``info["env_id"]``, int32[k], holds each row's environment. The
    arrays are safe to keep: their memory is reused only after the last reference to them is dropped. Dicts are new for
    every result.

    Example:
        >>> import headrace
        >>> with headrace.make("CartPole-v1", num_envs=8, seed=1) as pool:
        ...     obs, info = pool.reset()
        ...     obs, reward, terminated, truncated, info = pool.step([0, 1] * 4)

    Args:
        task: the task.
        settings: the options that every task shares.
        recipe: the call that makes an equal pool, for pickling; None for a pool that cannot be pickled.
    """

    def __init__(self, task: Task, settings: PoolSettings, recipe: Recipe | None = None):
        super().__init__(task, settings, recipe)
        self._check_action = action_check(task.spec.action)
        self._free.atexit = False  # `lifetime` closes the pool earlier, once no call is running
        lifetime.watch(self)

    # -- properties ------------------------------------------------------------------------------

    @property
    def device(self) -> str:
        """The device of the pool's arrays, ``"cpu"``."""
        return self.settings.device

    def _particulars(self) -> dict[str, Any]:
        return {"batch_size": self.batch_size} if self.is_async else {}

    # -- stepping --------------------------------------------------------------------------------

    def reset(
        self, env_id: Any = None, *, seed: SeedLike = None, options: Mapping[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Starts new episodes in all environments, or in ``env_id``, and returns (obs, info).

        Args:
            env_id: the environments, in the order of the result's rows; all by default, in which case
                results in flight are waited for and discarded.
            seed: None continues each environment's random stream; an integer restarts the streams at
                ``seed + env_id``; a list gives one seed for each row.
            options: ``{"reset_mask": bool[num_envs]}`` selects environments, as in Gymnasium. All other options are
                passed to the ``reset`` of each environment, if environments are Python objects.

        An asynchronous pool returns the first ``batch_size`` rows; `recv` returns the others. It accepts ``env_id``
        only while no environment is in flight; `async_reset` resets some environments while others step.

        Raises:
            EnvIdError, OptionError: the arguments are wrong; no environment was reset.
            SequenceError: an environment of ``env_id`` is in flight; or, in an asynchronous pool, any environment is
                in flight, or ``env_id`` has fewer than ``batch_size`` elements. No environment was reset.
            EnvironmentFailure: an environment raised; the others were reset.
        """
        ids, seeds, *more = self._reset_arguments(env_id, seed, options)
        if self.is_async:
            self._send_reset(ids, seeds, *more, received_next=True)
            batch = self._recv_async(None)
        else:
            batch = self._reset_sync(ids, seeds, *more)
        obs, _, _, _, info = batch.result()
        return obs, info

    def step(
        self, action: Any, env_id: Any = None, *, out: Batch | Mapping[str, np.ndarray] | None = None
    ) -> StepResult:
        """Advances all environments, or those of ``env_id``, by one agent step.

        Args:
            action: [k, *action_space.shape], row i for ``env_id[i]``, or EnvPool's dict form
                ``{"action": …, "env_id": …}``; nested dicts or tuples of such arrays for a `Dict` or `Tuple` space.
            env_id: the environments to step, k distinct integers; all by default.
            out: the destination of the results: a batch from `make_batch`, or a dict of arrays. Synchronous pools
                only.

        Returns:
            ``(obs, reward float32[k], terminated bool[k], truncated bool[k], info)``; an asynchronous pool returns the
            results of `recv`.

        Raises:
            ActionError, EnvIdError: the arguments are wrong; no environment was stepped.
            SequenceError: an environment was never reset, was interrupted by an exception and not reset since, has
                finished, or is in flight.
            EnvironmentFailure: an environment raised; the others were stepped. It must be reset before its next step.
        """
        me = get_ident()
        if env_id is not None or type(action) is dict or self._unsure is not None or self._caller or not self._ready:
            return self._step_some(action, env_id, out)
        self._caller = me
        try:
            actions = self._check_action(action, self.num_envs)
            batch = self._ring.take(self.num_envs) if out is None else self._into(out, self.num_envs)
            self._advance(actions, None, batch)
            return batch.result()
        finally:
            self._caller = NOBODY
            if self._closed is not None:
                self._end_if_closed()

    @exclusive
    def send(self, action: Any, env_id: Any = None) -> None:
        """Starts one step in all environments, or in ``env_id``, and returns immediately; arguments as in `step`."""
        action, env_id = unpacked(action, env_id, self.action_space)
        ids = self.all_env_ids if env_id is None else check_env_ids(env_id, self.num_envs)
        self._status.check_steppable(ids)
        self._executor.check_some(ids)
        actions = self._check_action(action, len(ids))
        self._sending(ids, lambda: self._executor.send(actions, ids))

    def recv(self, timeout: float | None = None, *, reset: bool = False, return_info: bool = True) -> Any:
        """Waits for results: the ``batch_size`` rows finished first, or in a synchronous pool all that were sent.

        Args:
            timeout: seconds to wait, or None to wait without limit. Ctrl-C interrupts the wait in both cases.
            reset: whether to return ``(obs, info)`` instead of the five-tuple, as EnvPool does after a reset.
            return_info: whether ``reset=True`` returns info as well; otherwise it returns obs alone.

        Raises:
            SequenceError: fewer results are in flight than are to be returned, so that waiting would never end.
            RecvTimeoutError: the timeout has passed; all results stay in flight.
            EnvironmentFailure: an environment raised and must be reset; the next `recv` returns the other results.
        """
        patience = patience_of(timeout)
        batch = self._recv_async(patience) if self.is_async else self._recv_sync(patience)
        obs, reward, terminated, truncated, info = batch.result()
        if reset:
            return (obs, info) if return_info else obs
        return obs, reward, terminated, truncated, info

    def async_reset(
        self, env_id: Any = None, *, seed: SeedLike = None, options: Mapping[str, Any] | None = None
    ) -> None:
        """Starts new episodes in all environments, or in ``env_id``, and returns immediately.

        `recv` returns their first observations like results of steps, with reward 0 and ``elapsed_step`` 0.

        Args:
            env_id, seed, options: as in `reset`.
        """
        self._send_reset(*self._reset_arguments(env_id, seed, options))

    def make_batch(self, arrays: Mapping[str, Any] | None = None, **more: Any) -> Batch:
        """Returns a batch over the caller's own arrays, into which a step writes its results.

        Args:
            arrays, more: batch field (``obs``, ``reward``, ``terminated``, ``info:lives``, …) → array
                [k, …], C-contiguous, writeable, of the field's dtype. Fields not given get new arrays.

        Returns:
            The `Batch` that ``step(…, out=…)`` takes. With one for each row of a rollout buffer, made once and reused,
            a step neither copies nor allocates.

        Raises:
            OptionError: an array has the wrong name, shape, dtype or memory layout.
        """
        rows, given = bound_arrays(given_arrays(arrays, more), self._ring.fields, self.num_envs)
        self._check_open()
        return self._ring.make(rows, given)

    # -- environments that are Python objects ----------------------------------------------------

    @property
    def of_objects(self) -> bool:
        """Whether the environments are Python objects, so that `call`, `get_attr` and `set_attr` can be used."""
        return hasattr(type(self._executor), "call")

    @exclusive
    def call(self, name: str | Callable[..., Any], *args: Any, env_ids: Any = None, **kwargs: Any) -> list[Any]:
        """Returns an attribute of the environments ``env_ids`` (all by default), or its result if it is callable.

        A callable attribute is called with the arguments. If ``name`` is a function, it is called in each environment's
        process, with the environment as its first argument.

        Returns:
            One value for each environment.

        Raises:
            OptionError: the task's environments are not Python objects in worker processes.
        """
        return self._objects().call(name, args, kwargs, self._not_in_flight(env_ids))

    def get_attr(self, name: str, env_ids: Any = None) -> list[Any]:
        """Returns an attribute of the environments ``env_ids``, as Gymnasium's vector environments do; see `call`."""
        return self.call(name, env_ids=env_ids)

    @exclusive
    def set_attr(self, name: str, values: Any, env_ids: Any = None) -> None:
        """Sets an attribute of the environments ``env_ids`` (all by default).

        A list or tuple holds one value for each environment; any other value is set in all of them.

        Raises:
            OptionError: the number of values differs from that of environments, or these are not Python objects.
        """
        ids = self._not_in_flight(env_ids)
        each = list(values) if isinstance(values, list | tuple) else [values] * len(ids)
        if len(each) != len(ids):
            raise OptionError(f"{len(each)} values were given for {len(ids)} environments")
        self._objects().set_attr(name, dict(zip(ids.tolist(), each, strict=True)))

    def set_options(self, **options: Any) -> None:
        """As `BasePool.set_options`; of environments that are Python objects, sets their attributes of these names."""
        if not self.of_objects:
            super().set_options(**options)
            return
        for name in options:
            if not all(self.call(_has, name)):
                raise OptionError(f"{self.spec.task}'s environments have no attribute {name!r} that could be set")
        for name, value in options.items():
            self.set_attr(name, [value] * self.num_envs)

    def _objects(self) -> Any:
        if not self.of_objects:
            raise OptionError(
                f"{self.spec.task}'s environments are no Python objects, so they have no attributes: make(…, "
                "executor='processes') runs Gymnasium's environment of this name, if there is one"
            )
        return self._executor

    # -- checks ----------------------------------------------------------------------------------

    @exclusive
    def check_steppable(self, env_ids: np.ndarray) -> None:
        """Raises `SequenceError` unless all of the environments ``env_ids``, int32[k], may be stepped now."""
        self._status.check_steppable(env_ids)

    # -- status ----------------------------------------------------------------------------------

    def _reset_arguments(self, env_id: Any, seed: SeedLike, options: Mapping[str, Any] | None) -> tuple[Any, ...]:
        """Returns the environments and their seeds, and the options of their own ``reset`` if the caller gives any."""
        takes_options = self._executor.takes_options
        ids, seeds, own = reset_arguments(env_id, seed, options, self.all_env_ids, takes_options)
        if self._executor.seeds_all and seeds is not None and ids is not None and len(ids) < self.num_envs:
            raise UnsupportedError(f"{self.spec.task} can be seeded anew in all environments at once only, not in some")
        return (ids, seeds, own) if own else (ids, seeds)

    def _into(self, out: Batch | Mapping[str, np.ndarray], rows: int) -> Batch:
        batch = out if isinstance(out, Batch) else self.make_batch(out)
        if batch.ring() is not self._ring:
            raise OptionError("out= belongs to another pool: make it with this pool's make_batch")
        if batch.rows != rows:
            raise OptionError(f"out= has {batch.rows} rows; this call writes {rows}")
        return batch

    def _advance(self, actions: Any, ids: np.ndarray | None, batch: Batch) -> None:
        """Steps the environments and updates their status."""
        self._unsure = self.all_env_ids if ids is None else ids
        try:
            self._executor.step(actions, ids, batch)
        except EnvironmentFailure:  # the other environments were stepped
            self._status.note_results(batch)
            self._settled()
            raise
        except BaseException:
            if self._executor.finishes_steps and not self._manual:  # the status does not depend on the results
                self._unsure = None
            raise
        if self._manual:
            self._status.note_results(batch)
            self._settled()
        self._unsure = None

    def _step_some(self, action: Any, env_id: Any, out: Batch | Mapping[str, np.ndarray] | None) -> StepResult:
        if not self.is_async:
            return self._step_sync(action, env_id, out).result()
        if out is not None:
            raise OptionError("out= needs a synchronous pool (batch_size == num_envs)")
        self.send(action, env_id)
        return self.recv()

    @exclusive
    def _step_sync(self, action: Any, env_id: Any, out: Batch | Mapping[str, np.ndarray] | None) -> Batch:
        action, env_id = unpacked(action, env_id, self.action_space)
        ids = None if env_id is None else check_env_ids(env_id, self.num_envs)
        self._status.check_steppable(self.all_env_ids if ids is None else ids)
        rows = self.num_envs if ids is None else len(ids)
        if ids is not None:
            self._executor.check_some(ids)
        actions = self._check_action(action, rows)
        batch = self._ring.take(rows) if out is None else self._into(out, rows)
        self._advance(actions, ids, batch)
        self._settled()
        return batch

    @exclusive
    def _reset_sync(self, ids: np.ndarray | None, seeds: np.ndarray | None, *options: Any) -> Batch:
        if ids is None:
            self._discard()
        else:
            self._status.check_idle(ids)
        batch = self._ring.take(self.num_envs if ids is None else len(ids))
        self._unsure = self.all_env_ids if ids is None else ids
        try:
            self._executor.reset(ids, seeds, batch, *options)
        except EnvironmentFailure:
            self._settled()
            raise
        self._status.note_started(ids)
        self._settled()
        return batch


def _has(env: Any, name: str) -> bool:
    return env.has_wrapper_attr(name) if isinstance(env, gym.Env) else hasattr(env, name)
