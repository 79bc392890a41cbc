"""Wakes a sleeping process from another one through shared memory, without a pipe or a file descriptor.

A `Futex` is a 32-bit number in shared memory that changes when the futex is rung. On Linux a process sleeps while that
number keeps its value (``man 2 futex``), and ringing makes a system call only if a process sleeps. On other systems
the number is polled every 0.3 ms.
"""

from __future__ import annotations

import ctypes
import platform
import sys
import time

import numpy as np

from headrace.pool.shared import Fence

SIZE = 2  # numbers of a futex: how often it was rung, and whether a process sleeps
LOOK = 0.0003  # seconds between polls on systems without futexes

WAIT, WAKE, EVERYBODY = 0, 1, 2**31 - 1
SYSTEM_CALL = {"x86_64": 202, "aarch64": 98, "riscv64": 98, "ppc64le": 221, "s390x": 238}.get(platform.machine())


class _Time(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


def _syscall() -> ctypes._NamedFuncPointer | None:
    if not sys.platform.startswith("linux") or SYSTEM_CALL is None:
        return None
    call = ctypes.CDLL(None, use_errno=True).syscall
    call.restype = ctypes.c_long
    call.argtypes = (
        ctypes.c_long,
        ctypes.c_void_p,
        ctypes.c_int,
        ctypes.c_int,
        ctypes.c_void_p,
        ctypes.c_void_p,
        ctypes.c_int,
    )
    return call


_call = _syscall()


class Futex:
    """A number in shared memory on which a process can sleep; each process makes its own object over the memory.

    One process at a time may sleep on a futex; any process may ring it.

    Args:
        numbers: int32[SIZE] in shared memory, zero at first.
    """

    def __init__(self, numbers: np.ndarray):
        self._numbers = numbers.data
        self._address = ctypes.c_void_p(numbers.ctypes.data)
        self._fence = Fence()

    def listen(self) -> int:
        """Announces sleep; returns the argument for `sleep`. The caller tests its condition again before `sleep`."""
        numbers = self._numbers
        numbers[1] = 1
        self._fence()
        return numbers[0]

    def sleep(self, heard: int, seconds: float) -> None:
        """Sleeps until the futex is rung after `listen` returned ``heard``, a signal arrives or ``seconds`` pass."""
        numbers = self._numbers
        if _call is None:
            until = time.monotonic() + seconds
            while numbers[0] == heard and time.monotonic() < until:
                time.sleep(LOOK)
        else:
            whole = int(seconds)
            limit = _Time(whole, int((seconds - whole) * 1e9))
            _call(SYSTEM_CALL, self._address, WAIT, heard, ctypes.addressof(limit), None, 0)

    def rise(self) -> None:
        """Announces the end of sleep."""
        self._numbers[1] = 0

    def ring(self) -> None:
        """Wakes the sleeping process, if any; called after the writes that fulfil its condition."""
        self._fence()
        numbers = self._numbers
        if numbers[1]:
            numbers[0] = (numbers[0] + 1) & 0x3FFFFFFF
            if _call is not None:
                _call(SYSTEM_CALL, self._address, WAKE, EVERYBODY, None, None, 0)
