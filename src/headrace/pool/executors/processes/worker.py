"""A worker process, which steps some of a pool's environments on request.

Results are written directly into the rows that the pool's caller receives. An environment that raises does not affect
the other environments of the process; it is made again at its next reset.
"""

from __future__ import annotations

import copy
import pickle
import sys
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from weakref import WeakValueDictionary

import gymnasium as gym
import numpy as np

from headrace.errors import EngineLostError
from headrace.pool import by_value
from headrace.pool.action_masks import GIVEN, MASK, mask_array
from headrace.pool.actions import ACTION, action_name
from headrace.pool.batch import FINAL, INFO, OBS, batch_fields
from headrace.pool.executors.processes import values
from headrace.pool.executors.processes.arena import Chunks, arrays_over
from headrace.pool.executors.processes.calls import CallFile
from headrace.pool.executors.processes.control import (
    CALL,
    EVERYONE,
    EVERYONE_LOST,
    NOTHING,
    RESEED,
    RESTART,
    STEP,
    STOP,
    WITH_OPTIONS,
    Control,
    Share,
    WaitStrategy,
)
from headrace.pool.executors.processes.mailbox import InfoMessage, Mailbox
from headrace.pool.executors.processes.parallel import check_new
from headrace.pool.executors.processes.slots import Slot
from headrace.pool.executors.processes.values import fitted, flag_of, reward_of
from headrace.pool.fork_server import allow_children, end_children, heed_parent
from headrace.pool.seeds import mixed, seed_globals
from headrace.pool.spec import ARRAYS, AutoresetMode
from headrace.pool.structure import assembled, at, is_array, leaf_name, leaves

LOOK = 0.0002  # longest time in seconds that a worker spins for its next request before it sleeps
DOZE = 1.0  # longest time of one sleep in seconds
FLOAT = np.dtype(np.float32)
LARGE_SEED = 2**31  # exclusive upper bound of the seeds that older random generators accept


@dataclass(frozen=True)
class Orders:
    """The arguments that a worker is started with.

    Attributes:
        share: the worker's environments.
        made: the pickled function env_id → environment, and the task's spec.
        autoreset: the pool's autoreset mode.
        control: the block shared with the pool's process.
        mailbox: the worker's mailbox.
        chunks: the memory into which results are written.
        sheet: remote calls other than steps: functions to call with an environment.
        restart: the key of info that marks rows of lost episodes, which are truncated, as an environment whose
            simulator's process is lost begins a new one; empty if it fails instead.
        reserved: the keys of info that no environment may use for its own.
    """

    share: Share
    made: bytes
    autoreset: AutoresetMode
    control: Control
    mailbox: Mailbox
    chunks: Chunks
    call_file: CallFile
    restart: str
    reserved: frozenset[str]


class Rows:
    """The arrays of a piece of the arena, prepared for a worker's writes."""

    def __init__(self, arrays: dict[str, np.ndarray], paths: dict[str, tuple[Any, ...]], infos: tuple[str, ...]):
        self.obs = [(path, arrays[name], arrays[name].shape[1:]) for name, path in paths.items()]
        self.final = [
            (path, arrays[FINAL + name], a.shape[1:])
            for name, path in paths.items()
            if (a := arrays.get(FINAL + name)) is not None
        ]
        self.infos = [(name, arrays[INFO + name]) for name in infos]
        self.final_infos = [(name, a) for name in infos if (a := arrays.get(FINAL + INFO + name)) is not None]
        self.reward: Any
        self.reward, self.terminated, self.truncated, self.env_id, self.elapsed = (
            arrays[name].data for name in ("reward", "terminated", "truncated", "env_id", "elapsed_step")
        )
        self.reward_shape = arrays["reward"].shape[1:]
        if self.reward_shape:  # one for each agent
            self.reward = arrays["reward"]
        last = arrays.get(FINAL + "elapsed_step")
        self.final_elapsed = None if last is None else last.data


class Worker:
    """The environments of one process.

    Args:
        orders: the worker's share of the environments, and the memory that it uses.
    """

    def __init__(self, orders: Orders):
        self._orders = orders
        self._control, self._share = orders.control, orders.share
        seed_globals(int(self._control.seed[orders.share.first]))
        self._make, spec = pickle.loads(orders.made)
        self._next_step, self._same_step = orders.autoreset == "next_step", orders.autoreset == "same_step"
        self._reserved = orders.reserved
        self._slots = [Slot() for _ in range(orders.share.first, orders.share.last)]
        self._all_made = WeakValueDictionary[int, Any]()
        self._known: dict[tuple[int, int], Rows] = {}
        self._fields = [f for f in batch_fields(spec, orders.autoreset) if f.dtype != object]
        space = spec.observation
        self._paths = {leaf_name(OBS, path): path for path, leaf in leaves(space).items() if is_array(leaf)}
        self._objects = {leaf_name(OBS, path): path for path, leaf in leaves(space).items() if not is_array(leaf)}
        self._infos = tuple(f.name for f in spec.info)
        self._action_of = _unpacker(spec.action, self._control.actions)

    def run(self) -> None:
        """Serves requests until STOP."""
        control, number = self._control, self._share.number
        asked, served = control.asked[number], control.served[number]
        ring, rest = control.requests[number], WaitStrategy(control.futexes[number], LOOK)
        while True:
            while not rest.until(lambda: asked[0] != served[0], DOZE):
                pass
            control.fence()
            request = int(ring[served[0] % len(ring)])
            if request == STOP:
                break
            self._serve(request)
            control.fence()
            served[0] += 1
            control.fence()  # if two workers finish at the same time, at least one of them sees that both have
            if control.is_wanted(number):
                control.caller.ring()

    def close(self) -> None:
        """Closes all environments, ignoring what they raise."""
        for slot in self._slots:
            if slot.env is not None:
                try:
                    slot.env.close()
                except Exception:
                    traceback.print_exc()

    # -- requests --------------------------------------------------------------------------------

    def _step_everyone(self) -> None:
        """Steps every environment; row i receives the result of environment i."""
        first, rows = self._share.first, self._rows(*self._control.whole)
        actions = self._action_of(first, self._share.last)
        for i, (slot, action) in enumerate(zip(self._slots, actions, strict=True), first):
            self._advance(slot, i, i, action, rows)

    def _restart_everyone(self) -> None:
        """Begins new episodes, to complete a step during which the previous process was lost."""
        rows, seeds = self._rows(*self._control.whole), self._control.seed.tolist()
        for i, slot in enumerate(self._slots, self._share.first):
            self._start(slot, i, i, seeds[i], rows, lost=True)

    def _serve(self, request: int) -> None:
        if request == EVERYONE:
            self._step_everyone()
        elif request == EVERYONE_LOST:
            self._restart_everyone()
        elif request == CALL:
            self._answer()
        elif request != NOTHING:
            self._serve_one(request)

    def _serve_one(self, env_id: int) -> None:
        control, slot = self._control, self._slots[env_id - self._share.first]
        piece, count, row = control.place[env_id].tolist()
        rows, command = self._rows(piece, count), int(control.command[env_id])
        if command == STEP:
            (action,) = self._action_of(env_id, env_id + 1)
            self._advance(slot, env_id, row, action, rows)
        else:
            with_options, command = command & WITH_OPTIONS, command & ~WITH_OPTIONS
            seeded = command == RESEED or not slot.seeded
            seed = int(control.seed[env_id]) if seeded else None
            self._start(slot, env_id, row, seed, rows, command == RESTART, bool(with_options))

    def _answer(self) -> None:
        """Calls the function of the question for its environments, and writes the results or exceptions as answer."""
        number, question = self._orders.call_file.question()
        function, asked = pickle.loads(question)
        answers = []
        for env_id, argument in asked:
            slot = self._slots[env_id - self._share.first]
            try:
                if slot.env is None:
                    slot.env = self._made(env_id)
                answers.append((True, function(slot, argument)))
            except Exception as error:
                answers.append((False, (_sendable(error), traceback.format_exc())))
        try:
            text = pickle.dumps(answers)
        except Exception:
            try:
                text = by_value.dumps(answers)
            except Exception as error:
                text = pickle.dumps([(False, (None, f"{type(error).__name__}: {error}"))] * len(answers))
        self._orders.call_file.answer(number, text)

    # -- environments ----------------------------------------------------------------------------

    def _advance(self, slot: Slot, env_id: int, row: int, action: Any, rows: Rows) -> None:
        if slot.over and self._next_step:
            self._start(slot, env_id, row, None, rows)
            return
        try:
            if slot.env is None:
                raise RuntimeError("this environment failed and was not reset since: reset it")
            obs, reward, terminated, truncated, info = slot.env.step(action)
            slot.elapsed += 1
            terminated, truncated = flag_of(terminated, "terminated"), flag_of(truncated, "truncated")
            earned = fitted(reward, FLOAT, shape, "the reward") if (shape := rows.reward_shape) else reward_of(reward)
            rows.reward[row], rows.terminated[row], rows.truncated[row] = earned, terminated, truncated
            final = None
            if terminated or truncated:
                if self._same_step:
                    # copies: the environment may write its next episode into the same arrays
                    final = copy.deepcopy(self._own(info, row, rows.final_infos))
                    self._write(obs, row, rows.final)
                    rows.final_elapsed[row] = slot.elapsed  # type: ignore[index]
                    last = copy.deepcopy(self._objects_of(obs, FINAL))
                    obs, info = slot.env.reset()
                    slot.elapsed = 0
                else:
                    slot.over, last = True, None
            else:
                last = None
            self._write(obs, row, rows.obs)
            info = self._own(info, row, rows.infos)
            rows.env_id[row], rows.elapsed[row] = env_id, slot.elapsed
            if info or final or self._objects:
                objects = self._objects_of(obs, "") | (last or {})
                self._send(env_id, InfoMessage(info, final, objects or None))
        except EngineLostError as error:
            if self._orders.restart:
                slot.env = None
                self._start(slot, env_id, row, int(self._control.seed[env_id]), rows, lost=True)
            else:
                self._fail(slot, env_id, row, error, rows)
        except Exception as error:
            self._fail(slot, env_id, row, error, rows)

    def _start(
        self,
        slot: Slot,
        env_id: int,
        row: int,
        seed: int | None,
        rows: Rows,
        lost: bool = False,
        with_options: bool = False,
    ) -> None:
        """Begins a new episode.

        Args:
            seed: of the random stream, or None to continue it. An object that is made anew later on, for one that
                failed or was lost, gets another seed that follows from this one, so that it repeats no episodes.
            lost: whether the previous episode was lost with its process, and is reported as truncated.
            with_options: whether the environment is reset with the options stored in its slot.
        """
        try:
            if seed is None and slot.env is None:  # it has failed, and its random stream with it
                seed = int(self._control.seed[env_id])
            if seed is not None:
                seed_globals(seed)
                self._control.seed[env_id] = mixed(np.array([seed], np.uint64))[0]
            if slot.env is None:
                slot.env = self._made(env_id)
            given: dict[str, Any] = {} if seed is None else {"seed": folded(seed)}
            if with_options:
                if slot.options is None:
                    raise RuntimeError("its process was lost, and the options of this reset with it: reset it again")
                given["options"], slot.options = slot.options, None
            obs, info = slot.env.reset(**given)
            slot.seeded, slot.elapsed, slot.over = True, 0, lost and self._next_step
            self._write(obs, row, rows.obs)
            if lost and self._same_step:
                self._own(info, row, rows.final_infos)
            info = self._own(info, row, rows.infos)
            rows.reward[row], rows.terminated[row], rows.truncated[row] = 0.0, False, lost
            rows.env_id[row], rows.elapsed[row] = env_id, 0
            if lost and self._same_step:
                self._write(obs, row, rows.final)
                rows.final_elapsed[row] = 0  # type: ignore[index]
            if lost:
                info = {**info, self._orders.restart: True}
            objects = self._objects_of(obs, "")
            if info or objects:
                self._send(env_id, InfoMessage(info, {} if lost and self._same_step else None, objects or None))
        except Exception as error:
            self._fail(slot, env_id, row, error, rows)

    def _made(self, env_id: int) -> Any:
        env = self._make(env_id)
        check_new(env, self._all_made)
        return env

    def _write(self, obs: Any, row: int, targets: list[tuple[tuple[Any, ...], np.ndarray, tuple[int, ...]]]) -> None:
        for path, target, shape in targets:
            value = at(obs, path) if path else obs
            if getattr(value, "dtype", None) is not target.dtype or value.shape != shape:
                where = "".join(f"[{key!r}]" for key in path)
                value = fitted(value, target.dtype, shape, f"the observation{where}")
            target[row] = value

    def _own(self, info: Any, row: int, targets: list[tuple[str, np.ndarray]]) -> Any:
        """Writes the info fields that the task declares into the batch; returns the rest of the info dict.

        Where an action mask is missing, all actions are allowed.

        Raises:
            TypeError: it is no dict.
            KeyError: a declared field is missing.
            ValueError: a key is one of the pool's own, or a declared field does not fit its array.
        """
        if info is None:
            info = {}
        if not isinstance(info, dict):
            raise TypeError(f"info must be a dict, not {info!r}")
        if taken := self._reserved.intersection(info):
            raise ValueError(f"info[{min(taken)!r}] is a key of the pool's own: rename the environment's, in a wrapper")
        if not targets:
            return info
        for name, target in targets:
            if name == GIVEN:
                target[row] = info.get(MASK) is not None
            elif name == MASK:
                target[row] = mask_array(info.get(MASK), target.shape[1:])
            else:
                target[row] = fitted(info[name], target.dtype, target.shape[1:], f"info[{name!r}]")
        declared = {name for name, _ in targets}
        return {name: value for name, value in info.items() if name not in declared}

    def _objects_of(self, obs: Any, prefix: str) -> dict[str, Any]:
        return {prefix + name: at(obs, path) for name, path in self._objects.items()}

    def _fail(self, slot: Slot, env_id: int, row: int, error: Exception, rows: Rows) -> None:
        self._send(env_id, InfoMessage({}, None, None, (_sendable(error), _told(error))))
        slot.env, slot.over, slot.elapsed = None, False, 0
        rows.reward[row], rows.terminated[row], rows.truncated[row] = 0.0, False, False
        rows.env_id[row], rows.elapsed[row] = env_id, 0

    def _send(self, env_id: int, message: InfoMessage) -> None:
        self._orders.mailbox.write(env_id, message, self._control.message)

    def _rows(self, piece: int, count: int) -> Rows:
        rows = self._known.get((piece, count))
        if rows is None:
            memory, start = self._orders.chunks.at(piece)
            rows = self._known[piece, count] = Rows(
                arrays_over(memory, start, self._fields, count), self._paths, self._infos
            )
        return rows


def folded(seed: int) -> int:
    """Returns ``seed`` if it is below 2**31, else a seed below 2**31 that is derived from it."""
    return seed if seed < LARGE_SEED else (seed ^ seed >> 31 ^ seed >> 62) % LARGE_SEED


def _unpacker(space: gym.Space, actions: dict[str, np.ndarray]) -> Callable[[int, int], Iterator[Any]]:
    """Returns a function (first, last) → the actions of these environments, each of the type of a space's sample."""
    names = {action_name(path): path for path in leaves(space)}
    if len(names) == 1 and isinstance(space, ARRAYS):
        array = actions[ACTION]
        return lambda first, last: iter(array[first:last].copy())

    def each(first: int, last: int) -> Iterator[Any]:
        columns = {name: actions[name][first:last].copy() for name in names}
        for i in range(last - first):
            yield assembled("", space, {f":{name}": column[i] for name, column in columns.items()})

    return each


def _told(error: BaseException) -> str:
    """Returns the traceback of an environment's exception, without the lines of this file and of its checks."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename in (__file__, values.__file__):
        trace = trace.tb_next
    return "".join(traceback.format_exception(type(error), error, trace))


def _sendable(error: BaseException) -> BaseException | None:
    try:
        pickle.loads(by_value.dumps(error))
    except Exception:
        return None
    return error


def work(orders: Orders) -> None:
    """Runs one worker process until it receives STOP or its parent ends."""
    heed_parent()
    allow_children()
    worker = Worker(orders)
    try:
        worker.run()
    finally:
        worker.close()
        end_children()
        sys.stdout.flush()
