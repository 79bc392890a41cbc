"""Handling of Ctrl-C and TERM as a request to stop at the next suitable point, instead of an exception at any point."""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any, Self

LAUNCHERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""signals with which torchrun and SLURM end a process, often more than once"""


class Interrupt:
    """A context manager that is true after the first Ctrl-C or TERM; a second one raises KeyboardInterrupt.

    ``kill``, containers and job queues send TERM before they kill a process. A program's own handler of TERM is kept,
    unless it is the one that ``ray.init`` installs, which exits at once. Outside of the main thread, where Python
    handles no signals, the object stays false.

    Args:
        launched: whether a launcher ends this process: then it becomes true after any of `LAUNCHERS`, and no further
            signal raises an exception, since a launcher sends several, and kills a process that takes too long.
    """

    def __init__(self, launched: bool = False) -> None:
        self._asked, self._launched = False, launched
        self._previous: dict[signal.Signals, Any] = {}

    def __bool__(self) -> bool:
        return self._asked

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for each in LAUNCHERS if self._launched else (signal.SIGINT, signal.SIGTERM):
                if self._launched or each is signal.SIGINT or not _is_own(signal.getsignal(each)):
                    self._previous[each] = signal.signal(each, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        for each, previous in self._previous.items():
            signal.signal(each, previous)
        self._previous.clear()

    def _handle(self, _signal: int, _frame: FrameType | None) -> None:
        if self._asked and not self._launched:
            raise KeyboardInterrupt
        self._asked = True


def _is_own(handler: Any) -> bool:
    """Returns whether a handler of TERM is the program's own: neither the default one nor Ray's."""
    return handler is not signal.SIG_DFL and not getattr(handler, "__module__", "").startswith("ray.")
