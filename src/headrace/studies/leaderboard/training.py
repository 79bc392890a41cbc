"""Trains the rows of a leaderboard: several seeds at once if the cores allow it; continues where it was stopped."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from headrace.errors import OptionError, StateError
from headrace.studies.jobs.display import Display, ending_words
from headrace.studies.jobs.processes import Processes, side_by_side
from headrace.studies.leaderboard import scores
from headrace.studies.leaderboard.board import Row
from headrace.studies.leaderboard.report import Entry
from headrace.studies.leaderboard.scores import Measured
from headrace.train.processes.interrupt import Interrupt
from headrace.train.runs import files
from headrace.train.runs.events import read_status
from headrace.train.runs.files import replace, writing

KEPT = "row.json"
"""file, in the folder of a row or of another library, with the values on which its results depend"""
PUBLISHED = "published"
"""key in that file of published results, on which no results depend"""


def train_row(row: Row, folder: Path, seeds: Sequence[int], jobs: int = 0, quiet: bool = False) -> bool:
    """Trains the seeds of a row that have no scores yet, and writes their scores.

    Args:
        folder: the folder of its runs, ``seed-1`` and so on, each with its scores in a file ``seed-1.json``.
        jobs: the largest number of runs at once; 0 for as many as the cores allow.

    Returns:
        True if all are done, False after Ctrl-C.

    Raises:
        OptionError: a setting of the row is wrong, or the folder holds runs with other settings.
    """
    requested_settings = row.requested_settings()
    config, most = side_by_side(row.task, requested_settings)
    keep(folder, row.kept(), [asdict(each) for each in row.published])
    waiting = [seed for seed in seeds if not is_known(folder, seed)]
    trained = {f"{row.name}, seed {seed}": seed for seed in waiting if not _is_over(folder / f"seed-{seed}", row)}
    failures: dict[int, str] = {}
    with Interrupt() as interrupt, Processes(jobs or most) as processes, Display(config.total_steps, quiet) as display:
        starts = (
            processes.start(name, row.task, folder / f"seed-{seed}", requested_settings | {"seed": seed})
            for name, seed in trained.items()
        )
        for done in processes.follow(interrupt, lambda: next(starts, None)):
            for job in done:
                display.say(f"{job.name} {ending_words(job)}")
                if "error" in (job.ending or {}):
                    failures[trained[job.name]] = (job.ending or {})["error"]
            for job in processes.running:
                if job.seconds >= 60 * row.minutes:
                    job.stop()
            display.update(processes.running, f"{row.name}: {row.task}, {config.algo} · {folder}")
        for seed in waiting:
            if interrupt:
                return False  # what has been judged stays
            if seed in failures:
                result = scores.failed(seed, row.goals, failures[seed])
            else:
                result = scores.try_measure(folder / f"seed-{seed}", seed, row.goals, row.games, row.judge)
            result.write(result_file(folder, seed))
        return not interrupt


def result_file(folder: Path, seed: int) -> Path:
    return folder / f"seed-{seed}.json"


def results(folder: Path) -> list[Measured]:
    """Returns the scores in the folder of a row or of another library, in the order of the seeds."""
    return sorted((Measured.read(file) for file in folder.glob("seed-*.json")), key=lambda each: each.seed)


def entries(out: Path, rows: Sequence[Row], trust: bool = False) -> list[Entry]:
    """Returns the rows with scores in a folder, also those that earlier calls or other lists of rows have trained.

    Args:
        out: the leaderboard's folder, with a folder for each row.
        rows: the rows that come first, in this order; the others follow by name.

    Raises:
        StateError: a file is damaged.
        TrustError: a row of the folder asks for what the user has not agreed to, and ``trust`` is false.
    """
    board = {row.name: row for row in rows}
    names = {file.parent.name for file in out.glob("*/seed-*.json")}
    found = []
    for name in (*(name for name in board if name in names), *sorted(names - {*board})):
        folder, row = out / name, _row_of(out / name, board.get(name), trust)
        others = {_name_of(file.parent): results(file.parent) for file in sorted(folder.glob(f"*/{KEPT}"))}
        if row is not None:
            found.append(Entry(row, folder, results(folder), {who: seeds for who, seeds in others.items() if seeds}))
    return found


def _name_of(folder: Path) -> str:
    return f"{folder.name} {(_kept_in(folder) or {}).get('algo', '')}".strip()


def _row_of(folder: Path, row: Row | None, trust: bool) -> Row | None:
    """Returns the row that a folder holds: ``row``, unless the file says other settings; None if there is neither."""
    before = _kept_in(folder)
    if before is None or (row is not None and _decides(before) == row.kept()):
        return row
    try:
        return Row.from_kept(folder.name, before, folder / KEPT, trust)
    except (KeyError, TypeError, ValueError) as error:
        raise _damaged(folder, error) from error


def _kept_in(folder: Path) -> dict[str, Any] | None:
    """Returns the values in a folder's file `KEPT`; None if there is none."""
    try:
        before = json.loads(files.read(folder / KEPT))
        if not isinstance(before, dict):
            raise ValueError(f"{type(before).__name__} in place of a dict")
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise _damaged(folder, error) from error
    return before


def _damaged(folder: Path, error: Exception) -> StateError:
    return StateError(f"{folder / KEPT} cannot be read: {error!r}; remove {folder} to train anew")


def _decides(before: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in before.items() if name != PUBLISHED}


def check_kept(folder: Path, kept: dict[str, Any]) -> None:
    """Checks that a folder's results are those of these settings, and not of an earlier version of the row.

    Args:
        folder: the folder of a row's runs, or of another library's.
        kept: the values on which its results depend, as `Row.kept` returns them.

    Raises:
        OptionError: a setting differs; the message names the first.
        StateError: the folder's file is damaged.
    """
    found = _kept_in(folder)
    before = kept if found is None else _decides(found)
    if before != kept:
        name = next(name for name in {**kept, **before} if before.get(name) != kept.get(name))
        was, now = (f"{name}={each[name]!r}" if name in each else f"{name}'s default" for each in (before, kept))
        raise OptionError(f"{folder} was trained with {was}, not {now}: remove it to train anew, or name another --out")


def keep(folder: Path, kept: dict[str, Any], published: Sequence[dict[str, Any]] = ()) -> None:
    """Writes the values on which a folder's results depend, and published results.

    Args:
        folder: the folder, which is created.
        kept: as for `check_kept`.
        published: the fields of each `Published`.

    Raises:
        OptionError, StateError: as `check_kept`.
        StorageError: the folder cannot be written.
    """
    check_kept(folder, kept)
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    more = {PUBLISHED: list(published)} if published else {}
    replace(folder / KEPT, json.dumps(kept | more, indent=1) + "\n")


def is_known(folder: Path, seed: int) -> bool:
    """Returns whether a seed has scores; one that failed is trained again."""
    file = result_file(folder, seed)
    return file.is_file() and not Measured.read(file).error


def _is_over(run_dir: Path, row: Row) -> bool:
    """Returns whether a run that was begun earlier has ended, or reached its minutes."""
    if not (run_dir / "config.json").is_file():
        return False
    if read_status(run_dir).kind in ("solved", "finished"):
        return True
    from headrace.train.logging.plot import read_curve

    with suppress(Exception):  # a damaged run is trained again, or raises an error of its own
        seconds = read_curve(run_dir).seconds
        return bool(len(seconds) and seconds[-1] >= 60 * row.minutes)
    return False
