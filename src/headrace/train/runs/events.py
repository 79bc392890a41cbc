"""The log of a run's events: ``events.jsonl``, with one JSON object per line, to which resumed runs append.

An event has ``time`` (seconds since 1970), ``step`` (agent steps so far), ``seconds`` (of training so far), ``kind``
and ``text``; some events have ``data``, numbers for programs. The log of a run that was killed has no event of its end.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from headrace.errors import HeadraceError
from headrace.train.runs import files

Kind = Literal[
    "began", "resumed", "checkpoint", "restart", "warning", "tuned", "solved", "finished", "interrupted", "failed"
]
KINDS: tuple[str, ...] = get_args(Kind)
BEGINNINGS = ("began", "resumed")
ENDS = ("solved", "finished", "interrupted", "failed")
LONGEST = 1000  # maximum number of characters of a text
MOST_STEPS = 2**63


@dataclass(frozen=True)
class Event:
    """An event of a run.

    Attributes:
        time: time of the event, in seconds since 1970.
        step: agent steps of the run until then.
        seconds: seconds of training until then.
        kind: one of `KINDS`, or a kind of a later version.
        data: numbers about the event, for some kinds.
    """

    time: float
    step: int
    seconds: float
    kind: str
    text: str = ""
    data: Mapping[str, Any] = field(default_factory=dict)


class EventLog:
    """A writer that appends to a file of events.

    An event that cannot be written, for instance because the disk is full, is left out without an error, as the metrics
    and checkpoints then raise one.

    Args:
        file: the file, which the first event makes.
    """

    def __init__(self, file: Path):
        self.file = file

    def note(self, kind: Kind, text: str, step: int, seconds: float, data: Mapping[str, Any] | None = None) -> None:
        """Appends one event at the present time; may be called by any thread.

        Args:
            kind, text, step, seconds, data: the attributes of `Event`; only the first 1000 characters of ``text``.
        """
        text = text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
        event = {"time": round(time.time(), 3), "step": step, "seconds": round(seconds, 3), "kind": kind, "text": text}
        line = json.dumps(event | ({"data": dict(data)} if data else {})).encode() + b"\n"
        with contextlib.suppress(OSError):
            descriptor = files.opened(self.file, files.APPEND)
            try:
                size = os.fstat(descriptor).st_size
                if size and os.pread(descriptor, 1, size - 1) != b"\n":  # the writer of the last line was killed
                    line = b"\n" + line
                os.write(descriptor, line)
            finally:
                os.close(descriptor)

    @contextmanager
    def failure_noted(self, reached: Callable[[], tuple[int, float]]) -> Iterator[None]:
        """Logs an exception raised within this context as the run's end; ``reached()`` returns steps and seconds."""
        try:
            yield
        except KeyboardInterrupt:
            self.note("interrupted", "stopped at once (Ctrl-C twice)", *reached())
            raise
        except BaseException as error:
            self.note("failed", one_line(error), *reached())
            raise


def one_line(error: BaseException) -> str:
    """Returns an error as one line: the first line of its message, or the last line of a traceback in it."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if not lines:
        return type(error).__name__
    words = lines[0] if isinstance(error, HeadraceError) else f"{type(error).__name__}: {lines[0]}"
    return f"{words} {lines[-1]}" if len(lines) > 1 and words.endswith(":") else words


def read_events(file: Path) -> list[Event]:
    """Returns the events of a file, oldest first, without damaged lines; an empty list if it cannot be read."""
    try:
        lines = files.read(file).splitlines()
    except OSError:
        return []
    return [event for line in lines if (event := _event(line)) is not None]


def _event(line: bytes) -> Event | None:
    try:
        values = json.loads(line)
        kind, text, data = values["kind"], values.get("text", ""), values.get("data", {})
        when, step, seconds = float(values["time"]), int(values.get("step", 0)), float(values.get("seconds", 0.0))
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
        return None
    known = isinstance(kind, str) and isinstance(text, str) and isinstance(data, dict) and abs(step) < MOST_STEPS
    return Event(when, step, seconds, kind, text, data) if known and math.isfinite(when + seconds) else None
