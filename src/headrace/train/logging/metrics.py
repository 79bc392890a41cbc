"""Writes and reads the metrics of a run.

``metrics.jsonl`` holds one JSON object per line. In a deterministic run everything in it except the ``time`` object is
determined by configuration and seed, so that two runs can be compared line by line.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from headrace.errors import StateError
from headrace.train.logging.loggers import Logger
from headrace.train.runs import files
from headrace.train.runs.metrics import measurement
from headrace.train.runs.writing import write_all, writing


class MetricsWriter:
    """A writer of lines of ``metrics.jsonl``, which passes the same numbers to loggers.

    Args:
        file: the JSON lines file; it is truncated to ``offset`` bytes, since a run that was killed may have written
            lines after its last checkpoint.
        offset: bytes to keep.
    """

    def __init__(self, file: Path, offset: int = 0, loggers: Sequence[Logger] = ()):
        # unbuffered: data that a full disk refuses must not be written again when the file is closed
        self._path, self._file = file, os.fdopen(files.opened(file, files.APPEND), "ab", buffering=0)
        if self._file.tell() > offset:  # only then, so that otherwise the modification time stays
            self._file.seek(self._file.truncate(offset))
        self._loggers = loggers

    def write(self, metrics: dict[str, Any]) -> None:
        """Appends one line; numbers in nested objects become ``outer/inner`` for loggers, others ``train/name``.

        Raises:
            StorageError: the line cannot be written, for instance because the disk is full.
        """
        line = json.dumps(metrics).encode() + b"\n"
        with writing(self._path):
            write_all(self._file, line)
        if self._loggers:
            numbers = [(name if "/" in name else f"train/{name}", number) for name, number in _flat(metrics)]
            for logger in self._loggers:
                logger.write(numbers, metrics["step"])

    def offset(self) -> int:
        """Returns the number of bytes written so far."""
        return self._file.tell()

    def close(self) -> None:
        self._file.close()
        for logger in self._loggers:
            logger.close()


def _flat(metrics: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, float]]:
    """Yields all numbers by their paths, such as ``outer/inner``."""
    for name, value in metrics.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}/")
        elif isinstance(value, int | float):
            yield f"{prefix}{name}", value


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
