"""What outlives a call: forks, and the interpreter's end.

Threads do not survive a fork, so a pool in a forked child is closed there without
touching what the parent still uses; and threads must be gone before the interpreter is, a daemon
thread that is inside a pool among them: it is waited for, and then kept out.
"""

from __future__ import annotations

import atexit
import os
import weakref
from typing import Any, Protocol


class Mortal(Protocol):
    """What has threads, processes or memory of this process."""

    def end(self, reason: str) -> None:
        """Free them now."""
        ...

    def disown(self) -> Any:
        """Leave them to the process that forked this one; answers what must never be run or freed here."""
        ...


_watched: weakref.WeakSet[Mortal] = weakref.WeakSet()
_orphans: list[Any] = []  # of the parent process: kept so that nothing of them is ever run here


def watch(one: Mortal) -> None:
    """End it at the interpreter's end, and disown it in forked children."""
    _watched.add(one)


def _end_all() -> None:
    for one in list(_watched):
        one.end("closed, as the program ends")


def _disown_all() -> None:
    _orphans.extend(one.disown() for one in list(_watched))
    _watched.clear()


atexit.register(_end_all)
os.register_at_fork(after_in_child=_disown_all)
