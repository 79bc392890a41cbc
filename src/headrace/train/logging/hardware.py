"""Measures how much of the machine a run uses: cores of all its processes, and the GPU.

A measurement reads the system's list of processes, and is made so seldom that its cost is negligible.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable

import psutil
import torch

LEAST = 1.0  # seconds between two measurements
SHARE = 0.002  # the largest share of the time that measuring may take


class HardwareUse:
    """The use of the machine by a process and those that it has started in the same session.

    Args:
        root: id of the process; by default that of the calling process.
    """

    def __init__(self, device: torch.device, root: int | None = None):
        self._device, self._root = device, os.getpid() if root is None else root
        self._due = 0.0
        self._before: tuple[float, dict[int, float]] | None = None
        self._known: dict[str, float] = {}

    def read(self) -> dict[str, float]:
        """Returns ``cores``, the mean number in use since the last call, and ``gpu``, the share in use; if known."""
        began = time.monotonic()
        if began >= self._due:
            spent = {pid: seconds for pid in family_of(self._root) if (seconds := processor_seconds([pid])) is not None}
            if self._before is not None:
                then, before = self._before
                used = sum(seconds - before.get(pid, 0.0) for pid, seconds in spent.items())
                self._known = {"cores": round(used / (began - then), 2)}
                self._known |= {} if (use := gpu_use(self._device)) is None else {"gpu": use}
            self._before = began, spent
            now = time.monotonic()
            self._due = now + max(LEAST, (now - began) / SHARE)
        return self._known


def family_of(root: int) -> list[int]:
    """Returns the ids of a process and its descendants in the same session; only its own if these are unknown."""
    found = [root]
    with contextlib.suppress(psutil.Error, OSError):
        session = os.getsid(root)
        for child in psutil.Process(root).children(recursive=True):
            with contextlib.suppress(OSError):  # it has ended meanwhile
                found += [child.pid] if os.getsid(child.pid) == session else []
    return found


def processor_seconds(pids: Iterable[int]) -> float | None:
    """Returns the processor seconds that these processes have used since they began; None where unknown."""
    try:
        times = [psutil.Process(pid).cpu_times() for pid in pids]
    except psutil.Error:
        return None
    return sum(each.user + each.system for each in times)


def gpu_use(device: torch.device) -> float | None:
    """Returns the share of recent time in which a GPU was busy, from its driver; None where unknown."""
    if device.type == "cuda":
        with contextlib.suppress(Exception):  # NVML's own, where it lacks this or its library
            return torch.cuda.utilization(device) / 100
    return None
