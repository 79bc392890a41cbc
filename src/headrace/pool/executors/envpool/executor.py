"""Runs EnvPool's tasks in an EnvPool.

EnvPool begins the next episode in the step after an episode's end, as a pool does with ``autoreset="next_step"``. With
``"same_step"`` a second exchange resets the environments that have ended; an asynchronous pool then receives
environments one by one, and lets go of those that have begun again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import numpy as np

from headrace.errors import RenderError, UnsupportedError
from headrace.pool.batch import FINAL, INFO, OBS, Batch, BatchRing
from headrace.pool.executor import HostExecutor
from headrace.pool.executors.envpool.package import observation_keys, why_no_pictures
from headrace.pool.executors.envpool.wire import State, Wire
from headrace.pool.flat_observation import Joined
from headrace.pool.frames import rgb_frames
from headrace.pool.spec import PoolSettings, TaskSpec
from headrace.pool.structure import leaf_name

Held = tuple[np.ndarray, ...]
Read = Callable[[State], np.ndarray]
"""a function from a state to one of the batch's arrays"""


@dataclass(eq=False, slots=True)
class Sent:
    """A call of a synchronous pool that was not received yet, and the batch that is held for its results."""

    actions: np.ndarray | None  # None for a reset
    env_ids: np.ndarray
    batch: Batch
    held: Held
    begun: bool = False
    done: bool = False


class EnvPoolExecutor(HostExecutor):
    """The executor of EnvPool's tasks.

    Args:
        make: a function (number of rows that ``recv`` returns, seeds int[num_envs]) → EnvPool.
        name: the task's name in EnvPool.
    """

    background = True
    finishes_steps = False
    seeds_all = True

    def __init__(
        self,
        make: Callable[[int, list[int]], Any],
        name: str,
        spec: TaskSpec,
        settings: PoolSettings,
        ring: BatchRing,
    ):
        self.waiting = True
        self._make, self._name, self._spec, self._settings, self._ring = make, name, spec, settings, ring
        self._everyone = np.arange(settings.num_envs, dtype=np.int32)
        self._ends = settings.autoreset == "same_step"  # whether a row of an episode's end is to hold the next one's
        self._each = 1 if self._ends and settings.is_async else settings.batch_size
        self._seeds = settings.seeds
        self._wire = self._wired(self._seeds)
        self._columns = self._columns_of(self._wire.pool)
        self._described = [name for name, _ in self._columns if name not in ("reward", "env_id")]
        self._sent: deque[Sent] = deque()  # synchronous: calls not received yet, oldest first
        # asynchronous, same_step: the batch that rows come into, how many have, and the ends of episodes without them
        self._filling: tuple[Batch, Held, int] | None = None
        self._over: dict[int, State] = {}

    def _wired(self, seeds: np.ndarray) -> Wire:
        pool = self._make(self._each, (seeds % 2**31).tolist())  # EnvPool's seeds are int32
        return Wire(pool, self._settings.num_envs, self._each if self._settings.is_async else 0)

    def _columns_of(self, pool: Any) -> list[tuple[str, Read]]:
        """Returns the batch's arrays that EnvPool has, each with how it is read, without ends of episodes."""
        place = {key: i for i, key in enumerate(pool._state_keys)}
        self._done, self._cut = place["done"], place["trunc"]
        seen = {path: itemgetter(place[key]) for path, key in observation_keys(pool).items()}
        named = {"reward": "reward", "env_id": "info:env_id", "elapsed_step": "elapsed_step"}
        named |= {INFO + f.name: INFO + f.name for f in self._spec.info}
        columns: list[tuple[str, Read]] = [(name, itemgetter(place[key])) for name, key in named.items()]
        if isinstance(space := self._spec.observation, Joined):
            joined = space.rows
            return [(OBS, lambda state: joined({path: read(state) for path, read in seen.items()})), *columns]
        return [*((leaf_name(OBS, path), read) for path, read in seen.items()), *columns]

    def bind(self, batch: Batch) -> None:
        pass

    # -- synchronous calls -----------------------------------------------------------------------

    def step(self, actions: Any, env_ids: np.ndarray | None, batch: Batch) -> None:
        self._finish_sent()
        self._wire.send(self._cast(actions), self._everyone if env_ids is None else env_ids)
        self._receive(batch)

    def reset(self, env_ids: np.ndarray | None, seeds: np.ndarray | None, batch: Batch) -> None:
        self._finish_sent()
        ids = self._everyone if env_ids is None else env_ids
        self._seed(ids, seeds)
        self._wire.reset(ids)
        self._receive(batch)

    def _cast(self, actions: np.ndarray) -> np.ndarray:
        """Returns a copy of actions, as the caller may reuse its array meanwhile, in the dtype that EnvPool takes."""
        return actions.astype(self._wire.pool._spec._action_spec[-1][0])

    def _seed(self, ids: np.ndarray, seeds: np.ndarray | None) -> None:
        """Makes a new EnvPool, the only way to seed environments, unless this one has begun with these seeds."""
        if seeds is None:
            return
        ordered = np.empty_like(self._seeds)
        ordered[ids] = seeds
        if self._wire.used or not np.array_equal(ordered, self._seeds):
            self._wire.close()
            self._seeds, self._wire = ordered, self._wired(ordered)

    def _receive(self, batch: Batch) -> None:
        """Fills a batch with the results of the one call under way."""
        self._copy(self._wire.recv(), batch.arrays)
        self._wire.taken()
        if self._ends:
            over = np.flatnonzero(batch.arrays["terminated"] | batch.arrays["truncated"])
            if over.size:
                self._begin_again(batch.arrays, over)

    def _begin_again(self, arrays: dict[str, np.ndarray], over: np.ndarray) -> None:
        """Begins the next episode in the rows ``over``, and keeps what was last seen of the one that has ended."""
        self._wire.reset(arrays["env_id"][over])
        for name in self._described:
            arrays[FINAL + name][over] = arrays[name][over]
        state = self._wire.recv()
        for name, read in self._columns:
            if name in self._described:
                arrays[name][over] = read(state).reshape(len(over), *arrays[name].shape[1:])
        self._wire.taken()

    def _copy(self, state: State, arrays: dict[str, np.ndarray], rows: slice = slice(None)) -> None:
        for name, read in self._columns:
            into = arrays[name][rows]
            np.copyto(into, read(state).reshape(into.shape))
        arrays["reward"][rows][arrays["elapsed_step"][rows] == 0] = 0.0  # some tasks' first observations have rewards
        np.copyto(arrays["truncated"][rows], state[self._cut])
        np.greater(state[self._done], state[self._cut], out=arrays["terminated"][rows])  # done, and not cut

    # -- sending and receiving -------------------------------------------------------------------

    def send(self, actions: Any, env_ids: np.ndarray) -> None:
        if self._settings.is_async:
            self._wire.send(self._cast(actions), env_ids)
        else:
            self._enqueue(self._cast(actions), env_ids)

    def send_reset(self, env_ids: np.ndarray, seeds: np.ndarray | None) -> None:
        if seeds is not None:
            self._finish_sent()
            self._seed(env_ids, seeds)
        if self._settings.is_async:
            self._wire.reset(env_ids)
        else:
            self._enqueue(None, env_ids)

    def _enqueue(self, actions: np.ndarray | None, env_ids: np.ndarray) -> None:
        batch = self._ring.take(len(env_ids))
        self._sent.append(Sent(actions, env_ids, batch, batch.hold()))
        self._begin_next()

    def _begin_next(self) -> None:
        """Starts the oldest call that is not done, unless it has begun: EnvPool's rows of two would be mixed."""
        todo = next((sent for sent in self._sent if not sent.done), None)
        if todo is not None and not todo.begun:
            todo.begun = True
            if todo.actions is None:
                self._wire.reset(todo.env_ids)
            else:
                self._wire.send(todo.actions, todo.env_ids)

    def _finish(self, sent: Sent, timeout: float | None = None) -> Batch:
        if not sent.done:
            self._begin_next()
            self._wire.recv(timeout)
            self.waiting = False
            self._receive(sent.batch)
            sent.done = True
            self._begin_next()
        return sent.batch

    def _finish_sent(self) -> None:
        """Waits for all calls sent, since there is one at a time."""
        for sent in self._sent:
            self._finish(sent)

    def recv(self, timeout: float | None) -> Batch:
        self.waiting = True
        if not self._settings.is_async:
            batch = self._finish(self._sent[0], timeout)
            self.waiting = False
            self._sent.popleft()
        elif self._ends:
            batch = self._recv_each(timeout)
        else:
            state = self._wire.recv(timeout)
            self.waiting = False
            batch = self._ring.take(self._settings.batch_size)
            self._copy(state, batch.arrays)
            self._wire.taken()
        self.waiting = True
        return batch

    def _recv_each(self, timeout: float | None) -> Batch:
        """Returns a batch whose rows came one by one; an environment that has ended comes once more, begun again."""
        if self._filling is None:
            batch = self._ring.take(self._settings.batch_size)
            self._filling = batch, batch.hold(), 0
        batch, held, count = self._filling
        while count < batch.rows:
            self.waiting = True
            state = self._wire.recv(timeout)
            self.waiting = False
            env_ids = state[self._wire.env_id]
            if state[self._done][0]:
                self._over[int(env_ids[0])] = state
                self._wire.taken()
                self._wire.reset(env_ids)
                continue
            self._copy(state, batch.arrays, slice(count, count + 1))
            if (last := self._over.pop(int(env_ids[0]), None)) is not None:
                self._note_end(last, batch.arrays, count)
            self._wire.taken()
            count += 1
            self._filling = batch, held, count
        self._filling = None
        return batch

    def _note_end(self, last: State, arrays: dict[str, np.ndarray], row: int) -> None:
        """Adds the last step of an episode to the row of the next one's beginning."""
        for name, read in self._columns:
            if name in self._described:
                arrays[FINAL + name][row] = read(last).reshape(arrays[name].shape[1:])
            else:
                arrays[name][row] = read(last)[0]
        arrays["truncated"][row] = last[self._cut][0]
        arrays["terminated"][row] = last[self._done][0] and not last[self._cut][0]

    def discard(self) -> np.ndarray:
        self._sent.clear()
        self._filling = None
        self._over.clear()
        self.waiting = True
        return self._wire.drain()

    # -- what EnvPool has not --------------------------------------------------------------------

    def save_state(self, env_ids: np.ndarray) -> list[bytes]:
        raise UnsupportedError(f"EnvPool cannot save the states of {self._spec.task}'s environments")

    def load_state(self, env_ids: np.ndarray, blobs: list[bytes]) -> None:
        raise UnsupportedError(f"EnvPool cannot load states of {self._spec.task}'s environments")

    def state_arrays(self) -> dict[str, np.ndarray]:
        return {}

    def render(self, env_ids: np.ndarray) -> np.ndarray:
        options = self._spec.options
        size = (options[f"render_{side}"] for side in ("width", "height", "camera_id"))
        if why := why_no_pictures(self._name):
            raise RenderError(f"EnvPool cannot draw {self._spec.task} here: {why}")
        try:
            frames = self._wire.pool._render(env_ids, *size)
        except RuntimeError as error:
            raise RenderError(f"EnvPool cannot draw {self._spec.task}: {error}") from error
        return rgb_frames(self._spec.task, list(frames))

    def close(self) -> None:
        if vars(self):
            self._wire.close()
            vars(self).clear()
