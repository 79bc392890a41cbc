"""One process at a time trains into a folder.

Who trains holds the system's lock of a small file there (``flock``), which its death takes away, however it died. What
is written in the file only says who that is.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from headrace.errors import OptionError

LOOKS = 3  # who only looks whether a folder is held has the lock for a moment, too
REST = 0.02


@contextmanager
def held(file: Path) -> Iterator[None]:
    """Hold the lock of a file, which is made for it and removed behind it.

    A file system that has no such locks goes without.

    Raises:
        OptionError: another process, or another thread of this one, holds it.
    """
    descriptor = _locked(file)
    try:
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps({"pid": os.getpid(), "host": socket.gethostname()}).encode() + b"\n", 0)
        yield
    finally:
        file.unlink(missing_ok=True)
        os.close(descriptor)


def holder(file: Path) -> str | None:
    """Who holds the lock of a file, in words; None if nobody does."""
    try:
        descriptor = os.open(file, os.O_RDONLY)
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


def _locked(file: Path) -> int:
    """A descriptor of the file, with its lock."""
    for look in range(LOOKS):
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            if look + 1 < LOOKS:
                time.sleep(REST)
            continue
        except OSError:
            return descriptor
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(descriptor), file.stat()):
                return descriptor
        os.close(descriptor)  # who held it has just removed this file
    raise OptionError(
        f"{file.parent} is being trained by {_named(file)}: wait until that ends, or stop it (Ctrl-C there)"
    )


def _named(file: Path) -> str:
    try:
        said = json.loads(file.read_text())
        here = said["host"] == socket.gethostname()
        return f"process {said['pid']}" + ("" if here else f" on {said['host']}")
    except (OSError, ValueError, TypeError, KeyError):
        return "another process"
