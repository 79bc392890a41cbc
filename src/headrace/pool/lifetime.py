"""What outlives a call: locks, forks, the interpreter's end, and pickles.

Threads do not survive a fork, so a pool in a forked child is closed there without
touching what the parent still uses; and threads must be gone before the interpreter is.
"""

from __future__ import annotations

import atexit
import os
import threading
import weakref
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from headrace.errors import SequenceError

if TYPE_CHECKING:
    from headrace.pool.pool import Pool

_pools: weakref.WeakSet[Pool] = weakref.WeakSet()
_orphans: list[Any] = []  # executors of the parent process: kept so that nothing of them is ever run here


def watch(pool: Pool) -> None:
    """Close this pool at the interpreter's end, and disown it in forked children."""
    _pools.add(pool)


def _close_all() -> None:
    for pool in list(_pools):
        pool.close()


def _disown_all() -> None:
    for pool in list(_pools):
        _orphans.append(pool._executor)
        pool._finalizer.detach()
        if pool._closed is None:
            pool._closed = "of the process that forked this one"
            pool._ready = False
    _pools.clear()


atexit.register(_close_all)
os.register_at_fork(after_in_child=_disown_all)


class Exclusive:
    """Holds a pool's lock; two threads in one pool at once is an error, not a race."""

    __slots__ = ("_lock", "_wait")

    def __init__(self, lock: threading.Lock, wait: bool = False):
        self._lock, self._wait = lock, wait

    def __enter__(self) -> None:
        if not self._lock.acquire(self._wait):
            raise SequenceError("another thread is using this pool: give each thread a pool of its own")

    def __exit__(self, *_: object) -> None:
        self._lock.release()


def rebuild(recipe: Mapping[str, Any], env_ids: Any, blobs: list[bytes]) -> Pool:
    """What unpickling a pool calls: make it again, then load the states it had."""
    from headrace.pool.registry import make_pool

    pool = make_pool(**recipe)
    if len(env_ids):
        pool.load_state(env_ids, blobs)
    return pool
