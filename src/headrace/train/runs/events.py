"""The status of a run, and the log of its events: ``events.jsonl``, one JSON object a line, to which runs append.

An event has ``time`` (seconds since 1970), ``step`` (agent steps so far), ``seconds`` (of training so far), ``kind``
and ``text``; some events have ``data``, numbers for programs. The log of a run that was killed has no event of its end.
The status of a run is read from its folder alone: also while it trains, after it was killed, and from a copy.
"""

from __future__ import annotations

import contextlib
import json
import math
import shlex
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from headrace.errors import HeadraceError
from headrace.train.runs import files, lock
from headrace.train.runs.metrics import last_measurement

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
            files.append(self.file, line)

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


StatusKind = Literal["running", "solved", "finished", "interrupted", "failed", "killed", "damaged"]
SIGNS = (
    "config.json", "metrics.jsonl", "events.jsonl", "live.safetensors", "checkpoints", "replay", "train.lock",
)  # fmt: skip
"""files that a run writes while it trains; pages and commands may write others"""


@dataclass(frozen=True)
class Status:
    """The status of a run.

    Attributes:
        kind: ``"running"``; the kind of the event of its end; ``"killed"`` if there is no such event; ``"damaged"`` if
            its settings are unreadable.
        text: a description: the process that trains, the end of the run, or the error.
        when: the time of its end, in seconds since 1970; of its last write if it has not ended.
        resume: the command that continues it, if the run was interrupted or killed after a checkpoint.
    """

    kind: StatusKind
    text: str
    when: float
    resume: str | None = None


def read_status(path: str | Path) -> Status:
    """Returns the status of the run in a folder; also for a folder that is damaged, or of an older version."""
    folder = Path(path)
    seen = last_seen(folder)
    if (holder := lock.holder(folder / "train.lock")) is not None:
        return Status("running", f"trained by {holder}", seen)
    settings = _settings(folder / "config.json")
    if isinstance(settings, str):
        return Status("damaged", settings, seen)
    events = [event for event in read_events(folder / "events.jsonl") if event.kind in (*BEGINNINGS, *ENDS)]
    last = events[-1] if events else None
    # without events it is of an older version, whose process removed the lock if it ended by itself
    killed = (folder / "train.lock").exists() if last is None else last.kind not in ENDS
    if killed:
        return Status("killed", "the process was killed or the machine went down", seen, resume_command(folder))
    if last is None:
        return _of_an_older_version(folder, settings, seen)
    resume = resume_command(folder) if last.kind == "interrupted" else None
    return Status(last.kind, last.text, last.time, resume)  # type: ignore[arg-type]


def last_seen(folder: Path) -> float:
    """Returns the time of a run's last write into its folder, in seconds since 1970; 0.0 if there is no folder."""
    return max((_modified(folder / name) for name in SIGNS), default=0.0) or _modified(folder)


def resume_command(folder: Path) -> str | None:
    """Returns the command that continues a run; None if the run has no checkpoint."""
    has = any((folder / "checkpoints").glob("step-*"))
    return f"headrace train --resume {shlex.quote(str(folder))}" if has else None


def _of_an_older_version(folder: Path, settings: dict[str, Any], seen: float) -> Status:
    """Returns the status of a run without events, from its last line of metrics."""
    line = last_measurement(folder / "metrics.jsonl") or {}
    goal, mean = files.number(settings.get("stop_at_return")), files.number(line.get("return"))
    total, step = files.number(settings.get("total_steps")), files.number(line.get("step"))
    if goal is not None and mean is not None and mean >= goal:
        return Status("solved", f"mean return {mean:g} reached {goal:g}", seen)
    if total is not None and step is not None and step >= total:
        return Status("finished", "all steps done", seen)
    return Status("interrupted", "it stopped before its end", seen, resume_command(folder))


def _settings(file: Path) -> dict[str, Any] | str:
    """Returns the contents of ``config.json``; or a message if they are not settings."""
    try:
        values = json.loads(files.read(file))
    except FileNotFoundError:
        return f"{file.parent} is not a run folder: it has no {file.name}"
    except (OSError, ValueError, RecursionError) as error:
        return f"{file} cannot be read: {str(error).splitlines()[0]}"
    if not isinstance(values, dict) or not isinstance(values.get("task"), str):
        return f"{file} does not have the settings of a run"
    return values


def _modified(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0
