"""The base class of all pools, on the host or on a device: the task, the environments' status and states, closing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

import numpy as np

from headrace.errors import OptionError, StateError
from headrace.pool.actions import check_env_ids
from headrace.pool.environment_status import EnvironmentStatus
from headrace.pool.executor import Executor
from headrace.pool.pickles import Recipe, made_again, written
from headrace.pool.spec import AutoresetMode, PoolSettings, TaskSpec
from headrace.pool.state import chosen_arrays, seal, task_key, unseal_all
from headrace.pool.turns import Turns, exclusive

if TYPE_CHECKING:
    from headrace.pool.executors.kernels.changes import Changes

E = TypeVar("E", bound=Executor[Any, Any])


class BasePool(Turns, Generic[E]):
    """N environments of one task and the executor that advances them.

    Args:
        spec: the task.
        settings: the options that every task shares.
        executor: advances the environments.
        manual: whether finished environments are tracked, because autoreset is disabled.
        recipe: the call that makes an equal pool, for pickling; None for a pool that cannot be pickled.

    Attributes:
        spec: the task: spaces, info fields, options.
        settings: the options that every task shares.
        num_envs: N.
        observation_space, action_space: spaces of one environment (``single_…`` are the same).
        all_env_ids: int32[N], read-only.
    """

    _changes: Changes | None = None

    def __init__(self, spec: TaskSpec, settings: PoolSettings, executor: E, manual: bool, recipe: Recipe | None = None):
        super().__init__(spec.task, settings.is_async, executor.wake, executor.close)
        self.spec, self.settings = spec, settings
        self.num_envs = settings.num_envs
        # of type Any, as what a space has, such as the `n` of a `Discrete`, depends on the task
        self.observation_space: Any = spec.observation
        self.action_space: Any = spec.action
        self.single_observation_space, self.single_action_space = self.observation_space, self.action_space
        self.all_env_ids = np.arange(settings.num_envs, dtype=np.int32)
        self.all_env_ids.flags.writeable = False
        self._executor, self._recipe = executor, recipe
        self._status = EnvironmentStatus(settings.num_envs, manual)
        self._changed: dict[str, Any] = {}  # options, by `set_options`
        self._key = task_key(spec, settings.autoreset)

    # -- properties ------------------------------------------------------------------------------

    @property
    def is_async(self) -> bool:
        """Whether results come as environments finish, ``batch_size`` rows at a time."""
        return self.settings.is_async

    @property
    def saves_pickles(self) -> bool:
        """Whether saved states are pickles, which may run any code when they are loaded; so for Python environments."""
        return self._executor.pickles

    @property
    def autoreset(self) -> AutoresetMode:
        """The autoreset mode: ``"next_step"``, ``"same_step"`` or ``"disabled"``."""
        return self.settings.autoreset

    @property
    def config(self) -> dict[str, Any]:
        """All options with their values, like EnvPool's ``config``."""
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
            **self._changed,
        }

    def __len__(self) -> int:
        return self.num_envs

    def __repr__(self) -> str:
        kind = "".join(f"{name}={value}, " for name, value in self._particulars().items())
        state = self._closed or "open"
        return f"<{type(self).__name__} {self.spec.task}, num_envs={self.num_envs}, {kind}{state}>"

    def _particulars(self) -> dict[str, Any]:
        """Returns further settings to show in `repr`, by name."""
        return {}

    # -- states ----------------------------------------------------------------------------------

    @exclusive
    def render(self, env_ids: Any = None) -> np.ndarray:
        """Returns RGB frames uint8[k, height, width, 3] of the environments ``env_ids``, by default environment 0.

        Raises:
            RenderError: the task has no rendering.
        """
        return self._executor.render(self._idle(0 if env_ids is None else env_ids))

    @exclusive
    def save_state(self, env_ids: Any = None) -> list[bytes]:
        """Returns the complete state of the environments ``env_ids`` (all by default), one `bytes` each.

        An environment that loads such a state continues exactly as the saved environment does.
        """
        ids = self._idle(env_ids)
        blobs, finished = self._executor.save_state(ids), self._finished(ids)
        return [seal(blob, self._key, bool(over)) for blob, over in zip(blobs, finished, strict=True)]

    @exclusive
    def load_state(self, env_ids: Any, blobs: Sequence[bytes]) -> None:
        """Loads saved states of any pool of the same task into the environments ``env_ids`` (None: all).

        Raises:
            StateError: a state is damaged or belongs to another task; no environment has changed.
        """
        ids = self._ids(env_ids)
        opened = unseal_all(blobs, self._key, ids)
        self._status.check_idle(ids)
        self._unsure, self._ready = ids, False
        try:
            self._executor.load_state(ids, [payload for payload, _ in opened])
        except StateError:
            self._settled()
            raise
        self._status.note_started(ids)
        self._status.finished[ids] = [finished for _, finished in opened]
        self._settled()

    @exclusive
    def state_arrays(self, names: Sequence[str] | None = None, env_ids: Any = None) -> dict[str, np.ndarray]:
        """Returns copies, as NumPy arrays, of the arrays that hold the environments' state: name → [k, …].

        Args:
            names: fields of a kernel environment's ``state``, or MuJoCo's names (``qpos``, …); all by default.
            env_ids: the environments of the k rows; all by default.

        Raises:
            OptionError: there is no such array, or the task's state is not kept in arrays.
        """
        ids, known = self._idle(env_ids), self._executor.state_arrays()
        return {name: self._copied(name, ids) for name in chosen_arrays(self.spec.task, known, names)}

    def _finished(self, ids: np.ndarray) -> np.ndarray:
        """Returns bool[k], whether each environment has finished and must be reset by the caller."""
        return self._status.finished[ids]

    def _copied(self, name: str, ids: np.ndarray) -> np.ndarray:
        """Returns a copy of the rows ``ids`` of one of the executor's state arrays."""
        return self._executor.state_arrays()[name][ids]

    # -- status ----------------------------------------------------------------------------------

    def _ids(self, env_ids: Any) -> np.ndarray:
        """Returns checked env_ids, int32[k]; all for None."""
        return self.all_env_ids if env_ids is None else check_env_ids(env_ids, self.num_envs)

    @exclusive
    def set_options(self, **options: Any) -> None:
        """Changes options of the task in all environments, within their episodes.

        An option may change on which nothing depends but values in tables of the state, of a task of kernels or of
        MuJoCo. It holds until the next change; saved states do not hold it.

        Raises:
            OptionError: an option is unknown, its value is invalid, or it cannot change while environments run; none
                was changed.
            SequenceError: an environment is in flight.
        """
        self._not_in_flight(None)
        if self._changes is None:
            raise OptionError(f"{self.spec.task} has no options that can change while its environments run")
        changed = self._changed | options
        self._executor.put_tables(self._changes.tables(changed))
        self._changed = changed

    def _not_in_flight(self, env_ids: Any) -> np.ndarray:
        ids = self._ids(env_ids)
        self._status.check_idle(ids)
        return ids

    def _idle(self, env_ids: Any) -> np.ndarray:
        """Returns env_ids, int32[k] (None: all); raises `SequenceError` unless all were reset and none is in flight."""
        ids = self._not_in_flight(env_ids)
        self._status.check_started(ids)
        return ids

    def _settled(self) -> None:
        """Marks the status as consistent, and computes whether `step` may skip its checks."""
        self._ready = self._status.all_steppable() and not self.settings.is_async and self._closed is None
        self._unsure = None

    def _recover(self) -> None:
        """Cleans up after a call that an exception interrupted: its environments must be reset."""
        if self._unsure is not None:
            self._status.note_broken(self._unsure)
        self._settled()

    # -- lifetime --------------------------------------------------------------------------------

    def close(self) -> None:
        """Frees threads, processes and memory immediately. Further calls have no effect.

        A running call of another thread ends first; a call that waits for results raises `ClosedError`.
        """
        self.end("closed")

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        """Returns the call that made the pool and the states of its environments, for pickling."""
        if self._recipe is None:
            raise TypeError("a pool can be pickled only if headrace.make has made it")
        ids = self._started_all_idle()
        return made_again, (written(self._recipe, self.spec.task), ids, self.save_state(ids) if ids.size else [])

    @exclusive
    def _started_all_idle(self) -> np.ndarray:
        """Returns the env_ids that have been reset; raises `SequenceError` if any environment is in flight."""
        self._status.check_idle(self.all_env_ids)
        return np.flatnonzero(self._status.started)

    def __enter__(self) -> Self:
        self._check_open()
        return self

    def __exit__(self, kind: Any, *_: object) -> None:
        self.close()
