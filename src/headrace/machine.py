"""The cores and the memory of this machine that this process may use, and the files that only its user can write."""

from __future__ import annotations

import os
import platform
import stat
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from headrace.errors import HeadraceError

KIB = 1024
UNITS = {"amx_bf16": "AMX", "avx512_bf16": "AVX-512, bfloat16", "avx512f": "AVX-512", "avx2": "AVX2"}
"""processor flag in Linux's /proc/cpuinfo → the vector units that it denotes, the most capable first"""


def usable_cores() -> int:
    """Returns the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


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
    found = [size for size in (sizes_in(Path("/proc/meminfo")).get("MemAvailable"), _group()) if size is not None]
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


def _group() -> int | None:
    """Returns the bytes left to this process's control group (such as a container); None without a limit."""
    folder = Path("/sys/fs/cgroup")
    try:
        most, used = (folder / "memory.max").read_text().strip(), (folder / "memory.current").read_text()
        held = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
    except OSError:
        return None
    # the page cache is freed on demand
    return None if most == "max" else max(0, int(most) - int(used) + int(held.get("inactive_file", 0)))


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


def is_own(path: Path) -> bool:
    """Returns whether no other user but root can have written a file or folder; false if there is none."""
    try:
        known = path.stat()
    except OSError:
        return False
    me = getattr(os, "getuid", lambda: known.st_uid)()  # systems without it have other owners of files
    return known.st_uid in (0, me) and not (os.name == "posix" and known.st_mode & stat.S_IWOTH)
