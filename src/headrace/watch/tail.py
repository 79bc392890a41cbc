"""Reads files that grow by lines, each line once.

A run that is resumed truncates its metrics to those of its checkpoint, and goes on from there: what was read before is
then no longer so. That shows in the file's size, its inode, or in the bytes before the place that was reached.
"""

from __future__ import annotations

import os
from pathlib import Path

KEPT = 256  # bytes before the place reached that have to be as they were
BLOCK = 1 << 15  # bytes in which a sample looks for a whole line


class Tail:
    """The lines that a file has got since the last look.

    Args:
        path: the file, which may not exist yet.
    """

    def __init__(self, path: Path):
        self._path, self._inode, self._offset, self._before = path, 0, 0, b""

    def read(self) -> tuple[bool, list[bytes]]:
        """Returns whether the file has begun anew, so that earlier lines are void, and its new whole lines.

        Raises:
            OSError: there is a file, and it cannot be read.
        """
        try:
            file = self._path.open("rb", buffering=0)
        except FileNotFoundError:
            anew, self._inode, self._offset, self._before = self._offset > 0, 0, 0, b""
            return anew, []
        with file:
            stat = os.fstat(file.fileno())
            kept = self._before == os.pread(file.fileno(), len(self._before), self._offset - len(self._before))
            anew = not (stat.st_ino == self._inode and stat.st_size >= self._offset and kept)
            if anew:
                self._offset, self._before = 0, b""
            first, self._inode = self._inode == 0, stat.st_ino
            file.seek(self._offset)
            content = file.read()
        whole = content[: content.rfind(b"\n") + 1]
        self._offset += len(whole)
        self._before = (self._before + whole)[-KEPT:]
        return anew and not first, whole.split(b"\n")[:-1]


def sample(path: Path, number: int) -> list[bytes]:
    """Returns about ``number`` whole lines that lie evenly in a file, the last one among them, however long it is.

    A short file gives all its lines; one that cannot be read gives none.
    """
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size <= number * BLOCK // 8:
                return file.read().split(b"\n")[:-1]
            places = [size * i // number for i in range(number)]
            return [line for place in places if (line := _line_after(file.fileno(), place))] + _last(
                file.fileno(), size
            )
    except OSError:
        return []


def _line_after(descriptor: int, place: int) -> bytes:
    """Returns the first whole line that begins behind a place; nothing if none ends within a block."""
    parts = os.pread(descriptor, BLOCK, place).split(b"\n", 2)
    return parts[1] if len(parts) == 3 else b""


def _last(descriptor: int, size: int) -> list[bytes]:
    return os.pread(descriptor, BLOCK, max(0, size - BLOCK)).split(b"\n")[1:-1][-1:]
