"""Ids of folders that do not reveal their paths, stamps that show whether a file has changed, and values for JSON."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headrace.train.runs.files import number

DEEPEST = 32  # number of levels of nested values that a page receives


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


def plain(value: Any, depth: int = 0) -> Any:
    """Returns a value that a page can read as JSON: numbers that no finite float can hold become None."""
    if depth > DEEPEST:
        return None
    if isinstance(value, int | float) and not isinstance(value, bool):
        return number(value)
    if isinstance(value, Mapping):
        return {str(name): plain(each, depth + 1) for name, each in value.items()}
    return [plain(each, depth + 1) for each in value] if isinstance(value, list | tuple) else value
