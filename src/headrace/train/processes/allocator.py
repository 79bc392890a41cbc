"""What the C library does with large blocks of memory, on a CPU.

glibc gives a block of some hundred kilobytes back to the system as soon as it is freed, and the
next one is faulted in again, page by page. The activations of a minibatch are such blocks: up to a
third of an update's time went there.
"""

from __future__ import annotations

import ctypes
import platform

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3  # mallopt(3)
LARGE = 1 << 30


def keep_freed_memory() -> None:
    """Let this process keep what it frees for its next blocks of up to 1 GiB; nothing where there is no glibc."""
    if platform.libc_ver()[0] == "glibc":
        libc = ctypes.CDLL(None)
        libc.mallopt(MMAP_THRESHOLD, LARGE)
        libc.mallopt(TRIM_THRESHOLD, LARGE)
