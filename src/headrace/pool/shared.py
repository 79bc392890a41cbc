"""Arrays in memory that several processes share, without a named object that a killed process could leave behind.

The memory is an anonymous file: every process that receives its descriptor can map it, and the system frees it when
the last of these processes ends, for any reason. Memory is allocated page by page at the first write. Reserving it all
at the beginning would take 0.1 s per GiB, and a replay's full size from the start; instead the size is compared with
the free memory when the arrays are made.
"""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
import tempfile
import threading
from collections.abc import Iterator, Mapping
from multiprocessing import reduction
from pathlib import Path
from typing import Any

import numpy as np

from headrace.errors import HeadraceError, LimitError, SharedMemoryError
from headrace.limits import limits_named, refusal
from headrace.machine import free_memory, readable

ALIGNMENT = 64  # a cache line of most processors
END = ""

Fields = Mapping[str, tuple[tuple[int, ...], np.dtype]]
"""the arrays to allocate: name → (shape, dtype)"""


class AnonymousFile:
    """An unnamed file, of ``size`` zero bytes at first; a new process to which it is passed has the same file.

    Raises:
        SharedMemoryError: there is not enough memory.
        LimitError: too many files are open.
    """

    descriptor = -1

    def __init__(self, size: int):
        with contextlib.suppress(OSError):  # some systems do not report their free memory
            if size > (available := free_memory()):
                raise _too_little(size, f"{readable(available)} are free")
        with limits_named(f"{readable(size)} of shared memory"):
            if hasattr(os, "memfd_create"):
                self.descriptor = os.memfd_create("headrace")
            else:
                self.descriptor, name = tempfile.mkstemp()
                Path(name).unlink()
        try:
            os.ftruncate(self.descriptor, size)
        except OSError as error:
            raise _refused(size, error) from error

    def __getstate__(self) -> Any:
        return reduction.DupFd(self.descriptor)

    def __setstate__(self, state: Any) -> None:
        self.descriptor = state.detach()

    def close(self) -> None:
        """Closes the file; what is mapped of it stays mapped."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    def __del__(self) -> None:
        AnonymousFile.close(self)


class SharedArrays(AnonymousFile, Mapping[str, np.ndarray]):
    """Named arrays in one piece of shared memory, zero at first.

    They can be passed as arguments to a `multiprocessing` process that is started with ``spawn`` or ``forkserver``:
    pickling passes on the descriptor, not the contents.

    Args:
        fields: name → (shape, dtype).

    Attributes:
        nbytes: the total size in bytes.

    Raises:
        SharedMemoryError: there is not enough memory.
    """

    def __init__(self, fields: Fields):
        self._fields = {name: (tuple(shape), np.dtype(dtype)) for name, (shape, dtype) in fields.items()}
        self.nbytes = _places(self._fields)[END]
        super().__init__(self.nbytes)
        self._map()

    def _map(self) -> None:
        try:
            self._memory = mmap.mmap(self.descriptor, self.nbytes)
        except OSError as error:
            raise _refused(self.nbytes, error) from error
        # arrays made with np.ndarray(buffer=…) would not prevent their memory from being unmapped
        whole, places = np.frombuffer(self._memory, np.uint8), _places(self._fields)
        self._arrays = {
            name: whole[places[name] : places[name] + int(np.prod(shape)) * dtype.itemsize].view(dtype).reshape(shape)
            for name, (shape, dtype) in self._fields.items()
        }

    def __getitem__(self, name: str) -> np.ndarray:
        return self._arrays[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)

    def __getstate__(self) -> Any:
        return self._fields, self.nbytes, super().__getstate__()

    def __setstate__(self, state: Any) -> None:
        self._fields, self.nbytes, file = state
        super().__setstate__(file)
        self._map()

    def close(self) -> None:
        """Unmaps the memory; arrays still in use stay valid, and keep it mapped until they are freed."""
        if self.descriptor < 0:
            return
        super().close()
        self._arrays = {}
        with contextlib.suppress(BufferError):  # arrays in use hold the memory, which is freed with them
            self._memory.close()


class Fence:
    """A memory barrier: other threads and processes see writes before a call before they see writes after it.

    x86 processors keep stores in order, ARM processors do not. Python has no memory barrier, but releasing a lock
    orders all accesses before it, and acquiring one orders all accesses after it. Each thread needs its own fence.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()

    def __call__(self) -> None:
        try:  # noqa: SIM105  (`suppress` would be slower)
            self._lock.release()
        except RuntimeError:  # a signal handler raised between the two
            pass
        self._lock.acquire()

    def __reduce__(self) -> tuple[type[Fence], tuple[()]]:
        return Fence, ()


def _places(fields: Fields) -> dict[str, int]:
    """Returns name → offset of the array in bytes, a multiple of `ALIGNMENT`, and under `END` the total size."""
    places, end = {}, 0
    for name, (shape, dtype) in fields.items():
        places[name] = end
        end += -(-int(np.prod(shape)) * dtype.itemsize // ALIGNMENT) * ALIGNMENT
    return {**places, END: max(end, ALIGNMENT)}


def _refused(size: int, error: OSError) -> HeadraceError:
    if error.errno in (errno.EMFILE, errno.ENFILE):  # a mapping takes one too
        return LimitError(f"{readable(size)} of shared memory: {refusal(error)}")
    return _too_little(size, error)


def _too_little(size: int, reason: object) -> SharedMemoryError:
    return SharedMemoryError(
        f"{readable(size)} of shared memory were wanted, but {reason}: a smaller replay or fewer environments need less"
    )
