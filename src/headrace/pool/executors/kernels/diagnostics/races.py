"""Detects races among agents: debug mode records which agent uses which element between two barriers.

On a CPU the agents of a phase run one after the other, so a race among them has an effect only on a GPU: results that
differ from run to run. Here every access of interpreted code to an array is recorded, and two conflicting accesses of
different agents in one phase are found in any order of execution.

The definition of a race is that of CUDA C++, which is that of standard C++: two accesses to one element,
at least one of them a write, not ordered by a barrier and not both atomic. Two agents that write the same
value race as well: only stores of one instruction of one warp are documented to leave one of the values,
and the agents of an environment may lie in several warps. Atomic operations of one kind commute; of
different kinds they do not, so those are reported too.
"""

from __future__ import annotations

import contextlib
import functools
import linecache
import sys
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import numpy as np

OURS = Path(__file__).parents[1]
GENERATED = str(OURS / "agents.py")  # the file of the generated functions that call an author's
ROUND = {"act": "step", "begin": "reset"}  # names of the generated functions that loop over agents → their meaning

READ, WRITE = "reads", "writes"  # all other kinds of access are atomic
EVERY_AGENT = -1  # the agent in `over`, which all threads of an environment compute

Place = tuple[int, ...]


class RaceError(Exception):
    """Two agents use one element in one phase, and at least one of them writes it.

    Attributes:
        where: the lines of the author's code, each with the agent and its access.
    """

    def __init__(self, what: str, where: str):
        super().__init__(what)
        self.where = where


@dataclass(frozen=True, slots=True)
class _Access:
    """An access: the agent, its kind, and the line and function of the author's code."""

    agent: int
    kind: str
    file: str
    line: int
    function: str
    part: str  # the name of the environment's function that contains the line
    of: str  # "step" or "reset" if that function is one of its phases, else ""

    @property
    def who(self) -> str:
        return "every agent" if self.agent == EVERY_AGENT else f"agent {self.agent}"

    @property
    def does(self) -> str:
        return self.kind if self.kind in (READ, WRITE) else f"changes (atomic {self.kind})"

    def __str__(self) -> str:
        source = linecache.getline(self.file, self.line).strip()
        return f"  {self.file}:{self.line}, in {self.function} ({self.who} {self.does})\n    {source}"


class Watch:
    """The record of agents' accesses since the last barrier, for one environment at a time, and the agents' order."""

    def __init__(self, num_agents: int):
        self._num_agents = num_agents
        self._agent = EVERY_AGENT
        self._used: dict[tuple[str, Place], dict[str, dict[int, _Access]]] = {}
        seed = _SHUFFLED.get()
        self._random = None if seed is None else np.random.default_rng(seed)
        self._order = np.arange(num_agents)

    def barrier(self) -> None:
        """Clears the record: all later accesses are ordered after the earlier ones, for all agents."""
        self._agent = EVERY_AGENT
        self._used.clear()
        if self._random is not None:
            self._order = self._random.permutation(self._num_agents)

    def turn(self, number: int) -> np.int32:
        """Returns the agent that acts at position ``number`` between these barriers, and makes it the current one."""
        self._agent = int(self._order[number])
        return np.int32(self._agent)

    def noting(self, name: str, ndim: int) -> Callable[[Place, str], None]:
        """Returns the function that an array of this name and ``ndim`` dimensions calls for each access.

        It takes the element's indices and the kind of access, and raises `RaceError`.
        """

        def note(place: Place, kind: str) -> None:
            self._note(name, ndim, place, kind)

        return note

    def _note(self, name: str, ndim: int, place: Place, kind: str) -> None:
        used = self._used.setdefault((name, place), {})
        if self._agent in (same := used.setdefault(kind, {})):
            return
        access = _access(self._agent, kind)
        if access is None:
            return  # not in the author's code
        for other_kind, others in used.items():
            if kind != other_kind or kind == WRITE:
                for other in others.values():
                    if other.agent != self._agent:
                        raise _race(_element(name, ndim, place), access, other)
        if self._agent == EVERY_AGENT and kind != READ:
            raise _race(_element(name, ndim, place), access, access)
        if len(same) < 2:  # two agents suffice: at least one of them differs from any later agent
            same[self._agent] = access


def _element(name: str, ndim: int, place: Place) -> str:
    """Returns an element as the author writes it: a vector's component has its own brackets."""
    parts = [place[:ndim], place[ndim:]]
    return name + "".join(f"[{', '.join(map(str, part))}]" for part in parts if part)


def _race(element: str, now: _Access, before: _Access) -> RaceError:
    if now is before:
        what = f"{now.part} is computed by the threads of all agents, so it may only read, but {element} is changed"
        return RaceError(f"race: {what}", str(now))
    if (now.part, now.of) == (before.part, before.of):
        within = f"in the same phase, {now.part}{f' of {now.of}' if now.of else ''}"
    else:
        within = f"and no barrier separates {before.part} from {now.part}"
    what = f"race: {now.who} {now.does} {element}, which {before.who} {before.does}, {within}"
    return RaceError(what, f"{now}\n{before}")


def _access(agent: int, kind: str) -> _Access | None:
    """Returns the access at the current line of the author's code; None for an access outside of it."""
    frame: FrameType | None = sys._getframe(2)
    line = part = None
    while frame is not None and (frame.f_code.co_filename != GENERATED):
        if is_authors(frame.f_code.co_filename):
            line = line or frame
            part = frame
        frame = frame.f_back
    if frame is None or line is None or part is None:
        return None
    code = line.f_code
    of = ROUND.get(frame.f_code.co_name, "")
    return _Access(agent, kind, code.co_filename, line.f_lineno, code.co_name, part.f_code.co_name, of)


@functools.cache
def is_authors(file: str) -> bool:
    """Returns whether a file belongs neither to Headrace's kernel code nor to Warp or NumPy."""
    path = Path(file)
    return OURS not in path.parents and not {"warp", "numpy"} & set(path.parts)


# -- the current watch ---------------------------------------------------------------------------


_SHUFFLED: ContextVar[int | None] = ContextVar("seed of the agents' order", default=None)
_CURRENT: ContextVar[Watch | None] = ContextVar("watch", default=None)


@contextlib.contextmanager
def shuffled(seed: int) -> Iterator[None]:
    """Returns a context in which new debug-mode pools execute each phase's agents in a new random order."""
    token = _SHUFFLED.set(seed)
    try:
        yield
    finally:
        _SHUFFLED.reset(token)


@contextlib.contextmanager
def watched(watch: Watch | None) -> Iterator[None]:
    """Returns a context in which interpreted code reports turns and barriers to ``watch``."""
    token = _CURRENT.set(watch)
    try:
        yield
    finally:
        _CURRENT.reset(token)


def barrier_passed(lanes: int) -> None:
    """Executes `agents.barrier` in interpreted code."""
    if (watch := _CURRENT.get()) is not None:
        watch.barrier()


def agent_acting(turn: int) -> int | np.int32:
    """Executes `agents.whose_turn` in interpreted code."""
    watch = _CURRENT.get()
    return turn if watch is None else watch.turn(turn)
