"""Measures free and used memory: of a GPU, or of the machine and this process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psutil
import torch

from headrace.errors import SharedMemoryError
from headrace.machine import free_memory, is_lack, readable


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
