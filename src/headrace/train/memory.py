"""How much memory there is, and how much of it is used: a GPU's own, or the machine's and this process's."""

from __future__ import annotations

import resource
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import torch

from headrace.errors import HeadraceError

KIB = 1024


def in_use(device: torch.device) -> dict[str, int]:
    """Bytes in use: on a GPU what tensors take and what torch holds for them, on a CPU this process's pages."""
    if device.type == "cuda":
        return {"allocated": torch.cuda.memory_allocated(device), "reserved": torch.cuda.memory_reserved(device)}
    return {"resident": _status("VmRSS", _most())}


def peak(device: torch.device, free_at_first: int) -> int:
    """The most bytes that this process has used so far; of a GPU, beside what was ``free_at_first``."""
    if device.type == "cuda":
        return max(0, free_at_first - free(device))  # torch holds what it has once needed
    # not the resource module's figure, which begins with that of the process that started this one
    return _status("VmHWM", _most())


def free(device: torch.device) -> int:
    """Bytes that can still be taken without driving anything out."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    found = [size for size in (_fields(Path("/proc/meminfo")).get("MemAvailable"), _group()) if size is not None]
    if not found:
        raise OSError("this system does not say how much memory is free")
    return min(found)


def limit(device: torch.device, bytes_more: int) -> None:
    """Let this process take no more than so many bytes beside what it has: allocations then fail, and nothing else."""
    if device.type == "cuda":
        total = torch.cuda.mem_get_info(device)[1]
        held = torch.cuda.memory_reserved(device)
        torch.cuda.set_per_process_memory_fraction(min(1.0, (held + bytes_more) / total), device)
    elif (data := _fields(Path("/proc/self/status")).get("VmData")) is not None:
        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        most = data + bytes_more if hard == resource.RLIM_INFINITY else min(data + bytes_more, hard)
        resource.setrlimit(resource.RLIMIT_DATA, (most, hard))


@contextmanager
def limited(device: torch.device, bytes_more: int) -> Iterator[None]:
    """`limit`, for a while."""
    before = resource.getrlimit(resource.RLIMIT_DATA)
    limit(device, bytes_more)
    try:
        yield
    finally:
        if device.type == "cuda":
            torch.cuda.set_per_process_memory_fraction(1.0, device)
        else:
            resource.setrlimit(resource.RLIMIT_DATA, before)


def is_lack(error: BaseException) -> bool:
    """Whether an exception says that there is not enough memory; torch's and Warp's are RuntimeErrors."""
    words = str(error).lower()
    return isinstance(error, MemoryError | torch.OutOfMemoryError) or (
        isinstance(error, RuntimeError)
        and not isinstance(error, HeadraceError)
        and any(word in words for word in ("out of memory", "alloc"))
    )


def readable(size: float) -> str:
    """Bytes for a person, such as ``"1.2 GiB"``."""
    units = ["GiB", "MiB", "KiB", "B"]
    while size >= KIB and len(units) > 1:
        size /= KIB
        units.pop()
    unit = units[-1]
    return f"{size:.0f} {unit}" if size >= 10 or unit == "B" else f"{size:.1f} {unit}"


def _status(name: str, otherwise: int) -> int:
    return _fields(Path("/proc/self/status")).get(name, otherwise)


def _most() -> int:
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return used if sys.platform == "darwin" else used * KIB


def _fields(file: Path) -> Mapping[str, int]:
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
