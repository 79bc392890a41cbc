"""What is measured during training, and where it is written.

``metrics.jsonl`` is the source of truth: one JSON object a line. Everything in it but the
``time`` object depends only on configuration and seed, so that two runs can be compared line by line.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any


class MetricsWriter:
    """Appends lines to ``metrics.jsonl``, and the same numbers to TensorBoard if there is one.

    Args:
        file: the JSON lines file; what follows ``offset`` bytes is cut off (a run that was killed may have
            written on after its last checkpoint).
        offset: bytes to keep, of those that there are.
        tensorboard: folder for events, or None.
    """

    def __init__(self, file: Path, offset: int = 0, tensorboard: Path | None = None, step: int = 0):
        self._file = file.open("ab")
        self._file.seek(self._file.truncate(min(offset, self._file.tell())))
        self._events = _event_writer(tensorboard, step) if tensorboard is not None else None

    def write(self, metrics: dict[str, Any]) -> None:
        """One line; numbers in nested objects become ``outer/inner`` in TensorBoard, all others ``train/name``."""
        self._file.write(json.dumps(metrics).encode() + b"\n")
        self._file.flush()
        if self._events is not None:
            for name, number in _flat(metrics):
                self._events.add_scalar(name if "/" in name else f"train/{name}", number, metrics["step"])

    def offset(self) -> int:
        """Bytes written so far, safely on disk."""
        self._file.flush()
        return self._file.tell()

    def close(self) -> None:
        self._file.close()
        if self._events is not None:
            self._events.close()


def _flat(metrics: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, float]]:
    """All numbers, by the names on the way to them."""
    for name, value in metrics.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}/")
        elif isinstance(value, int | float):
            yield f"{prefix}{name}", value


def read_metrics(file: Path) -> list[dict[str, Any]]:
    """All complete lines of a ``metrics.jsonl``; a half-written last one is left out."""
    lines = file.read_bytes().split(b"\n")[:-1] if file.exists() else []
    return [json.loads(line) for line in lines]


def _event_writer(folder: Path, step: int) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        return None
    return SummaryWriter(str(folder), purge_step=step or None)
