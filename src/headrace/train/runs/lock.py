"""A lock with which only one process at a time can train into a folder.

The process holds the system's lock (``flock``) on a small file in the folder, which the system releases when the
process ends for any reason. The file contains the name of the process.
"""

from __future__ import annotations

import fcntl
import json
import math
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from headrace.errors import OptionError
from headrace.train.runs import files
from headrace.train.runs.files import writing

LOOKS = 3  # number of attempts, as a process that tests the lock holds it for a moment
REST = 0.02  # seconds between two attempts


@contextmanager
def held(file: Path, patience: float = 0.0) -> Iterator[None]:
    """Holds the lock of a file within this context; the file is made at its start and removed at its end.

    On a file system without such locks this function does nothing.

    Args:
        patience: maximum wait for the lock, in seconds.

    Raises:
        OptionError: another process, or another thread of this one, holds the lock.
        StorageError: the file cannot be written.
    """
    descriptor = _locked(file, patience)
    try:
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps({"pid": os.getpid(), "host": socket.gethostname()}).encode() + b"\n", 0)
        yield
    finally:
        with suppress(OSError):  # as on a disk that has become read-only; the lock itself ends with the descriptor
            file.unlink(missing_ok=True)
        os.close(descriptor)


def holder(file: Path) -> str | None:
    """Returns a description of the process that holds the lock of a file; None if no process holds it."""
    try:
        descriptor = files.opened(file)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _named(file)
    except OSError:
        return None
    finally:
        os.close(descriptor)
    return None


def _locked(file: Path, patience: float) -> int:
    looks = LOOKS + math.ceil(patience / REST)
    for look in range(looks):
        with writing(file):
            descriptor = files.opened(file, os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            if look + 1 < looks:
                time.sleep(REST)
            continue
        except OSError:
            return descriptor
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(descriptor), file.stat()):
                return descriptor
        os.close(descriptor)  # the process that held the lock has just removed this file
    raise OptionError(
        f"{file.parent} is being trained by {_named(file)}: wait until that ends, or stop it (Ctrl-C there)"
    )


def _named(file: Path) -> str:
    try:
        said = json.loads(files.read(file))
        here = said["host"] == socket.gethostname()
        return f"process {said['pid']}" + ("" if here else f" on {said['host']}")
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return "another process"
