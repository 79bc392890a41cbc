"""Finds runs in folders, and chooses the one that a folder of several stands for."""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from headrace.errors import OptionError
from headrace.pool.registry import is_registered, list_all_envs
from headrace.pool.suggestions import close_names
from headrace.train.runs import files, zoo
from headrace.train.runs.folder import SEVERAL, folder_path, ranked_runs

DEFAULT_FOLDER = Path("runs")
ALIKE = 0.85
"""likeness of a wrong name to a task or an agent, from which on it counts as misspelt"""
DEPTH = 3  # levels of folders below a given one that are searched for runs


def chosen_run(run_dir: str | Path) -> tuple[Path, str]:
    """Returns the run that a folder stands for: itself, of several seeds or trials the best, of other runs the newest.

    The name of a task stands for its newest run in `DEFAULT_FOLDER`, and ``zoo:NAME`` for an agent of the zoo.

    Returns:
        The run folder, and in words which of several it is; empty for the folder itself.

    Raises:
        OptionError: there is no run with a checkpoint in the folder, or of the task; or it is no folder.
    """
    folder = folder_path(run_dir)
    if (folder / "config.json").exists():
        return folder, ""
    if not folder.exists() and is_registered(str(run_dir)):
        return _newest_of(str(run_dir)), f"the newest run of {run_dir}"
    if folder == DEFAULT_FOLDER and not folder.is_dir():
        raise OptionError(
            f"there is no folder {folder} here: name a run or an agent of headrace zoo, or train one with headrace "
            "train TASK"
        )
    if not folder.exists() and (meant := _meant(str(run_dir))):
        raise OptionError(f"there is no folder {folder} (did you mean {meant}?)")
    runs = [run for run in find_runs([folder]) if any((run / "checkpoints").glob("step-*"))]
    if not runs:
        raise OptionError(f"no run in {folder} has a checkpoint yet")
    best = [run for _, run in ranked_runs(folder) if run in runs]
    if best and any((folder / name).is_file() for name in SEVERAL):
        return best[0], f"the best of {len(best)} in {folder}"
    return _newest(runs), f"the newest run in {folder}"


def _meant(name: str) -> str:
    """Returns the agent of the zoo or the task of which a wrong name is a slip, in whatever case; empty if of none."""
    names = {each.lower(): each for each in (*list_all_envs(), *(zoo.PREFIX + each for each in zoo.agents()))}
    return next((names[each] for each in close_names(name.lower(), names, 1, ALIKE)), "")


def _newest_of(task: str) -> Path:
    runs: list[Path] = []
    with suppress(OptionError):  # where no run is
        runs = [run for run in find_runs([DEFAULT_FOLDER]) if _task(run) == task]
    runs = [run for run in runs if any((run / "checkpoints").glob("step-*"))]
    if runs:
        return _newest(runs)
    there = f"the zoo has an agent, {zoo.PREFIX}{task}" if task in zoo.agents() else f"headrace train {task} makes one"
    raise OptionError(f"there is no run of {task} in {DEFAULT_FOLDER}: {there}")


def _task(run: Path) -> str | None:
    with suppress(OSError, ValueError, AttributeError, RecursionError):
        return json.loads(files.read(run / "config.json")).get("task")
    return None


def _newest(runs: Iterable[Path]) -> Path:
    return max(runs, key=lambda run: (run / "checkpoints").stat().st_mtime)


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
