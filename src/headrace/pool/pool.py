"""The pool: a batch of environments behind one API, whatever advances them.

Everything a caller can get wrong is caught here, once, so that executors stay small
and fast: which environments have been started, which are in flight, which have
finished, and whether the pool is still open. The pool itself never touches a result:
executors write it into the arrays that the caller receives.
"""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from headrace.errors import ClosedError, EnvironmentFailure, OptionError, SequenceError
from headrace.pool import lifetime
from headrace.pool.actions import action_check, check_env_ids, unpacked
from headrace.pool.batch import Batch, BatchRing, rows_of
from headrace.pool.ledger import Ledger
from headrace.pool.seeds import SeedLike, seeds_of
from headrace.pool.spec import PoolSettings, Task, TaskSpec
from headrace.pool.state import chosen_arrays, seal, task_key, unseal

StepResult = tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]


class Pool:
    """N environments of one task, stepped together (``batch_size == N``) or as they finish.

    Results are ``(obs, reward float32[k], terminated bool[k], truncated bool[k], info)``; rows come in
    the order sent (synchronous) or finished (asynchronous), and ``info["env_id"]`` names them. The
    arrays are safe to keep: their memory is used again only after the last reference to them is gone.

    Example:
        >>> import headrace
        >>> with headrace.make("CartPole-v1", num_envs=8, seed=1) as pool:
        ...     obs, info = pool.reset()
        ...     obs, reward, terminated, truncated, info = pool.step([0, 1] * 4)

    Attributes:
        spec: the task: spaces, info fields, options.
        settings: the options that every task shares.
        observation_space, action_space: those of one environment (``single_…`` are the same).
    """

    def __init__(self, task: Task, settings: PoolSettings, recipe: Mapping[str, Any] | None = None):
        self.spec: TaskSpec = task.spec
        self.settings = settings
        self.num_envs, self.batch_size = settings.num_envs, settings.batch_size
        self.observation_space = self.single_observation_space = task.spec.observation
        self.action_space = self.single_action_space = task.spec.action
        self.all_env_ids = np.arange(settings.num_envs, dtype=np.int32)
        self.all_env_ids.flags.writeable = False
        self._recipe = dict(recipe or {})
        self._key = task_key(task.spec, settings.autoreset)
        self._check_action = action_check(task.spec.action)
        # an executor keeps about N / B batches in flight, the caller a few results
        self._ring = BatchRing(task.spec, settings.autoreset, 8 + settings.num_envs // settings.batch_size)
        self._executor = task.make_executor(task.spec, settings, self._ring)
        self._ring.serve(self._executor)
        self._manual = settings.autoreset == "disabled"
        self._ledger = Ledger(settings.num_envs, self._manual)
        self._sent: deque[np.ndarray] = deque()  # synchronous pools: env_ids of each send
        # synchronous pools: batches of a recv that timed out half-way, kept from reuse
        self._received: list[tuple[Batch, tuple[np.ndarray, ...]]] = []
        self._lock = threading.Lock()
        self._closed: str | None = None
        self._ready = False  # the fast path of step holds: open, synchronous, nothing to wait for
        self._finalizer = weakref.finalize(self, self._executor.close)
        lifetime.watch(self)

    # -- what it is ------------------------------------------------------------------------------

    @property
    def is_async(self) -> bool:
        return self.settings.is_async

    @property
    def autoreset(self) -> str:
        return self.settings.autoreset

    @property
    def device(self) -> str:
        return self.settings.device

    @property
    def config(self) -> dict[str, Any]:
        """All options with their values, as EnvPool's ``config``."""
        s = self.settings
        return {
            "task_id": self.spec.task,
            "num_envs": s.num_envs,
            "batch_size": s.batch_size,
            "num_threads": s.num_threads,
            "seed": s.seeds.tolist(),
            "autoreset": s.autoreset,
            "device": s.device,
            "thread_affinity_offset": s.thread_affinity_offset,
            "max_episode_steps": self.spec.max_episode_steps,
            "max_num_players": 1,
            **self.spec.options,
        }

    def __len__(self) -> int:
        return self.num_envs

    def __repr__(self) -> str:
        kind = f"batch_size={self.batch_size}, " if self.is_async else ""
        return f"<Pool {self.spec.task}, num_envs={self.num_envs}, {kind}{self._closed or 'open'}>"

    # -- stepping --------------------------------------------------------------------------------

    def reset(
        self,
        env_id: Any = None,
        *,
        seed: SeedLike = None,
        options: Mapping[str, Any] | None = None,
    ) -> tuple[Any, dict[str, Any]]:
        """Start new episodes, in all environments or those named, and return (obs, info).

        Args:
            env_id: the environments, in the order of the result's rows; all by default, in which case
                whatever is in flight is waited for and discarded.
            seed: None continues each environment's random stream; an integer restarts them at
                ``seed + env_id``; a list gives one seed a row.
            options: ``{"reset_mask": bool[num_envs]}`` is Gymnasium's way to name environments.

        An asynchronous pool returns the first ``batch_size`` rows; `recv` brings the others.
        """
        ids, seeds = self._reset_arguments(env_id, seed, options)
        if self.is_async:
            self._send_reset(ids, seeds)
            obs, _, _, _, info = self.recv()
            return obs, info
        with self._exclusive():
            if ids is None:
                self._discard()
            else:
                self._ledger.check_idle(ids)
            batch = self._ring.take(self.num_envs if ids is None else len(ids))
            self._executor.reset(ids, seeds, batch)
            self._ledger.note_started(ids)
            self._refresh()
        return batch.obs, batch.info()

    def step(
        self, action: Any, env_id: Any = None, *, out: Batch | Mapping[str, np.ndarray] | None = None
    ) -> StepResult:
        """Advance all environments, or those named, by one agent step.

        Args:
            action: [k, *action_space.shape], row i for ``env_id[i]``; EnvPool's dict form
                ``{"action": …, "env_id": …}`` too.
            env_id: the environments to step; all by default.
            out: where to write: a batch from `make_batch`, or a dict of arrays. Synchronous pools only.

        Raises:
            ActionError, EnvIdError: the arguments are wrong; nothing was stepped.
            SequenceError: the environment was not reset, has finished, or is in flight.
            EnvironmentFailure: an environment raised; the others were stepped. Reset it to go on.
        """
        if not self._ready or env_id is not None or type(action) is dict:
            return self._step_some(action, env_id, out)
        if not self._lock.acquire(False):
            raise SequenceError("another thread is using this pool: give each thread a pool of its own")
        try:
            actions = self._check_action(action, self.num_envs)
            batch = self._ring.take(self.num_envs) if out is None else self._into(out, self.num_envs)
            self._executor.step(actions, None, batch)
            if self._manual:
                self._ledger.note_results(batch)
                self._refresh()
        finally:
            self._lock.release()
        return (*batch.result, batch.info())

    def send(self, action: Any, env_id: Any = None) -> None:
        """Start one step in all environments, or those named, and return at once; see `step`."""
        action, env_id = unpacked(action, env_id, self.action_space)
        with self._exclusive():
            ids = self.all_env_ids if env_id is None else check_env_ids(env_id, self.num_envs)
            self._ledger.check_steppable(ids)
            actions = self._check_action(action, len(ids))
            self._executor.send(actions, ids)
            self._note_sent(ids)

    def recv(self, timeout: float | None = None, *, reset: bool = False, return_info: bool = True) -> Any:
        """Wait for results: the ``batch_size`` rows finished first, or (synchronous) all that was sent.

        Args:
            timeout: seconds to wait, or None for as long as it takes. Ctrl-C is honoured either way.
            reset: return ``(obs, info)`` instead of the five-tuple, as EnvPool does after a reset.
            return_info: with ``reset``, whether info is returned too.

        Raises:
            SequenceError: less is in flight than would be returned, so waiting would last for ever.
            RecvTimeoutError: time is up; everything stays in flight.
            EnvironmentFailure: an environment raised; it must be reset, the next `recv` goes on.
        """
        self._check_open()
        if timeout is not None and not timeout >= 0:
            raise OptionError(f"timeout must be a number of seconds ≥ 0, not {timeout}")
        batch = self._recv_async(timeout) if self.is_async else self._recv_sync(timeout)
        if reset:
            return (batch.obs, batch.info()) if return_info else batch.obs
        return (*batch.result, batch.info())

    def async_reset(self) -> None:
        """Start new episodes everywhere and return at once; `recv` brings the observations."""
        self._send_reset(None, None)

    # -- results and states ----------------------------------------------------------------------

    def make_batch(self, arrays: Mapping[str, Any] | None = None, **more: Any) -> Batch:
        """Bind arrays of the caller's as the place where a step writes its results.

        Args:
            arrays, more: batch field (``obs``, ``reward``, ``terminated``, ``info:lives``, …) → array
                [k, …], C-contiguous, writeable, of the field's dtype. Fields not given get new arrays.

        Returns:
            What ``step(…, out=…)`` takes. Bind once for each row of a rollout buffer, and use it again
            and again: a step then costs no copy and no allocation.
        """
        given = {name: np.asarray(array) for name, array in {**(arrays or {}), **more}.items()}
        fields = {f.name: f for f in self._ring.fields}
        rows = rows_of(given, fields, self.num_envs)
        for name, array in given.items():
            f = fields[name]
            if array.shape != (rows, *f.shape) or array.dtype != f.dtype:
                raise OptionError(f"{name} must be {f.dtype}{[rows, *f.shape]}, not {array.dtype}{list(array.shape)}")
            if not (array.flags.c_contiguous and array.flags.writeable and array.flags.aligned):
                raise OptionError(f"{name} must be C-contiguous, aligned and writeable")
        self._check_open()
        return self._ring.make(rows, given)

    def render(self, env_ids: Any = None) -> np.ndarray:
        """RGB frames uint8[k, height, width, 3] of the environments named; of environment 0 by default."""
        with self._exclusive():
            return self._executor.render(self._idle(0 if env_ids is None else env_ids))

    def save_state(self, env_ids: Any = None) -> list[bytes]:
        """Everything that decides the environments' futures: one blob each, of all by default."""
        with self._exclusive():
            ids = self._idle(env_ids)
            blobs = self._executor.save_state(ids)
            return [seal(blob, self._key, bool(self._ledger.finished[i])) for i, blob in zip(ids, blobs, strict=True)]

    def state_arrays(self, names: Sequence[str] | None = None, env_ids: Any = None) -> dict[str, np.ndarray]:
        """Copies of arrays in which kernel environments live: field of their ``state`` → [k, …], to look at.

        Args:
            names: the fields; all by default.
            env_ids: the environments of the k rows; all by default.

        Raises:
            OptionError: there is no such array, or the task is no kernel environment and has none.
        """
        with self._exclusive():
            ids, arrays = self._idle(env_ids), self._executor.state_arrays()
            return {name: arrays[name][ids] for name in chosen_arrays(self.spec.task, arrays, names)}

    def load_state(self, env_ids: Any, blobs: list[bytes]) -> None:
        """Put saved states into the environments named (None: all). Any pool of the task can load them."""
        with self._exclusive():
            ids = self.all_env_ids if env_ids is None else check_env_ids(env_ids, self.num_envs)
            if len(blobs) != len(ids):
                raise OptionError(f"{len(blobs)} states were given for {len(ids)} environments")
            self._ledger.check_idle(ids)
            opened = [unseal(blob, self._key, int(i)) for i, blob in zip(ids, blobs, strict=True)]
            self._executor.load_state(ids, [payload for payload, _ in opened])
            self._ledger.note_started(ids)
            self._ledger.finished[ids] = [finished for _, finished in opened]
            self._refresh()

    # -- lifetime --------------------------------------------------------------------------------

    def close(self, reason: str = "closed") -> None:
        """Free threads, processes and memory now. Calling it again does nothing."""
        if self._closed is None:
            self._closed, self._ready = reason, False
            self._finalizer()

    def __enter__(self) -> Pool:
        self._check_open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[Callable[..., Pool], tuple[Any, ...]]:
        """Pickles as the call that made it and the states of its environments."""
        with self._exclusive():
            self._ledger.check_idle(self.all_env_ids)
        ids = np.flatnonzero(self._ledger.started)
        return lifetime.rebuild, (self._recipe, ids, self.save_state(ids) if ids.size else [])

    # -- the rules -------------------------------------------------------------------------------

    def _exclusive(self) -> lifetime.Exclusive:
        self._check_open()
        # in an asynchronous pool one thread may send while another receives; neither holds the lock for long
        return lifetime.Exclusive(self._lock, wait=self.is_async)

    def _check_open(self) -> None:
        if self._closed is not None:
            raise ClosedError(f"this pool of {self.spec.task} is {self._closed}: make a new one")

    def _idle(self, env_ids: Any) -> np.ndarray:
        """The environments named (None: all), each of which was reset and is not in flight."""
        ids = self.all_env_ids if env_ids is None else check_env_ids(env_ids, self.num_envs)
        self._ledger.check_idle(ids)
        self._ledger.check_started(ids)
        return ids

    def _refresh(self) -> None:
        """Decide whether `step` may take its fast path."""
        self._ready = self._closed is None and not self.is_async and self._ledger.all_steppable()

    def _note_sent(self, ids: np.ndarray) -> None:
        self._ledger.note_sent(ids)
        self._ready = False
        if not self.is_async:
            self._sent.append(ids)

    def _note_received(self, ids: np.ndarray, batch: Batch | None = None) -> None:
        self._ledger.note_received(ids)
        if batch is not None:
            self._ledger.note_results(batch)
        self._refresh()

    def _discard(self) -> None:
        """Wait for what is in flight and forget it."""
        if self._ledger.num_in_flight:
            self._executor.discard()
            self._sent.clear()
            self._received.clear()
            self._note_received(np.flatnonzero(self._ledger.in_flight))

    def _into(self, out: Batch | Mapping[str, np.ndarray], rows: int) -> Batch:
        batch = out if isinstance(out, Batch) else self.make_batch(out)
        if batch.ring() is not self._ring:
            raise OptionError("out= belongs to another pool: make it with this pool's make_batch")
        if batch.rows != rows:
            raise OptionError(f"out= has {batch.rows} rows; this call writes {rows}")
        return batch

    def _step_some(self, action: Any, env_id: Any, out: Batch | Mapping[str, np.ndarray] | None) -> StepResult:
        if self.is_async:
            if out is not None:
                raise OptionError("out= needs a synchronous pool (batch_size == num_envs)")
            self.send(action, env_id)
            return self.recv()
        action, env_id = unpacked(action, env_id, self.action_space)
        with self._exclusive():
            ids = None if env_id is None else check_env_ids(env_id, self.num_envs)
            self._ledger.check_steppable(self.all_env_ids if ids is None else ids)
            rows = self.num_envs if ids is None else len(ids)
            actions = self._check_action(action, rows)
            batch = self._ring.take(rows) if out is None else self._into(out, rows)
            self._executor.step(actions, ids, batch)
            self._ledger.note_results(batch)
            self._refresh()
        return (*batch.result, batch.info())

    def _reset_arguments(
        self, env_id: Any, seed: SeedLike, options: Mapping[str, Any] | None
    ) -> tuple[np.ndarray | None, np.ndarray | None]:
        unknown = set(options or ()) - {"reset_mask"}
        if unknown:
            raise OptionError(f"reset has no option {unknown.pop()!r}; it knows reset_mask")
        if options and options.get("reset_mask") is not None:
            mask = np.asarray(options["reset_mask"])
            if mask.dtype != np.bool_ or mask.shape != (self.num_envs,) or not mask.any():
                raise OptionError(f"reset_mask must be bool[{self.num_envs}] with at least one True")
            if env_id is not None:
                raise OptionError("give env_id or reset_mask, not both")
            env_id = np.flatnonzero(mask)
            if isinstance(seed, list | tuple | np.ndarray) and len(seed) == self.num_envs:
                seed = np.asarray(seed)[env_id]
        ids = None if env_id is None else check_env_ids(env_id, self.num_envs)
        seeds = None if seed is None else seeds_of(seed, self.all_env_ids if ids is None else ids)
        return ids, seeds

    def _send_reset(self, ids: np.ndarray | None, seeds: np.ndarray | None) -> None:
        with self._exclusive():
            if ids is None:
                self._discard()
                ids = self.all_env_ids
            self._ledger.check_idle(ids)
            self._executor.send_reset(ids, seeds)
            self._ledger.note_started(ids)
            self._note_sent(ids)

    def _recv_async(self, timeout: float | None) -> Batch:
        in_flight = self._ledger.num_in_flight
        if in_flight < self.batch_size:
            raise SequenceError(
                f"recv returns {self.batch_size} results but {in_flight} are in flight: send more first"
            )
        batch = self._executor.recv(timeout)
        with lifetime.Exclusive(self._lock, wait=True):
            self._note_received(batch.arrays["env_id"], batch)
        return batch

    def _recv_sync(self, timeout: float | None) -> Batch:
        if not self._sent and not self._received:
            raise SequenceError("recv with nothing in flight: send actions or reset first")
        while self._sent:
            try:
                batch = self._executor.recv(timeout)
            except EnvironmentFailure:
                self._note_received(self._sent.popleft())
                raise
            self._note_received(self._sent.popleft(), batch)
            self._received.append((batch, batch.hold()))
        received, self._received = [batch for batch, _ in self._received], []
        return received[0] if len(received) == 1 else self._ring.join(received)
