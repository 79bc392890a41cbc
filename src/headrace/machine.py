"""What this machine has: cores and memory, as far as this process may use them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from headrace.errors import HeadraceError

KIB = 1024


def usable_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def free_memory() -> int:
    """Bytes that can still be taken without driving anything out.

    Raises:
        OSError: this system does not say.
    """
    found = [size for size in (sizes_in(Path("/proc/meminfo")).get("MemAvailable"), _group()) if size is not None]
    if not found:
        raise OSError("this system does not say how much memory is free")
    return min(found)


def readable(size: float) -> str:
    """Bytes for a person, such as ``"1.2 GiB"``."""
    units = ["GiB", "MiB", "KiB", "B"]
    while size >= KIB and len(units) > 1:
        size /= KIB
        units.pop()
    unit = units[-1]
    return f"{size:.0f} {unit}" if size >= 10 or unit == "B" else f"{size:.1f} {unit}"


def sizes_in(file: Path) -> Mapping[str, int]:
    """The sizes in one of Linux's files of ``name: number kB``, in bytes; nothing elsewhere."""
    try:
        lines = file.read_text().splitlines()
    except OSError:
        return {}
    words = [line.replace(":", " ").split() for line in lines if line.endswith(" kB")]
    return {name: int(size) * KIB for name, size, _ in words}


def _group() -> int | None:
    """What is left to the group of processes (such as a container) that this one belongs to, where it has a limit."""
    folder = Path("/sys/fs/cgroup")
    try:
        most, used = (folder / "memory.max").read_text().strip(), (folder / "memory.current").read_text()
        held = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
    except OSError:
        return None
    # pages of files go when somebody needs the room
    return None if most == "max" else max(0, int(most) - int(used) + int(held.get("inactive_file", 0)))


def is_lack(error: BaseException) -> bool:
    """Whether an exception, or what caused it, says that memory is short; torch's and Warp's are RuntimeErrors."""
    if error.__cause__ is not None and is_lack(error.__cause__):
        return True
    words = str(error).lower()
    return isinstance(error, MemoryError) or (
        isinstance(error, RuntimeError)  # torch.OutOfMemoryError, too
        and not isinstance(error, HeadraceError)
        and any(word in words for word in ("out of memory", "alloc"))
    )
