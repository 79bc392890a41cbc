"""Turns Ctrl-C into a request to stop at the next suitable point, instead of an exception at any point."""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any, Self


class Interrupt:
    """Within ``with Interrupt() as interrupt:`` the first Ctrl-C makes ``interrupt`` true; a second one raises.

    Outside of the main thread, where Python handles no signals, it stays false.
    """

    def __init__(self) -> None:
        self._asked = False
        self._previous: Any = None

    def __bool__(self) -> bool:
        return self._asked

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._previous = signal.signal(signal.SIGINT, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        if self._previous is not None:
            signal.signal(signal.SIGINT, self._previous)

    def _handle(self, _signal: int, _frame: FrameType | None) -> None:
        if self._asked:
            raise KeyboardInterrupt
        self._asked = True
