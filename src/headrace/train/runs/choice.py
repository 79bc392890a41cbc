"""Finds runs in folders, and chooses the one that a folder of several stands for."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from headrace.errors import OptionError
from headrace.train.runs.folder import SEVERAL, folder_path, ranked_runs

DEFAULT_FOLDER = Path("runs")
DEPTH = 3  # levels of folders below a given one that are searched for runs


def chosen_run(run_dir: str | Path) -> tuple[Path, str]:
    """Returns the run that a folder stands for: itself, of several seeds or trials the best, of other runs the newest.

    Returns:
        The run folder, and in words which of several it is; empty for the folder itself.

    Raises:
        OptionError: there is no run with a checkpoint in the folder, or it is no folder.
    """
    folder = folder_path(run_dir)
    if (folder / "config.json").exists():
        return folder, ""
    if folder == DEFAULT_FOLDER and not folder.is_dir():
        raise OptionError(f"there is no folder {folder} here: name a run, or train one with headrace train TASK")
    runs = [run for run in find_runs([folder]) if any((run / "checkpoints").glob("step-*"))]
    if not runs:
        raise OptionError(f"no run in {folder} has a checkpoint yet")
    best = [run for _, run in ranked_runs(folder) if run in runs]
    if best and any((folder / name).is_file() for name in SEVERAL):
        return best[0], f"the best of {len(best)}"
    return max(runs, key=lambda run: (run / "checkpoints").stat().st_mtime), "the newest run"


def find_runs(paths: Iterable[str | Path]) -> list[Path]:
    """Returns the run folders among some paths and in them, each once, in the order of their names.

    Raises:
        OptionError: a path is not a folder, or there is no run in it.
    """
    found: dict[Path, None] = {}
    for path in map(Path, paths):
        if not path.is_dir():
            raise OptionError(f"{path} is not a folder: name run folders, or folders that hold some")
        levels = ["/".join(["*"] * depth + ["config.json"]) for depth in range(1, DEPTH + 1)]
        inside = sorted({file.parent for level in levels for file in path.glob(level)}, key=_by_number)
        runs = [path] if (path / "config.json").is_file() else inside
        if not runs:
            raise OptionError(f"there is no run in {path}: a run is a folder with a config.json")
        found |= dict.fromkeys(runs)
    return list(found)


def _by_number(path: Path) -> list[tuple[bool, int, str]]:
    """Returns a sort key with which ``seed-10`` comes after ``seed-9``."""
    words = "".join(each if each.isdigit() else f" {each} " for each in str(path)).split()
    return [(word.isdigit(), int(word) if word.isdigit() else 0, word) for word in words]
