"""The data of one run for a page, read only from its folder.

A refresh takes a few calls of ``stat`` if no file has changed. The metrics of runs that a page shows are read in full;
of other runs only the last line, and some lines for a small plot.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from headrace.train.runs import files, lock
from headrace.train.runs.events import Status, last_seen, one_line, read_events, read_status
from headrace.train.runs.files import number
from headrace.train.runs.metrics import seconds_of
from headrace.watch.files import identity, plain, stamp
from headrace.watch.notes import read_notes
from headrace.watch.series import Series, glance, result
from headrace.watch.sweep import Sweep

FILES = ("config.json", "metrics.jsonl", "events.jsonl", "checkpoints", "episodes/episodes.jsonl", "notes.json")
VIDEO = re.compile(r"[\w-][\w.-]*\.mp4")
MOST_EVENTS = 500  # greatest number of events of a run that are shown, the newest ones
MOST_EPISODES = 20
KEPT = 120.0  # seconds after their last use at which metrics are freed
FILM_STEP = re.compile(r"step-0*(\d+)\.mp4")
UNKNOWN: dict[str, Any] = {
    "task": "", "algo": "", "seed": None, "config": {}, "began": None, "resumed": 0, "restarts": 0, "spark": [],
    "step": None, "rate": None, "return": None, "returns": {}, "elo": False, "evaluated": None, "evaluated_step": None,
    "seconds": None, "updates": "", "ranks": [], "has_agent": False,
}  # fmt: skip
"""the rest of the summary of a run whose folder cannot be read"""
Stamp = tuple[tuple[int, int], ...]


class Run:
    """One run folder.

    Args:
        path: the folder, as the user gave it.
        name: the run's name in the list of runs.
        sweep: the sweep of which it is a trial; None for none.

    Attributes:
        id: the folder's id in URLs and messages.
        summary: the run's entry in the list of runs, as values for JSON.
        version: a number that increases whenever the summary changes.
    """

    def __init__(self, path: Path, name: str, sweep: Sweep | None = None):
        self.path, self.name = path, name
        self.id, self.sweep = identity(path), sweep
        self.summary: dict[str, Any] = {}
        self.version = 0
        self._series: Series | None = None
        self._asked = 0.0
        self._stamp: tuple[Stamp, bool] | None = None

    @property
    def series(self) -> Series:
        """All metrics of the run, up to date; freed `KEPT` seconds after their last use."""
        self._asked = time.monotonic()
        if self._series is None:
            self._series = Series(self.path / "metrics.jsonl")
        self._series.refresh()
        return self._series

    def refresh(self) -> None:
        """Reads the files in the folder that have changed."""
        if self._series is not None and time.monotonic() - self._asked > KEPT:
            self._series = None
        seen = tuple(stamp(self.path / name) for name in FILES), lock.holder(self.path / "train.lock") is not None
        if seen != self._stamp:
            self._stamp, self.version = seen, self.version + 1
            self.summary = plain(self._read())

    def details(self) -> dict[str, Any]:
        """Returns the ``events`` and ``episodes`` of a run that a page shows; raises `StateError` as `files.check`."""
        files.check(self.path, deep=False)
        events = [asdict(event) for event in read_events(self.path / "events.jsonl")[-MOST_EVENTS:]]
        return {"events": events, "episodes": [*self._episodes(), *self._films()]}

    def video(self, folder: str, name: str) -> Path | None:
        """Returns the file of a video of this run; None if there is no video of this name in ``folder``."""
        path = self.path / folder / name
        if folder not in ("episodes", "videos") or not VIDEO.fullmatch(name):
            return None
        is_link = path.is_symlink() or path.parent.is_symlink()  # which may lead out of the folder
        return path if path.is_file() and not is_link else None

    def _read(self) -> dict[str, Any]:
        """Returns the summary; of a folder that cannot be read, one that says why."""
        about = {"id": self.id, "name": self.name, "path": str(self.path), "notes": read_notes(self.path)}
        about |= {"sweep": None if self.sweep is None else self.sweep.id}
        try:
            files.check(self.path, deep=False)
            return about | self._found()
        except Exception as error:  # whatever this folder holds, the others are shown
            status = {"kind": "damaged", "text": one_line(error), "when": last_seen(self.path), "resume": None}
            return about | {"group": self.id, "status": status} | UNKNOWN

    def _found(self) -> dict[str, Any]:
        config, status = _settings(self.path / "config.json"), read_status(self.path)
        seen, events = glance(self.path / "metrics.jsonl"), read_events(self.path / "events.jsonl")
        last, updates = seen.last, config.pop("updates", None)
        return {
            "group": self.id if seen.problem else self._group(config),
            "task": str(config.get("task", "")),
            "algo": str(config.get("algo", "")),
            "seed": number(config.get("seed")),
            "config": config,
            "updates": updates if isinstance(updates, str) else "",
            "status": _told(status, seen.problem),
            "began": next((event.time for event in events if event.kind == "began"), None),
            "resumed": sum(event.kind == "resumed" for event in events),
            "restarts": sum(event.kind == "restart" for event in events),
            "spark": seen.returns,
            "step": number(last.get("step")),
            "rate": seen.rate,
            "return": result(last),
            "returns": {} if "elo" in last else _returns(last),
            "elo": "elo" in last,  # which is then the return
            "evaluated": number(_inside(last, "evaluation").get("return")),
            "evaluated_step": number(_inside(last, "evaluation").get("step")),
            "seconds": seconds_of(last),
            "ranks": _ranks(last),
            "has_agent": any((self.path / "checkpoints").glob("step-*")),
        }

    def _group(self, config: dict[str, Any]) -> str:
        """Returns a key that is the same for runs that differ only in their seed."""
        if not config:
            return self.id
        alike = json.dumps({name: value for name, value in config.items() if name != "seed"}, sort_keys=True)
        return hashlib.sha256(alike.encode()).hexdigest()[:12]

    def _episodes(self) -> list[dict[str, Any]]:
        """Returns the recorded episodes of training, the newest `MOST_EPISODES`."""
        try:
            lines = files.read(self.path / "episodes" / "episodes.jsonl").splitlines()
        except OSError:
            return []
        found = [episode for line in lines if (episode := self._episode(line)) is not None]
        return list({episode["file"]: episode for episode in found}.values())[-MOST_EPISODES:]

    def _episode(self, line: bytes) -> dict[str, Any] | None:
        try:
            values = json.loads(line)
            file = values["file"]
        except (ValueError, KeyError, TypeError, RecursionError):
            return None
        if not isinstance(file, str) or self.video("episodes", file) is None:
            return None
        numbers = {name: number(values.get(name)) for name in ("step", "return", "length", "time")}
        return {"folder": "episodes", "file": file, "kind": str(values.get("kind", "")), **numbers}

    def _films(self) -> list[dict[str, Any]]:
        """Returns the videos that were made of checkpoints, at the end of training or by headrace play."""
        films = sorted((self.path / "videos").glob("*.mp4"), key=lambda file: file.name)[-MOST_EPISODES:]
        return [
            {"folder": "videos", "file": file.name, "kind": "video", "step": int(found[1])}
            for file in films
            if (found := FILM_STEP.fullmatch(file.name)) and self.video("videos", file.name)
        ]


def _told(status: Status, problem: str) -> dict[str, Any]:
    """Returns a status as values for JSON; a run with damaged metrics counts as damaged, unless it still trains."""
    if problem and status.kind != "running":
        return {"kind": "damaged", "text": problem, "when": status.when, "resume": None}
    return {"kind": status.kind, "text": status.text, "when": status.when, "resume": status.resume}


def _settings(file: Path) -> dict[str, Any]:
    """Returns the settings in a file, name → value; empty if it cannot be read or holds none."""
    try:
        values = json.loads(files.read(file))
    except (OSError, ValueError, RecursionError):
        return {}
    return values if isinstance(values, dict) else {}


def _inside(values: dict[str, Any], name: str) -> dict[str, Any]:
    found = values.get(name)
    return found if isinstance(found, dict) else {}


def _returns(line: dict[str, Any]) -> dict[str, float]:
    """Returns policy → return, if a run trains several policies; else an empty dict."""
    policies = _inside(line, "policies")
    found = {name: number(_inside(policies, name).get("return")) for name in policies}
    return {name: value for name, value in found.items() if value is not None} if len(policies) > 1 else {}


def _ranks(line: dict[str, Any]) -> list[dict[str, Any]]:
    """Returns host, device and speed of the processes that train together, by rank; empty for a single process."""
    told = _inside(_inside(line, "time"), "ranks")
    return [
        {"rank": rank}
        | {name: str(_inside(told, rank).get(name, "")) for name in ("host", "device")}
        | {name: number(_inside(told, rank).get(name)) for name in ("steps_per_second", "cores", "gpu")}
        for rank in told
    ]
