"""How the files of a run folder are opened: all that read or write them do so by these functions.

A run folder may come from an untrusted source. Only regular files in it are opened: a link could lead to any file of
the user's, and a pipe or a device would never end. Files are read only up to a size that runs do not reach, and written
so that they are whole also if a disk is full.
"""

from __future__ import annotations

import errno
import math
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from safetensors import SafetensorError

from headrace.errors import StateError, StorageError
from headrace.limits import refusal

MOST = 16 << 20  # bytes of a file that is read as a whole
MOST_METRICS = 1 << 30
APPEND = os.O_RDWR | os.O_APPEND | os.O_CREAT
RENEW = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
NAMES = re.compile(
    r"(config|viewer)\.json|(metrics|events)\.jsonl|live\.safetensors|train\.lock|watched|curve\.png|episode\.npz"
    r"|checkpoints|replay(-\d+)?|episodes|videos|tensorboard|wandb"
)
"""names of a run's files and folders; whatever else a folder holds is neither read nor written"""
FOREIGN = "wandb"  # a folder whose content another library makes


def opened(file: Path, flags: int = os.O_RDONLY) -> int:
    """Returns the descriptor of a regular file, opened with ``flags``, which may make it.

    Raises:
        OSError: the file cannot be opened, or is a link, a folder, a pipe or a device.
    """
    try:
        descriptor = os.open(file, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise OSError(errno.ELOOP, "it is a link", str(file)) from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is not a regular file", str(file))
    return descriptor


def regular(file: Path) -> Path:
    """Returns the path of a regular file, for libraries that open files by their paths; raises as `opened`."""
    os.close(opened(file))
    return file


def read(file: Path, most: int = MOST) -> bytes:
    """Returns the content of a file; raises OSError as `opened`, and for a file of more than ``most`` bytes."""
    with os.fdopen(opened(file), "rb", buffering=0) as content:
        check_size(content.fileno(), file, most)
        return content.readall()  # type: ignore[attr-defined]


def check_size(descriptor: int, file: Path, most: int) -> int:
    """Returns the number of bytes of an open file; raises OSError if there are more than ``most``."""
    size = os.fstat(descriptor).st_size
    if size > most:
        raise OSError(errno.EFBIG, f"it has more than {most >> 20:,} MiB", str(file))
    return size


def append(file: Path, line: bytes) -> None:
    """Appends a line to a file, which is made if there is none; raises OSError as `opened`."""
    with os.fdopen(opened(file, APPEND), "ab", buffering=0) as end:
        size = os.fstat(end.fileno()).st_size
        if size and os.pread(end.fileno(), 1, size - 1) != b"\n":  # the writer of the last line was killed
            line = b"\n" + line
        end.write(line)


def touch(file: Path) -> None:
    """Sets the time of a file, which is made if there is none; raises OSError as `opened`."""
    descriptor = opened(file, os.O_WRONLY | os.O_CREAT)
    os.utime(descriptor)
    os.close(descriptor)


def check(folder: Path, *, deep: bool = True) -> None:
    """Raises `StateError` for a link, pipe or device among a run's files; without ``deep``, not in its folders."""
    waiting = [folder]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                found = [each for each in entries if Path(each.path).parent != folder or NAMES.fullmatch(each.name)]
        except FileNotFoundError:  # removed meanwhile by the process that trains
            continue
        except OSError as error:
            raise StateError(f"{folder} cannot be read: {error}") from error
        for entry in found:
            if entry.is_dir(follow_symlinks=False):
                waiting += [Path(entry.path)] if deep and entry.name != FOREIGN else []
            elif not entry.is_file(follow_symlinks=False):
                what = "a link" if entry.is_symlink() else "not a regular file"
                raise StateError(f"{entry.path} is {what}, which no run folder may hold: put a file in its place")


def number(value: Any) -> float | None:
    """Returns a finite number that a file held; None for any other value, and for one that is too large for a float."""
    try:
        known = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    except OverflowError:
        known = False
    return value if known else None


@contextmanager
def writing(what: Path) -> Iterator[None]:
    """Raises errors of the system within this context as `StorageError`, which names the file or folder ``what``."""
    try:
        yield
    except (OSError, SafetensorError) as error:
        reason = refusal(error) or error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise StorageError(f"{what} cannot be written: {reason}") from error


def write_all(file: BinaryIO, content: bytes) -> None:
    """Writes all of ``content`` to an unbuffered file; raises OSError after a partial write if the disk is full."""
    while content:
        content = content[file.write(content) :]


def flush(path: Path) -> None:
    """Flushes a file, or a folder's entries, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def is_newer(made: Path, *sources: Path) -> bool:
    """Returns whether a file exists and is newer than all of its ``sources``."""
    try:
        return made.stat().st_mtime_ns >= max(source.stat().st_mtime_ns for source in sources)
    except FileNotFoundError:
        return False


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yields a temporary path; the file written there replaces ``path`` at the end of this context.

    After an exception ``path`` is unchanged. Nothing is flushed to the disk.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    temporary.unlink(missing_ok=True)  # in a folder from elsewhere it could be a link
    try:
        yield temporary
        temporary.replace(path)
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def replace(path: Path, text: str) -> None:
    """Writes a text file atomically: at any time the file has either its old or its new contents."""
    with writing(path), replacing(path) as temporary:
        temporary.write_text(text)
        flush(temporary)
