"""Handling of Ctrl-C and TERM as a request to stop at the next suitable point, instead of an exception at any point."""

from __future__ import annotations

import os
import signal
import stat
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Any, Self

ASKING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""signals that ask for the end, often several times: `timeout` and SLURM send one to a process and to its group"""
AGAIN = 0.5  # seconds after the first Ctrl-C within which another one is taken for the same


class Interrupt:
    """A context manager that is true after the first of `ASKING`; a second Ctrl-C raises KeyboardInterrupt.

    ``kill``, containers and job queues send TERM before they kill a process, and a terminal that is closed sends HUP.
    The first signal is confirmed on standard error. A program's own handler of TERM or HUP is kept, unless it is the
    one that ``ray.init`` installs, which exits at once. Outside of the main thread, where Python handles no signals,
    the object stays false.

    Args:
        launched: whether a launcher ends this process: then no signal raises an exception, since a launcher sends
            several, and kills a process that takes too long.
        stop: returns whether to stop, in place of signals, which another process handles.
    """

    def __init__(self, launched: bool = False, stop: Callable[[], bool] | None = None) -> None:
        self._asked, self._launched, self._stop = False, launched, stop
        self._pressed = 0.0  # the time of the first Ctrl-C
        self._previous: dict[signal.Signals, Any] = {}

    def __bool__(self) -> bool:
        return self._asked if self._stop is None else self._stop()

    def __enter__(self) -> Self:
        if self._stop is None and threading.current_thread() is threading.main_thread():
            for each in ASKING:
                if self._launched or each is signal.SIGINT or not _is_own(signal.getsignal(each)):
                    self._previous[each] = signal.signal(each, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        for each, previous in self._previous.items():
            signal.signal(each, previous)
        self._previous.clear()

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        pressed = number == signal.SIGINT and not self._launched
        if pressed and self._pressed:
            if time.monotonic() - self._pressed > AGAIN:
                raise KeyboardInterrupt
            return
        if number == signal.SIGHUP:
            _leave_closed_terminal()
        if pressed:
            self._pressed = time.monotonic()
            _say(
                "stopping: the run finishes its current step and writes a checkpoint; press Ctrl-C again to end at once"
            )
        elif not self._asked and os.environ.get("RANK", "0") == "0":  # torchrun's processes share a terminal
            _say(
                f"stopping on {signal.Signals(number).name}: the run finishes its current step and writes a checkpoint"
            )
        self._asked = True


def _say(words: str) -> None:
    with suppress(OSError, ValueError):
        try:
            print(f"\n{words}", file=sys.stderr, flush=True)
        except RuntimeError:  # the handler has interrupted another print, in which Python allows no second one
            os.write(2, f"\n{words}\n".encode())


def _leave_closed_terminal() -> None:
    """Discards all further output to a terminal that is closed, which would raise exceptions."""
    for number in (1, 2):
        with suppress(OSError):
            if stat.S_ISCHR(os.fstat(number).st_mode) and not os.isatty(number):
                nothing = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nothing, number)
                os.close(nothing)


def _is_own(handler: Any) -> bool:
    """Returns whether a handler is the program's own: neither Python's nor Ray's."""
    usual = handler in (signal.SIG_DFL, signal.default_int_handler)
    return not usual and not getattr(handler, "__module__", "").startswith("ray.")


def at_end_of_input(act: Callable[[], object], hear: Callable[[bytes], object] = lambda line: None) -> None:
    """Calls a function in a thread once standard input ends, as when the process that started this one has ended.

    Args:
        act: the function.
        hear: called in the same thread with every line of input before.
    """

    def wait() -> None:
        # reads the descriptor: the interpreter cannot end without the lock of sys.stdin, which a reader of that holds
        rest = b""
        with suppress(OSError):
            while block := os.read(0, 1 << 12):
                *lines, rest = (rest + block).split(b"\n")
                for line in lines:
                    hear(line)
        act()

    threading.Thread(target=wait, daemon=True).start()
