"""Ctrl-C as a wish to stop at the next good moment, instead of an exception in the middle of anything."""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any, Self


class Interrupt:
    """Within ``with Interrupt() as interrupt:`` the first Ctrl-C makes ``interrupt`` true; a second one raises.

    Outside the main thread, where Python handles no signals, it is never true.
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
