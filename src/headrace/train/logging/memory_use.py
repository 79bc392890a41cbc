"""Measures free and used memory: of a GPU, or of the machine and this process."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import torch

from headrace.errors import SharedMemoryError
from headrace.machine import free_memory, is_lack, readable, sizes_in


def in_use(device: torch.device) -> dict[str, int]:
    """Returns kind → bytes in use: on a GPU allocated and reserved by torch, on a CPU resident in this process."""
    if device.type == "cuda":
        return {"allocated": torch.cuda.memory_allocated(device), "reserved": torch.cuda.memory_reserved(device)}
    return {"resident": psutil.Process().memory_info().rss}


def free(device: torch.device) -> int:
    """Returns the free memory of a GPU, or for the CPU of the machine, in bytes."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    return free_memory()


@contextmanager
def replay_named(size: int, needed: int, device: torch.device) -> Iterator[None]:
    """Raises `SharedMemoryError`, which names a replay_size that fits, for a lack of memory within this context.

    Args:
        size: the setting ``replay_size``.
        needed: the bytes that the replay needs.
    """
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not is_lack(error):
            raise
        left = free(device)
        fits = int(size * min(1.0, left / needed) / 2)  # the rest of the run needs memory, too
        fits -= fits % 10 ** max(0, len(str(fits)) - 2)
        what = "of shared memory" if isinstance(error, SharedMemoryError) else "of memory"
        raise SharedMemoryError(
            f"{readable(needed)} {what} were wanted for replay_size={size}, {readable(needed / size)} for each "
            f"transition, but {readable(left)} are free: replay_size={fits} fits"
        ) from error


@contextmanager
def limited(device: torch.device, bytes_more: int) -> Iterator[None]:
    """Limits this process to ``bytes_more`` further bytes of memory within this context; more raises an error."""
    before = _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    if device.type == "cuda":
        total = torch.cuda.mem_get_info(device)[1]
        held = torch.cuda.memory_reserved(device)
        torch.cuda.set_per_process_memory_fraction(min(1.0, (held + bytes_more) / total), device)
    elif (data := sizes_in(Path("/proc/self/status")).get("VmData")) is not None:
        most = data + bytes_more if hard == resource.RLIM_INFINITY else min(data + bytes_more, hard)
        resource.setrlimit(resource.RLIMIT_DATA, (most, hard))
    try:
        yield
    finally:
        if device.type == "cuda":
            torch.cuda.set_per_process_memory_fraction(1.0, device)
        else:
            resource.setrlimit(resource.RLIMIT_DATA, before)
