"""Memory shared between processes: it is passed on without a name, and nothing of it is left behind."""

from __future__ import annotations

import multiprocessing
import pickle
from pathlib import Path

import numpy as np
import pytest

from headrace.errors import HeadraceError, SharedMemoryError
from headrace.pool import shared
from headrace.pool.shared import Fence, SharedArrays

FIELDS = {
    "floats": ((3, 5), np.dtype(np.float32)),
    "bytes": ((7,), np.dtype(np.uint8)),
    "one": ((), np.dtype(np.int64)),
}


def add_one(arrays: SharedArrays) -> None:
    arrays["floats"][2, 4] += 1
    arrays["one"][...] += 1


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_another_process_sees_the_same_arrays(method):
    arrays = SharedArrays(FIELDS)
    assert {name: (array.shape, array.dtype) for name, array in arrays.items()} == FIELDS
    assert all(array.ctypes.data % 64 == 0 and not array.any() for array in arrays.values())
    arrays["floats"][2, 4] = 41
    process = multiprocessing.get_context(method).Process(target=add_one, args=(arrays,))
    process.start()
    process.join()
    assert process.exitcode == 0
    assert arrays["floats"][2, 4] == 42 and arrays["one"] == 1
    assert arrays["floats"].sum() == 42 and not arrays["bytes"].any()


def test_arrays_in_use_outlive_close():
    arrays = SharedArrays(FIELDS)
    floats = arrays["floats"]
    descriptors = len(list(Path("/proc/self/fd").iterdir()))
    arrays.close()
    arrays.close()
    assert len(list(Path("/proc/self/fd").iterdir())) == descriptors - 1
    floats[:] = 3
    assert floats.sum() == 45


def test_pages_of_memory_are_allocated_when_first_written():
    def shared_pages() -> int:
        return int(Path("/proc/self/statm").read_text().split()[2])

    before = shared_pages()
    arrays = SharedArrays({"large": ((1 << 30,), np.dtype(np.uint8))})
    assert shared_pages() - before < 1000
    arrays["large"][: 64 << 20] = 1
    assert shared_pages() - before >= (64 << 20) // 4096


def test_too_large_shared_memory_is_refused_when_it_is_made(monkeypatch):
    with pytest.raises(SharedMemoryError, match=r"GiB of shared memory were wanted, but .* free"):
        SharedArrays({"all": ((1 << 50,), np.dtype(np.uint8))})
    monkeypatch.setattr(shared, "free_memory", lambda: 1 << 80)
    with pytest.raises(SharedMemoryError, match="wanted"):
        SharedArrays({"all": ((1 << 62,), np.dtype(np.uint8))})
    assert issubclass(SharedMemoryError, HeadraceError) and issubclass(SharedMemoryError, MemoryError)


def test_a_fence_can_be_called_repeatedly_and_pickled():
    fence = Fence()
    for _ in range(3):
        fence()
    pickle.loads(pickle.dumps(fence))()
