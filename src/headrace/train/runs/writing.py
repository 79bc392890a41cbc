"""Writing files of which a run depends, on disks that may be full."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from safetensors import SafetensorError

from headrace.errors import StorageError
from headrace.limits import refusal


@contextmanager
def writing(what: Path) -> Iterator[None]:
    """Raise what goes wrong while this file or folder is written as a `StorageError` that names it."""
    try:
        yield
    except (OSError, SafetensorError) as error:
        reason = refusal(error) or error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise StorageError(f"{what} cannot be written: {reason}") from error


def write_all(file: BinaryIO, content: bytes) -> None:
    """Write to a file without a buffer; of a full disk it takes what there is room for, and only then raises."""
    while content:
        content = content[file.write(content) :]


def flush(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def is_newer(made: Path, *sources: Path) -> bool:
    """Whether a file is there, and was written after all that it is made of."""
    try:
        return made.stat().st_mtime_ns >= max(source.stat().st_mtime_ns for source in sources)
    except FileNotFoundError:
        return False


def replace(path: Path, text: str) -> None:
    """Write a file that is as it was before, or as it is to be, at any moment."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with writing(path):
            temporary.write_text(text)
            flush(temporary)
            temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
