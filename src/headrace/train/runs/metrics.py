"""Reads the file of a run's metrics, one JSON object a line: its end, a sample, or what was appended since.

A resumed run truncates its metrics to those of its checkpoint, so that lines that were read before become invalid. This
is detected by the file's size, its inode, or the bytes before the current position.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headrace.errors import StateError
from headrace.train.runs import files

KEPT = 256  # number of bytes before the current position that must be unchanged
MOST = 64 << 20  # number of bytes that one call reads; the next one goes on from there
BLOCK = 1 << 15  # number of bytes in which a sample searches for a complete line


def measurement(line: bytes) -> dict[str, Any] | None:
    """Returns the content of a line; None unless it is an object with an integer ``step``, and a number as ``return``.

    The return may be missing, null or nan.
    """
    try:
        values = json.loads(line)
        earned = values.get("return") if isinstance(values["step"], int) else ""
        known = files.number(values["step"]) is not None and (earned != earned or files.number(earned or 0) is not None)
        return values if known else None
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None


def seconds_of(line: Mapping[str, Any]) -> float | None:
    """Returns the seconds of training until a line was written; None if it lacks them."""
    time = line.get("time")
    return files.number(time.get("seconds")) if isinstance(time, dict) else None


def last_measurement(file: Path) -> dict[str, Any] | None:
    """Returns the last complete line that is a measurement; None if there is none near the file's end, or no file."""
    try:
        with os.fdopen(files.opened(file), "rb") as content:
            lines = _last(content.fileno(), os.fstat(content.fileno()).st_size)
    except OSError:
        return None
    return next((values for line in reversed(lines) if (values := measurement(line)) is not None), None)


def read_metrics(file: Path) -> list[dict[str, Any]]:
    """Returns all complete lines of a ``metrics.jsonl``, without an incomplete last one.

    Raises:
        StateError: the file cannot be read, or a line is not an object of metrics; the message names the line.
    """
    try:
        lines = files.read(file, files.MOST_METRICS).split(b"\n")[:-1]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise StateError(f"{file} cannot be read: {error.strerror}") from error
    found = []
    for number, line in enumerate(lines, 1):
        if (values := measurement(line)) is None:
            shown = line[:60].decode(errors="replace")
            raise StateError(f"{file}, line {number}: no measurement of a run: {shown!r}")
        found.append(values)
    return found


class Tail:
    """The lines appended to a file since the last call of `read`.

    Args:
        path: the file, which may not exist yet.
    """

    def __init__(self, path: Path):
        self._path, self._inode, self._offset, self._before = path, 0, 0, b""

    def read(self) -> tuple[bool, list[bytes]]:
        """Returns whether earlier lines have become invalid, and the new complete lines.

        Raises:
            OSError: the file exists and cannot be read.
        """
        try:
            file = os.fdopen(files.opened(self._path), "rb", buffering=0)
        except FileNotFoundError:
            anew, self._inode, self._offset, self._before = self._offset > 0, 0, 0, b""
            return anew, []
        with file:
            files.check_size(file.fileno(), self._path, files.MOST_METRICS)
            stat = os.fstat(file.fileno())
            kept = self._before == os.pread(file.fileno(), len(self._before), self._offset - len(self._before))
            anew = not (stat.st_ino == self._inode and stat.st_size >= self._offset and kept)
            if anew:
                self._offset, self._before = 0, b""
            first, self._inode = self._inode == 0, stat.st_ino
            file.seek(self._offset)
            content = file.read(MOST)
        whole = content[: content.rfind(b"\n") + 1]
        if len(content) == MOST and not whole:
            raise OSError(errno.EFBIG, f"a line has more than {MOST >> 20} MiB")
        self._offset += len(whole)
        self._before = (self._before + whole)[-KEPT:]
        return anew and not first, whole.split(b"\n")[:-1]


def sample(path: Path, number: int) -> list[bytes]:
    """Returns about ``number`` complete lines, evenly spaced in a file of any length, including the last one.

    Returns all lines of a short file, and none if there is no file; raises OSError for one that cannot be read.
    """
    try:
        with os.fdopen(files.opened(path), "rb") as file:
            size = files.check_size(file.fileno(), path, files.MOST_METRICS)
            if size <= number * BLOCK // 8:
                return file.read().split(b"\n")[:-1]
            places = [size * i // number for i in range(number)]
            found = [line for place in places if (line := _line_after(file.fileno(), place))]
            return found + _last(file.fileno(), size)[-1:]
    except FileNotFoundError:
        return []


def _line_after(descriptor: int, place: int) -> bytes:
    """Returns the first complete line that begins after a position; empty if none ends within `BLOCK` bytes."""
    parts = os.pread(descriptor, BLOCK, place).split(b"\n", 2)
    return parts[1] if len(parts) == 3 else b""


def _last(descriptor: int, size: int) -> list[bytes]:
    lines = os.pread(descriptor, BLOCK, max(0, size - BLOCK)).split(b"\n")[:-1]
    return lines if size <= BLOCK else lines[1:]
