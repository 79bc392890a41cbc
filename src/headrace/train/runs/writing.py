"""Functions that write the files of a run safely, also if a disk is full."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from safetensors import SafetensorError

from headrace.errors import StorageError
from headrace.limits import refusal


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
