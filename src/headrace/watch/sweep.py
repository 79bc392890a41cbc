"""The data of a sweep for a page: its trials, how they ended, and the importance of each setting."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from headrace.errors import HeadraceError
from headrace.studies.sweep.plan import FILE, JOURNAL
from headrace.train.runs.events import one_line
from headrace.watch.files import identity, stamp

INTERVAL = 10.0  # seconds after which the values of running trials are read again


class Sweep:
    """One sweep's folder.

    Args:
        path: the folder, as the user gave it.
        name: the sweep's name in the list of runs.

    Attributes:
        id: the folder's id in messages.
        told: the result of `headrace.studies.sweep.summary.summary`, with the ``id`` of each trial's run; ``problem``
            describes the error if there is no summary, and is otherwise empty.
        version: a number that increases whenever ``told`` changes.
    """

    def __init__(self, path: Path, name: str):
        self.path, self.name, self.id = path, name, identity(path)
        self.told: dict[str, Any] = {"problem": ""}
        self.version = 0
        self._stamp: object = None
        self._looked = 0.0

    def refresh(self) -> None:
        """Reads the files in the folder that have changed."""
        seen, now = (stamp(self.path / FILE), stamp(self.path / JOURNAL)), time.monotonic()
        runs = any(trial["state"] == "running" for trial in self.told.get("trials", ()))
        if seen != self._stamp or (runs and now - self._looked > INTERVAL):
            self._stamp, self._looked, self.version = seen, now, self.version + 1
            self.told = {"name": self.name, **self._read()}

    def _read(self) -> dict[str, Any]:
        try:
            from headrace.studies.sweep.summary import summary

            told = summary(self.path)
        except ModuleNotFoundError as error:
            return {"problem": f"a sweep needs {error.name}: pip install 'headrace[sweep]'"}
        except Exception as error:  # whatever this folder holds, the others are shown
            return {"problem": str(error) if isinstance(error, HeadraceError) else one_line(error)}
        trials = [{**trial, "id": identity(self.path / trial["run"])} for trial in told["trials"]]
        return {**told, "trials": trials, "problem": ""}
