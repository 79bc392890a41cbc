"""Closes pools in forked processes and at the interpreter's exit.

Threads do not survive a fork, so a forked child marks the pool as closed without touching resources that the parent
still uses. Threads must end before the interpreter does: a daemon thread inside a pool is waited for, and later calls
raise `ClosedError`.
"""

from __future__ import annotations

import atexit
import os
import weakref
from typing import Any, Protocol


class Mortal(Protocol):
    """An object that owns threads, processes or memory of this process."""

    def end(self, reason: str) -> None:
        """Frees them immediately; ``reason`` appears in later errors."""
        ...

    def disown(self) -> Any:
        """Leaves them to the parent process; returns objects that must never be run or freed in this one."""
        ...


_watched: weakref.WeakSet[Mortal] = weakref.WeakSet()
_orphans: list[Any] = []  # the parent process's objects, kept so that their finalisers never run here


def watch(one: Mortal) -> None:
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
