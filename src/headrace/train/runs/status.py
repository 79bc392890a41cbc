"""The status of a run, read from its folder alone: also while it trains, after it was killed, and from a copy."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from headrace.train.runs import files, lock
from headrace.train.runs.events import BEGINNINGS, ENDS, Event, read_events
from headrace.train.runs.metrics import last_measurement

Kind = Literal["running", "solved", "finished", "interrupted", "failed", "killed", "damaged"]
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

    kind: Kind
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
    if not events:
        return _of_an_older_version(folder, settings, seen)
    return _ended(folder, events[-1], seen)


def last_seen(folder: Path) -> float:
    """Returns the time of a run's last write into its folder, in seconds since 1970; 0.0 if there is no folder."""
    return max((_modified(folder / name) for name in SIGNS), default=0.0) or _modified(folder)


def resume_command(folder: Path) -> str | None:
    """Returns the command that continues a run; None if the run has no checkpoint."""
    has = any((folder / "checkpoints").glob("step-*"))
    return f"headrace train --resume {shlex.quote(str(folder))}" if has else None


def _ended(folder: Path, last: Event, seen: float) -> Status:
    if last.kind not in ENDS:
        return Status("killed", "the process was killed or the machine went down", seen, resume_command(folder))
    resume = resume_command(folder) if last.kind == "interrupted" else None
    return Status(last.kind, last.text, last.time, resume)  # type: ignore[arg-type]


def _of_an_older_version(folder: Path, settings: dict[str, Any], seen: float) -> Status:
    """Returns the status of a run without events, from its last line of metrics."""
    if (folder / "train.lock").exists():  # a process that ends by itself removes the file
        return Status("killed", "the process was killed or the machine went down", seen, resume_command(folder))
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
        return f"{file.parent} holds no run: it has no {file.name}"
    except (OSError, ValueError, RecursionError) as error:
        return f"{file} cannot be read: {str(error).splitlines()[0]}"
    if not isinstance(values, dict) or not isinstance(values.get("task"), str):
        return f"{file} holds no settings of a run"
    return values


def _modified(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0
