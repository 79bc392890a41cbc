"""The cores and the memory of this machine that this process may use, and who may write a file, and when."""

from __future__ import annotations

import math
import os
import platform
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import NamedTuple

from headrace.control_groups import least, memory_left, own_groups, quota
from headrace.errors import HeadraceError, OptionError

KIB = 1024
UNITS = {"amx_bf16": "AMX", "avx512_bf16": "AVX-512, bfloat16", "avx512f": "AVX-512", "avx2": "AVX2"}
"""processor flag in Linux's /proc/cpuinfo → the vector units that it denotes, the most capable first"""
MOST_CORES = "HEADRACE_CORES"
"""an environment variable: the largest number of cores that this process and those that it starts use"""


class Cores(NamedTuple):
    """The cores of this machine.

    Attributes:
        usable: number of cores that this process may use.
        present: number of cores of the machine.
        limit: in words, what leaves this process fewer than are present; empty if it may use all.
    """

    usable: int
    present: int
    limit: str

    def __str__(self) -> str:
        return f"{self.usable} of {self.present} cores" + (f": {self.limit}" if self.limit else "")


def cores() -> Cores:
    """Returns how many cores this process may use, and what limits them.

    Raises:
        OptionError: the environment variable `MOST_CORES` is not a number of cores.
    """
    present = os.cpu_count() or 1
    limits = {"": present}
    if hasattr(os, "sched_getaffinity"):
        limits["the affinity of this process"] = len(os.sched_getaffinity(0))
    if (most := _quota()) is not None:
        limits[f"the container's quota of {most:.4g}"] = max(1, math.ceil(most))
    if told := os.environ.get(MOST_CORES):
        if not told.isdecimal() or int(told) < 1:
            raise OptionError(f"the environment variable {MOST_CORES}={told!r} must be a whole number, at least 1")
        limits[f"{MOST_CORES}={told}"] = int(told)
    limit = min(limits, key=limits.__getitem__)
    return Cores(limits[limit], present, limit)


def usable_cores() -> int:
    """Returns the number of cores that this process may use; raises as `cores`."""
    return cores().usable


@cache  # unlike the affinity it stays the same
def _quota() -> float | None:
    return least(quota, own_groups("cpu"))


def give_way() -> None:
    """Gives this process, and processes that it starts, the lowest scheduling priority, where the system has one."""
    with suppress(OSError, AttributeError):
        os.nice(19)


def cpu_model() -> str:
    """Returns the processor's name and its vector units, since a name alone may leave the generation open."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or "unknown"
    fields = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    flags = fields.get("flags", "").split()
    units = next((f" ({units})" for flag, units in UNITS.items() if flag in flags), "")
    return fields.get("model name", "unknown") + units


def free_memory() -> int:
    """Returns the bytes of free memory, within the limit of this process's container if there is one.

    Raises:
        OSError: the system does not report it.
    """
    of_group = least(memory_left, own_groups("memory"))
    found = [size for size in (sizes_in(Path("/proc/meminfo")).get("MemAvailable"), of_group) if size is not None]
    if not found:
        raise OSError("this system does not say how much memory is free")
    return min(found)


def readable(size: float) -> str:
    """Returns a size in bytes as text, such as ``"1.2 GiB"``."""
    units = ["GiB", "MiB", "KiB", "B"]
    while size >= KIB and len(units) > 1:
        size /= KIB
        units.pop()
    unit = units[-1]
    return f"{size:.0f} {unit}" if size >= 10 or unit == "B" else f"{size:.1f} {unit}"


def sizes_in(file: Path) -> Mapping[str, int]:
    """Returns the sizes, in bytes, in one of Linux's files of ``name: number kB``; empty on other systems."""
    try:
        lines = file.read_text().splitlines()
    except OSError:
        return {}
    words = [line.replace(":", " ").split() for line in lines if line.endswith(" kB")]
    return {name: int(size) * KIB for name, size, _ in words}


def is_lack(error: BaseException) -> bool:
    """Returns whether an exception, or its cause, reports a lack of memory.

    Torch and Warp report it as `RuntimeError`, so the message decides.
    """
    if error.__cause__ is not None and is_lack(error.__cause__):
        return True
    words = str(error).lower()
    return isinstance(error, MemoryError) or (
        isinstance(error, RuntimeError)  # torch.OutOfMemoryError, too
        and not isinstance(error, HeadraceError)
        and any(word in words for word in ("out of memory", "alloc"))
    )


@contextmanager
def alone(lock: Path) -> Iterator[None]:
    """Returns a context in which this process alone holds a lock file; waits until no other process holds it.

    On a file system without locks it does not wait.

    Raises:
        OSError: the file cannot be written.
    """
    import fcntl  # here, since systems without it can use the rest of Headrace

    lock.parent.mkdir(exist_ok=True)
    with lock.open("w") as file:
        with suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def is_own(path: Path) -> bool:
    """Returns whether no other user but root can have written a file or folder; false if there is none."""
    try:
        known = path.stat()
    except OSError:
        return False
    me = getattr(os, "getuid", lambda: known.st_uid)()  # systems without it have other owners of files
    return known.st_uid in (0, me) and not (os.name == "posix" and known.st_mode & stat.S_IWOTH)
