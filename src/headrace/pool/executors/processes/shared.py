"""Arrays in memory that several processes share, without a name that a killed process could leave behind.

The memory is one anonymous file: whoever is handed its descriptor sees it, and the system takes it back when the
last process that had it is gone, however that came about. Memory is taken page by page as it is first written.
Asking for all of it at once would cost 0.1 s a GiB and a replay's whole size from the first moment; so a size is
compared with what is free instead, when the arrays are made.
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

import numpy as np

from headrace.errors import HeadraceError, LimitError, SharedMemoryError
from headrace.limits import limits_named, refusal
from headrace.machine import free_memory, readable

ALIGNMENT = 64  # a cache line of most processors
END = ""

Fields = Mapping[str, tuple[tuple[int, ...], np.dtype]]
"""arrays to be: name → (shape, dtype)"""


class SharedArrays(Mapping[str, np.ndarray]):
    """Named arrays in one piece of shared memory, zero at first.

    They can be handed to a process of `multiprocessing` that is started with ``spawn`` or ``forkserver``, among
    its arguments: pickling passes the descriptor on, never the contents.

    Args:
        fields: name → (shape, dtype).

    Attributes:
        nbytes: the size of it all.

    Raises:
        SharedMemoryError: so much memory is not to be had.
    """

    def __init__(self, fields: Fields):
        self._fields = {name: (tuple(shape), np.dtype(dtype)) for name, (shape, dtype) in fields.items()}
        self.nbytes = _places(self._fields)[END]
        self._descriptor = anonymous_file(self.nbytes)
        self._map()

    def _map(self) -> None:
        try:
            self._memory = mmap.mmap(self._descriptor, self.nbytes)
        except OSError as error:
            raise _refused(self.nbytes, error) from error
        # arrays made with np.ndarray(buffer=…) would not keep the memory from being unmapped under them
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

    def __getstate__(self) -> dict[str, object]:
        return {"fields": self._fields, "nbytes": self.nbytes, "descriptor": reduction.DupFd(self._descriptor)}

    def __setstate__(self, state: dict) -> None:
        self._fields, self.nbytes = state["fields"], state["nbytes"]
        self._descriptor = state["descriptor"].detach()
        self._map()

    def close(self) -> None:
        """Let go of the memory; arrays that somebody still holds stay as they are until they are dropped."""
        if self._descriptor < 0:
            return
        os.close(self._descriptor)
        self._descriptor, self._arrays = -1, {}
        with contextlib.suppress(BufferError):  # arrays in use: they hold the memory, and it goes with them
            self._memory.close()

    def __del__(self) -> None:
        if getattr(self, "_descriptor", -1) >= 0:
            os.close(self._descriptor)


class Fence:
    """The order of publication: what one thread wrote before a call is seen by others before what it writes after.

    x86 keeps stores in order by itself, ARM does not. Python has no barrier of its own, but giving a lock free
    orders all that was before it, and taking it all that is after. This is the one place where that is relied on.
    Each thread needs a fence of its own.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()

    def __call__(self) -> None:
        try:  # noqa: SIM105  (which costs nothing, as `suppress` does not)
            self._lock.release()
        except RuntimeError:  # a signal's handler raised between the two
            pass
        self._lock.acquire()

    def __reduce__(self) -> tuple[type[Fence], tuple[()]]:
        return Fence, ()


def _places(fields: Fields) -> dict[str, int]:
    """Where each array begins, in bytes, at multiples of ALIGNMENT; and where it all ends."""
    places, end = {}, 0
    for name, (shape, dtype) in fields.items():
        places[name] = end
        end += -(-int(np.prod(shape)) * dtype.itemsize // ALIGNMENT) * ALIGNMENT
    return {**places, END: max(end, ALIGNMENT)}


def anonymous_file(size: int) -> int:
    """The descriptor of a file of zeros that has no name."""
    with contextlib.suppress(OSError):  # a system that does not say how much is free
        if size > (available := free_memory()):
            raise _too_little(size, f"{readable(available)} are free")
    with limits_named(f"{readable(size)} of shared memory"):
        if hasattr(os, "memfd_create"):
            descriptor = os.memfd_create("headrace")
        else:
            descriptor, name = tempfile.mkstemp()
            Path(name).unlink()
    try:
        os.ftruncate(descriptor, size)
    except OSError as error:
        os.close(descriptor)
        raise _refused(size, error) from error
    return descriptor


def _refused(size: int, error: OSError) -> HeadraceError:
    if error.errno in (errno.EMFILE, errno.ENFILE):  # a mapping takes one too
        return LimitError(f"{readable(size)} of shared memory: {refusal(error)}")
    return _too_little(size, error)


def _too_little(size: int, reason: object) -> SharedMemoryError:
    return SharedMemoryError(
        f"{readable(size)} of shared memory were wanted, but {reason}: a smaller replay or fewer environments need less"
    )
