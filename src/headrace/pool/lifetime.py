"""Closes pools in forked processes and at the interpreter's exit.

Threads do not survive a fork, so a forked child marks the pool as closed without touching resources that the parent
still uses. Threads must end before the interpreter does: at exit, a running call of a daemon thread is waited for, and
later calls raise `ClosedError`.
"""

from __future__ import annotations

import atexit
import os
import weakref
from typing import Any, Protocol


class Closeable(Protocol):
    """An object that owns threads, processes or memory of this process."""

    def end(self, reason: str) -> None:
        """Frees the resources immediately; ``reason`` appears in later errors."""
        ...

    def disown(self) -> Any:
        """Drops the resources in a forked child; returns objects that must never run or be freed in this process."""
        ...


_watched: weakref.WeakSet[Closeable] = weakref.WeakSet()
_orphans: list[Any] = []  # the parent process's objects, kept so that their finalisers never run here


def watch(one: Closeable) -> None:
    """Ends an object at the interpreter's exit, and disowns it in forked children."""
    _watched.add(one)


def _end_all() -> None:
    for one in list(_watched):
        one.end("closed, as the program ends")


def _disown_all() -> None:
    _orphans.extend(one.disown() for one in list(_watched))
    _watched.clear()


atexit.register(_end_all)
os.register_at_fork(after_in_child=_disown_all)
