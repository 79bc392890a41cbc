"""Finds run folders, and keeps the list up to date when folders are added or removed."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from headrace.errors import OptionError
from headrace.studies.sweep.plan import FILE
from headrace.watch.run import Run
from headrace.watch.sweep import Sweep

DEEPEST = 3  # number of levels of folders below a root that are searched
MOST_RUNS = 2000
SCAN = 5.0  # seconds between two searches for runs; known runs are refreshed more often
YOUNG = 5.0  # age in seconds up to which a run's settings file may still be empty
SIGNS = ("config.json", "metrics.jsonl", "events.jsonl")


class Library:
    """The runs in and below some folders.

    Args:
        roots: run folders, or folders that contain run folders.

    Attributes:
        runs: id → run.

    Raises:
        OptionError: there is no such folder.
    """

    def __init__(self, roots: Iterable[Path]):
        self.roots = list(roots)
        self.runs: dict[str, Run] = {}
        self._known: dict[Path, Run] = {}
        self._sweeps: dict[Path, Sweep] = {}
        self._scanned = -SCAN
        for root in self.roots:
            if not root.is_dir():
                raise OptionError(
                    f"{root} is not a folder: headrace watch RUNS, with a folder of runs or one run's own"
                )

    def look(self) -> None:
        """Refreshes all runs, and searches for new ones every `SCAN` seconds."""
        now = time.monotonic()
        if now - self._scanned >= SCAN:
            self._scan()
            self._scanned = time.monotonic()
        for run in self.runs.values():
            run.refresh()

    def _scan(self) -> None:
        found: dict[Path, Run] = {}
        sweeps: dict[Path, Sweep] = {}
        for root in self.roots:
            for path in _run_folders(root, DEEPEST):
                if len(found) < MOST_RUNS and path not in found:
                    sweep = self._sweep(root, path, sweeps)
                    found[path] = self._known.get(path) or Run(path, _name(root, path), sweep)
        self._known, self._sweeps = found, sweeps
        self.runs = {run.id: run for run in found.values()}

    def _sweep(self, root: Path, path: Path, sweeps: dict[Path, Sweep]) -> Sweep | None:
        """Returns the sweep of which a run is a trial, if the sweep's folder is a root or below one; else None."""
        folder = path.parent
        if path == root or not (folder / FILE).is_file():
            return None
        if folder not in sweeps:
            sweeps[folder] = self._sweeps.get(folder) or Sweep(folder, _name(root, folder))
        return sweeps[folder]


def _name(root: Path, path: Path) -> str:
    return path.name or path.resolve().name if path == root else str(path.relative_to(root))


def _run_folders(folder: Path, deepest: int) -> Iterator[Path]:
    if _is_run(folder):
        yield folder
    elif deepest:
        try:
            with os.scandir(folder) as entries:
                found = sorted(
                    (entry.name, entry.is_symlink())
                    for entry in entries
                    if entry.is_dir() and not entry.name.startswith(".")
                )
        except OSError:  # the folder is unreadable, or was just removed
            return
        for name, is_link in found:  # a link may lead to a run, but its folders are not searched
            yield from _run_folders(folder / name, 0 if is_link else deepest - 1)


def _is_run(folder: Path) -> bool:
    """Returns whether a folder holds a run, complete or damaged."""
    config = folder / SIGNS[0]
    try:
        stat = config.stat()
    except OSError:
        return any((folder / name).is_file() for name in SIGNS[1:])
    return stat.st_size > 0 or time.time() - stat.st_mtime > YOUNG  # a new run first creates the file, empty
