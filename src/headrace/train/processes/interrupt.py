"""Turns Ctrl-C, and TERM, into a request to stop at the next suitable point, instead of an exception at any point."""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any, Self

LAUNCHERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""signals with which torchrun and SLURM end a process, often more than once"""


class Interrupt:
    """Within ``with Interrupt() as interrupt:`` the first Ctrl-C or TERM makes ``interrupt`` true; a second one raises.

    TERM is what ``kill``, containers and job queues send before they kill. A program that handles it itself keeps its
    handler, unless that is the one which ``ray.init`` installs unasked, and which exits at once. Outside of the main
    thread, where Python handles no signals, ``interrupt`` stays false.

    Args:
        launched: whether a launcher ends this process: then it is any of `LAUNCHERS`, and none ever raises, since a
            launcher sends them again, and kills who takes too long.
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
    """Returns whether a program has asked for this handler of TERM: it is neither the system's, nor Ray's."""
    return handler is not signal.SIG_DFL and not getattr(handler, "__module__", "").startswith("ray.")
