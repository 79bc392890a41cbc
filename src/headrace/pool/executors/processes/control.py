"""What a pool's process and its workers tell each other: requests, actions, and how far each worker is.

Every number here has one writer. The pool's process puts requests into a worker's ring and counts them in ``asked``;
the worker serves them in order and counts them in ``served``. An environment is in flight at most once, so a ring never
overflows. Whoever finds nothing to do sleeps at a bell.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from headrace.pool.actions import action_fields
from headrace.pool.executors.processes.futex import SIZE, Bell
from headrace.pool.executors.processes.shared import Fence, SharedArrays
from headrace.pool.spec import TaskSpec

STEP, RESET, RESEED, RESTART = range(4)  # commands to an environment; RESTART: its episode is lost, begin another
WITH_OPTIONS = 4  # added to a reset: with the options that its worker was told before
EVERYONE, EVERYONE_LOST, CALL, STOP, NOTHING = range(-1, -6, -1)  # requests that are no environment's number
RING = 4  # requests beside one for each environment
LINE = 16  # int32s of a cache line

MOST_SKIPPED = 63  # waits in a row that begin with sleep, after many in which looking was in vain

FINE, FAILED = 0, 1  # what an environment's ``status`` says

give_way: Callable[[], None] = getattr(os, "sched_yield", lambda: None)


@dataclass(frozen=True)
class Share:
    """The environments ``[first, last)`` of worker ``number``."""

    number: int
    first: int
    last: int


def shares(num_envs: int, workers: int) -> list[Share]:
    """Equal shares of the environments for so many workers, or as many as there are environments."""
    workers = min(workers, num_envs)
    ends = [round(w * num_envs / workers) for w in range(workers + 1)]
    return [Share(w, ends[w], ends[w + 1]) for w in range(workers)]


class Control:
    """The shared block; pickled, it is handed on to a process that is started.

    Attributes:
        asked, served: requests put into each worker's ring, and served, so far.
        wanted: how many requests each worker must have served for the pool's process to go on.
        all_wanted: whether every worker must, so that the last of them rings; else each that has rings.
        requests: int32[W, ring]; an environment's number, or a step of EVERYONE, a CALL, STOP, ….
        command, seed, status, actions: of each environment.
        place: int64[N, 3], where an environment's result goes: a piece of the arena, its rows, the row.
        whole: int64[2], piece and rows for EVERYONE.
        letter: int64[N, 2], where in its worker's mailbox something of an environment's lies, and how long it is.
    """

    def __init__(self, spec: TaskSpec, num_envs: int, workers: int):
        actions = {
            f"action:{name}": ((num_envs, *shape), dtype) for name, (dtype, shape) in action_fields(spec.action).items()
        }
        whole, small = np.dtype(np.int64), np.dtype(np.int32)
        self._arrays = SharedArrays(
            {
                **dict.fromkeys(("asked", "served", "wanted"), ((workers, LINE // 2), whole)),
                "bells": ((workers + 1, LINE), small),
                "requests": ((workers, num_envs + RING), small),
                "command": ((num_envs,), np.dtype(np.int8)),
                "status": ((num_envs,), np.dtype(np.int8)),
                "seed": ((num_envs,), np.dtype(np.uint64)),
                "place": ((num_envs, 3), whole),
                "whole": ((2,), whole),
                "all_wanted": ((1,), whole),
                "letter": ((num_envs, 2), whole),
                **actions,
            }
        )
        self._look()

    def _look(self) -> None:
        arrays = self._arrays
        self.asked, self.served, self.wanted = (
            [row.data for row in arrays[name]] for name in ("asked", "served", "wanted")
        )
        self.requests, self.command, self.status = arrays["requests"], arrays["command"], arrays["status"]
        self.all_wanted, self.whole = arrays["all_wanted"].data, arrays["whole"].data
        self.seed, self.place, self.letter = (arrays[n] for n in ("seed", "place", "letter"))
        self.actions = {name.removeprefix("action:"): a for name, a in arrays.items() if name.startswith("action:")}
        *workers, caller = (Bell(numbers[:SIZE]) for numbers in arrays["bells"])
        self.bells, self.caller = workers, caller
        self.fence = Fence()

    def is_wanted(self, worker: int) -> bool:
        """Whether the pool's process can go on, now that this worker has served what it has."""
        if self.served[worker][0] < self.wanted[worker][0]:
            return False
        pairs = zip(self.served, self.wanted, strict=True)
        return not self.all_wanted[0] or all(served[0] >= wanted[0] for served, wanted in pairs)

    def __getstate__(self) -> SharedArrays:
        return self._arrays

    def __setstate__(self, arrays: SharedArrays) -> None:
        self._arrays = arrays
        self._look()

    def close(self) -> None:
        """Let go of the memory."""
        arrays = self._arrays
        vars(self).clear()
        arrays.close()


class Rest:
    """How one process waits: it looks again and again for a while, then sleeps at its bell.

    Waking a process takes some hundredths of a millisecond, and more where its core has gone to sleep, too. Looking is
    quicker, but takes time from others, and each look lets others have the core, since the caller and its workers may
    be more than there are cores: on a busy machine it is a while until one has it back. So who has looked in vain
    sleeps at once the next times, the more of them the more often that was so.

    Args:
        bell: where it sleeps.
        look: seconds that it looks at most.
    """

    def __init__(self, bell: Bell, look: float):
        self._bell, self._look = bell, look
        self._skip = self._skipped = 0  # how many times it is to sleep at once, and how many of them it has

    def until(self, ready: Callable[[], bool], most: float) -> bool:
        """Wait until something is ready, and sleep for at most ``most`` seconds; answers whether it is."""
        if ready():
            return True
        if self._skipped < self._skip:
            self._skipped += 1
        elif self._looked(ready):
            return True
        bell = self._bell
        heard = bell.listen()
        if not ready():
            bell.sleep(heard, most)
        bell.rise()
        return ready()

    def _looked(self, ready: Callable[[], bool]) -> bool:
        """Whether it gets ready; what comes late, since others had the core, has been looked for in vain."""
        clock, there = time.perf_counter, False
        until = clock() + self._look
        while not there and clock() < until:
            give_way()
            there = ready()
        if there and clock() < until:
            self._skip //= 2
        else:
            self._skip, self._skipped = min(2 * self._skip + 1, MOST_SKIPPED), 0
        return there
