"""The run folder: all files of a run, readable without this library.

``config.json`` the settings · ``metrics.jsonl`` the metrics, one line for each measurement · ``events.jsonl`` what
happened, such as its end · ``checkpoints/`` and ``replay/`` the state for resuming (``replay-1/`` … those of further
processes that train together) · ``episodes/`` and ``curve.png``
videos and the return curve · ``tensorboard/`` the metrics for TensorBoard · ``viewer.json`` the viewer's port while
the run trains · ``live.safetensors`` the newest networks while a page shows the run, and touches ``watched`` ·
``train.lock`` the process that trains, while the run trains.
"""

from __future__ import annotations

import itertools
import json
import math
import os
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any

from headrace.errors import OptionError, StateError, StorageError, TrustError
from headrace.train.runs import files, lock, zoo
from headrace.train.runs.events import EventLog
from headrace.train.runs.files import replace
from headrace.train.runs.trust import admit, unagreed
from headrace.train.runs.words import return_text
from headrace.train.settings.common import COMMON
from headrace.train.settings.config import UPDATES, Config, algorithms_of

SEVERAL = ("seeds.json", "sweep.json")
"""files of folders whose runs are folders in them"""
NAMED = 5  # maximum number of them that an error names


class RunFolder:
    """Paths of one run.

    Raises:
        OptionError: ``path`` is no path.
    """

    def __init__(self, path: str | Path):
        self.path = folder_path(path)
        self.config_file = self.path / "config.json"
        self.metrics_file = self.path / "metrics.jsonl"
        self.events = EventLog(self.path / "events.jsonl")
        self.checkpoints = self.path / "checkpoints"
        self.replay = self.path / "replay"
        self.episodes = zoo.written(self.path) / "episodes"
        self.tensorboard = self.path / "tensorboard"
        self.plot_file = self.path / "curve.png"
        self.viewer_file = self.path / "viewer.json"
        self.lock_file = self.path / "train.lock"
        self.live_file = self.path / "live.safetensors"
        self.watched_file = self.path / "watched"

    @classmethod
    def create(cls, path: str | Path | None, config: Config) -> RunFolder:
        """Makes a new folder with the configuration in it; by default ``runs/TASK-DATE-TIME``.

        Raises:
            OptionError: the folder already holds a run, or cannot be made.
            StateError: it holds links in place of a run's files.
            StorageError: files cannot be written there.
        """
        run = cls(make_folder(path, config.task))
        files.check(run.path)
        try:
            run.config_file.touch(exist_ok=False)  # of several runs that begin at the same time, only one succeeds
        except FileExistsError:
            raise OptionError(_taken(run.path)) from None
        except OSError as error:
            raise StorageError(f"{run.config_file} cannot be written: {error.strerror}") from error
        try:
            run.write_config(config)
        except StorageError:
            run.config_file.unlink()  # a folder without a run
            raise
        return run

    def replay_of(self, rank: int) -> Path:
        """Returns the folder with the replay of one of the processes that train together, on its own machine."""
        return self.replay.with_name(f"{self.replay.name}-{rank}") if rank else self.replay

    def drop_replays(self, kept: int) -> None:
        """Removes the replays of all processes but the first ``kept``."""
        for folder in self.path.glob(f"{self.replay.name}-*"):
            number = re.fullmatch(r"-(\d+)", folder.name.removeprefix(self.replay.name))
            if number and int(number[1]) >= kept:
                shutil.rmtree(folder, ignore_errors=True)

    def leave(self) -> None:
        """Removes the files of a run that ended before it reported anything, so that the folder can be used again.

        Its checkpoint at step 0 is not worth resuming.
        """
        from headrace.train.runs.checkpoint import newest_learnt

        if newest_learnt(self.checkpoints) is None:
            self.drop_replays(1)
            for folder in (self.checkpoints, self.replay, self.tensorboard, self.episodes):
                shutil.rmtree(folder, ignore_errors=True)
            own = (self.config_file, self.metrics_file, self.events.file)
            for file in (*own, self.viewer_file, self.live_file, self.watched_file):
                file.unlink(missing_ok=True)
            with suppress(OSError):  # it holds other files
                self.path.rmdir()

    @classmethod
    def open(cls, path: str | Path, *, trust: bool = False, training: bool = False) -> tuple[RunFolder, Config]:
        """Returns an existing run and its configuration, to resume it or to play it.

        Args:
            trust: whether the user agrees to what its configuration asks for, which is then remembered.
            training: whether it is resumed, which its configuration may let connect to other machines.

        Raises:
            OptionError: there is no run in this folder, or it is to be resumed and is an agent of the zoo.
            StateError: its configuration is damaged, or it holds links in place of a run's files.
            TrustError: it asks for what the user has not agreed to, see `headrace.train.runs.trust`.
        """
        run = cls(path)
        if training and zoo.is_agent(run.path):
            task = zoo.read_card(run.path).task
            raise OptionError(
                f"{path} is an agent of the zoo, which holds its networks and no more: headrace train {task} --load "
                f"{path} begins with them"
            )
        with run._reading() as values:
            admit(values, run.path, trust, training=training)
            return run, Config.from_values(values)

    @classmethod
    def read(cls, path: str | Path) -> tuple[RunFolder, Config]:
        """Like `open`, for callers that only read files and never run the code that the configuration names.

        Where the code of an algorithm is not known, the settings are those that all algorithms share, without policies.

        Raises:
            OptionError: there is no run in this folder.
            StateError: as `open`.
        """
        run = cls(path)
        with run._reading() as values:
            if any(unagreed({"algo": algo}) for algo in algorithms_of(values)):
                values = COMMON.only(values) | {"algo": "ppo", "policies": {}, "schedules": {}}
            return run, Config.from_values(values)

    @contextmanager
    def _reading(self) -> Iterator[dict[str, Any]]:
        """Yields what the file of settings holds; whatever is wrong with it becomes a `StateError`, as for `open`."""
        if not os.path.lexists(self.config_file):
            raise OptionError(f"{self.path} {self._several() or 'is not a run folder: it has no config.json'}")
        files.check(self.path)
        card = zoo.checked(self.path) if zoo.is_agent(self.path) else None
        try:
            values = json.loads(files.read(self.config_file))
            if not isinstance(values, dict) or not isinstance(values.get("task"), str):
                raise ValueError('it must hold a run\'s settings, {"task": …}')
            if card is not None and card.task != values["task"]:
                raise ValueError(f"it is of {values['task']}, and the card beside it of {card.task}")
            yield values
        except TrustError:
            raise
        except (OSError, ValueError, TypeError, AttributeError, OverflowError, RecursionError) as error:
            raise StateError(f"{self.config_file} cannot be read: {error}") from error

    def _several(self) -> str:
        """Returns in words which runs a folder of several holds, the best first; empty if it is none."""
        if not any((self.path / name).is_file() for name in SEVERAL):
            return ""
        found = ranked_runs(self.path)
        told = [f"{run} (mean return {return_text(best)})" if best > -math.inf else str(run) for best, run in found]
        more = f" … {len(told) - NAMED} more" if len(told) > NAMED else ""
        return f"has several runs: name one of them: {', '.join(told[:NAMED])}{more}" if told else ""

    def held(self, patience: float = 0.0) -> AbstractContextManager[None]:
        """Returns a context that locks the folder for training, which may take ``patience`` seconds.

        Raises `OptionError` if another process holds it then.
        """
        return lock.held(self.lock_file, patience)

    @property
    def holder(self) -> str | None:
        """The process that trains into the folder, such as ``"process 123"``; None if there is none."""
        return lock.holder(self.lock_file)

    def write_config(self, config: Config) -> None:
        """Writes the settings; the note of what makes the updates stays."""
        known = json.loads(files.read(self.config_file) or b"{}")
        settings = json.loads(config.to_json())
        noted = {name: value for name, value in known.items() if name == UPDATES and name not in settings}
        replace(self.config_file, json.dumps(settings | noted, indent=2) + "\n")

    def note_updates(self, made_by: str) -> str:
        """Writes beside the settings what makes the run's updates; returns what made them before, empty if unknown."""
        values = json.loads(files.read(self.config_file))
        if (before := values.get(UPDATES)) != made_by:
            replace(self.config_file, json.dumps(values | {UPDATES: made_by}, indent=2) + "\n")
        return before if isinstance(before, str) else ""


def ranked_runs(folder: Path) -> list[tuple[float, Path]]:
    """Returns the runs in a folder with their best mean returns, the highest first; -inf where none is known."""
    found: list[tuple[float, Path]] = []
    for run in (file.parent for file in folder.glob("*/config.json")):
        try:
            best = float(json.loads(files.read(run / "checkpoints" / "best" / "state.json"))["best_return"])
        except (OSError, ValueError, TypeError, KeyError, OverflowError, RecursionError):
            best = -math.inf
        found.append((best, run))
    return sorted(found, reverse=True)


def folder_path(run_dir: object) -> Path:
    """Returns the path of a run folder, which may be ``"zoo:NAME"``; raises `OptionError` for what names none."""
    if not isinstance(run_dir, str | os.PathLike):
        raise OptionError(f"run_dir={run_dir!r} must be the path of a run folder, such as 'runs/mine'")
    if (name := str(run_dir)).startswith(zoo.PREFIX):
        return zoo.agent_folder(name.removeprefix(zoo.PREFIX))
    return Path(run_dir).expanduser()


def make_folder(path: str | Path | None, task: str) -> Path:
    """Makes a folder for a new run, or for several, and returns it; by default ``runs/TASK-DATE-TIME``.

    Raises:
        OptionError: it already holds a run or runs, or cannot be made.
    """
    if isinstance(path, str) and not path:
        raise OptionError("run_dir is empty: name a folder, or leave it out for a new one under runs/")
    if str(path).startswith(zoo.PREFIX):
        raise OptionError(f"run_dir={str(path)!r} is an agent of the zoo, into which nothing is trained: name a folder")
    try:
        folder = fresh_path(task) if path is None else folder_path(path)
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OptionError(f"there can be no run in {path or 'runs/'}: {error.strerror}") from error
    for name in SEVERAL:
        if (folder / name).exists():
            raise OptionError(
                f"{folder} already holds runs, as {name} says: go on with them (--resume {folder}), or choose another "
                "run_dir"
            )
    if (folder / "config.json").exists():
        raise OptionError(_taken(folder))
    return folder


def _taken(folder: Path) -> str:
    return f"{folder} already holds a run: resume it, or choose another run_dir"


def fresh_path(task: str) -> Path:
    name = re.sub(r"[^\w.-]+", "_", task)
    stem = Path("runs") / f"{name}-{time.strftime('%Y%m%d-%H%M%S')}"
    for again in itertools.count(1):
        path = stem if again == 1 else stem.with_name(f"{stem.name}-{again}")
        with suppress(FileExistsError):
            path.mkdir(parents=True)
            return path
    raise AssertionError
