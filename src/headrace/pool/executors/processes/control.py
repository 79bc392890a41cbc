"""The shared block through which a pool's process and its workers exchange requests, actions and progress.

Every number has a single writer. The pool's process puts requests into a worker's ring and counts them in ``asked``;
the worker serves them in order and counts them in ``served``. An environment is in flight at most once, so a ring never
overflows. A process with nothing to do sleeps on its `Futex`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from headrace.pool.actions import action_fields
from headrace.pool.executors.processes.futex import SIZE, Futex
from headrace.pool.shared import Fence, SharedArrays
from headrace.pool.spec import TaskSpec

STEP, RESET, RESEED, RESTART = range(4)  # commands to an environment; RESTART: begin an episode, the last was lost
WITH_OPTIONS = 4  # added to a reset that uses the options sent to the worker before
EVERYONE, EVERYONE_LOST, CALL, STOP, NOTHING = range(-1, -6, -1)  # requests other than an environment's number
RING = 4  # entries of a ring in addition to one for each environment
LINE = 16  # int32s of a cache line

MOST_SKIPPED = 63  # greatest number of successive waits that sleep without spinning first

give_way: Callable[[], None] = getattr(os, "sched_yield", lambda: None)


@dataclass(frozen=True)
class Share:
    """The environments ``[first, last)`` of worker ``number``."""

    number: int
    first: int
    last: int


def shares(num_envs: int, workers: int) -> list[Share]:
    """Divides the environments evenly among ``workers`` workers, at most one for each environment."""
    workers = min(workers, num_envs)
    ends = [round(w * num_envs / workers) for w in range(workers + 1)]
    return [Share(w, ends[w], ends[w + 1]) for w in range(workers)]


class Control:
    """The shared block of a pool with N environments and W workers; it can be passed to a new process.

    Attributes:
        asked, served: numbers of requests put into each worker's ring, and served, so far.
        wanted: number of requests that each worker must have served before the pool's process continues.
        all_wanted: 1 if the last worker to serve its wanted requests rings the caller's futex; 0 if each worker does.
        requests: int32[W, ring]; each is an env_id, or EVERYONE, CALL, STOP, ….
        command, seed, actions: arrays [N, …], the command, seed and action of each environment's next request.
        place: int64[N, 3], the destination of an environment's result: piece of the arena, its number of rows, row.
        whole: int64[2], the piece and its number of rows for EVERYONE.
        message: int64[N, 2], offset and length of an environment's message in its worker's mailbox.
    """

    def __init__(self, spec: TaskSpec, num_envs: int, workers: int):
        actions = {
            f"action:{name}": ((num_envs, *shape), dtype) for name, (dtype, shape) in action_fields(spec.action).items()
        }
        whole, small = np.dtype(np.int64), np.dtype(np.int32)
        self._arrays = SharedArrays(
            {
                **dict.fromkeys(("asked", "served", "wanted"), ((workers, LINE // 2), whole)),
                "futexes": ((workers + 1, LINE), small),
                "requests": ((workers, num_envs + RING), small),
                "command": ((num_envs,), np.dtype(np.int8)),
                "seed": ((num_envs,), np.dtype(np.uint64)),
                "place": ((num_envs, 3), whole),
                "whole": ((2,), whole),
                "all_wanted": ((1,), whole),
                "message": ((num_envs, 2), whole),
                **actions,
            }
        )
        self._look()

    def _look(self) -> None:
        arrays = self._arrays
        self.asked, self.served, self.wanted = (
            [row.data for row in arrays[name]] for name in ("asked", "served", "wanted")
        )
        self.requests, self.command = arrays["requests"], arrays["command"]
        self.all_wanted, self.whole = arrays["all_wanted"].data, arrays["whole"].data
        self.seed, self.place, self.message = (arrays[n] for n in ("seed", "place", "message"))
        self.actions = {name.removeprefix("action:"): a for name, a in arrays.items() if name.startswith("action:")}
        *workers, caller = (Futex(numbers[:SIZE]) for numbers in arrays["futexes"])
        self.futexes, self.caller = workers, caller
        self.fence = Fence()

    def is_wanted(self, worker: int) -> bool:
        """Returns whether ``worker`` has served the requests that the pool's process waits for, see `all_wanted`."""
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
        """Releases the shared memory."""
        arrays = self._arrays
        vars(self).clear()
        arrays.close()


class WaitStrategy:
    """The waiting strategy of one process: spin for a while, then sleep on its futex.

    Waking a process takes about 10 µs, and more if its core is idle. Spinning reacts faster, but occupies the core.
    Each iteration yields the core, since the caller and its workers may outnumber the cores, and on a busy machine the
    core is not returned at once. After an unsuccessful spin, the following waits therefore sleep immediately; their
    number doubles, up to `MOST_SKIPPED`, with each such spin.

    Args:
        futex: the process's own futex.
        look: longest time to spin, in seconds.
    """

    def __init__(self, futex: Futex, look: float):
        self._futex, self._look = futex, look
        self._skip = self._skipped = 0  # number of waits that sleep without spinning, and how many of them are done

    def until(self, ready: Callable[[], bool], most: float) -> bool:
        """Waits until ``ready()`` is true, sleeping at most ``most`` seconds; returns whether it is."""
        if ready():
            return True
        if self._skipped < self._skip:
            self._skipped += 1
        elif self._looked(ready):
            return True
        futex = self._futex
        heard = futex.listen()
        if not ready():
            futex.sleep(heard, most)
        futex.rise()
        return ready()

    def _looked(self, ready: Callable[[], bool]) -> bool:
        """Spins until ``ready()`` is true or the time limit has passed; returns whether it is true.

        Success after the time limit counts as an unsuccessful spin.
        """
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
