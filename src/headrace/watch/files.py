"""Ids of folders that do not reveal their paths, and stamps that show whether a file has changed."""

from __future__ import annotations

import hashlib
from pathlib import Path


def identity(path: Path) -> str:
    """Returns the id of a folder in URLs and messages: 12 hexadecimal digits."""
    return hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:12]


def stamp(path: Path) -> tuple[int, int]:
    """Returns the time of a file's last modification in ns and its size in bytes; zeros if there is no such file."""
    try:
        stat = path.stat()
    except OSError:
        return 0, 0
    return stat.st_mtime_ns, stat.st_size
