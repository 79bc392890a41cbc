"""Writes TensorBoard's event files in the calling thread.

TensorBoard's own writer uses a thread, which prints a traceback if the disk is full; a few numbers per second need no
thread.
"""

from __future__ import annotations

import io
import os
import socket
import time
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO

from headrace.train.runs.writing import write_all, writing


def available() -> bool:
    try:
        import tensorboard.summary.writer.record_writer  # noqa: F401
    except ImportError:
        return False
    return True


class EventsFile:
    """A file of scalars in a folder, both of which the first write makes.

    Args:
        step: the step from which a run is resumed: TensorBoard drops values of older files from this step on.
    """

    def __init__(self, folder: Path, step: int = 0):
        self._folder, self._step = folder, step
        self._file: BinaryIO | None = None

    def write(self, numbers: Iterable[tuple[str, float]], step: int) -> None:
        """Writes scalars by name for one step.

        Raises:
            StorageError: the scalars cannot be written, for instance because the disk is full.
        """
        from tensorboard.compat.proto.event_pb2 import Event  # pyright: ignore[reportAttributeAccessIssue]
        from tensorboard.compat.proto.summary_pb2 import Summary  # pyright: ignore[reportAttributeAccessIssue]

        values = [Summary.Value(tag=name, simple_value=number) for name, number in numbers]
        events = [Event(wall_time=time.time(), step=step, summary=Summary(value=values))]
        with writing(self._folder):
            if self._file is None:
                events = self._first() + events
                self._file = self._open()
            write_all(self._file, _records(events))

    def close(self) -> None:
        """Closes the file, if it was opened."""
        if self._file is not None:
            self._file.close()

    def _first(self) -> list:
        from tensorboard.compat.proto.event_pb2 import Event, SessionLog  # pyright: ignore[reportAttributeAccessIssue]

        now = time.time()
        begin = [Event(wall_time=now, file_version="brain.Event:2")]
        if self._step:
            begin.append(Event(wall_time=now, step=self._step, session_log=SessionLog(status=SessionLog.START)))
        return begin

    def _open(self) -> BinaryIO:
        self._folder.mkdir(parents=True, exist_ok=True)
        name = f"events.out.tfevents.{time.time_ns()}.{socket.gethostname()}.{os.getpid()}"
        return (self._folder / name).open("xb", buffering=0)  # type: ignore[return-value]


def _records(events: Iterable) -> bytes:
    from tensorboard.summary.writer.record_writer import RecordWriter

    content = io.BytesIO()
    for event in events:
        RecordWriter(content).write(event.SerializeToString())
    return content.getvalue()
