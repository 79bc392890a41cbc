"""Writes the metrics of a run, and passes them to loggers: TensorBoard, Weights & Biases, trackio.

``metrics.jsonl`` holds one JSON object per line. In a deterministic run everything in it except the ``time`` object is
determined by configuration and seed, so that two runs can be compared line by line. A logger receives the numbers of
each line by name. Its library is imported only if the settings name it.
"""

from __future__ import annotations

import importlib.util
import json
import os
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from headrace.errors import OptionError
from headrace.train.runs import files
from headrace.train.runs.files import replace, write_all, writing
from headrace.train.runs.folder import RunFolder
from headrace.train.settings.config import Config
from headrace.train.settings.files import LOGGERS

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter

PROJECT = "headrace"  # unless the library's own environment variable names another


class Logger(Protocol):
    """The interface of loggers."""

    def write(self, numbers: Iterable[tuple[str, float]], step: int) -> None:
        """Receives numbers by name (``loss/value``, ``train/return``) at an agent step."""
        ...

    def close(self) -> None:
        """Closes the log at the end of the run."""
        ...


class TensorBoard:
    """Scalars in a folder, which the first write makes.

    Args:
        step: the first step that a resumed run writes anew: TensorBoard drops values of older files from it on.
    """

    def __init__(self, folder: Path, step: int = 0):
        self._folder, self._step = folder, step
        self._writer: SummaryWriter | None = None

    def write(self, numbers: Iterable[tuple[str, float]], step: int) -> None:
        from torch.utils.tensorboard import SummaryWriter

        with writing(self._folder):
            if self._writer is None:
                self._writer = SummaryWriter(self._folder, purge_step=self._step or None)
            for name, number in numbers:
                self._writer.add_scalar(name, number, step)
            self._writer.flush()  # raises the errors of the thread that writes

    def close(self) -> None:
        if self._writer is not None:
            with suppress(OSError):  # all was flushed when it was written
                self._writer.close()


class Wandb:
    """Weights & Biases: a run of the folder's name in the project ``$WANDB_PROJECT``.

    With ``WANDB_MODE=offline`` all data stay in the run folder, from which ``wandb sync`` sends them later. A resumed
    run continues its curves.

    Raises:
        OptionError: the run cannot begin, for instance because there is no API key.
    """

    def __init__(self, config: Config, run: RunFolder):
        import wandb

        folder = run.path / "wandb"
        folder.mkdir(exist_ok=True)
        try:
            self._run = wandb.init(
                project=os.environ.get("WANDB_PROJECT", PROJECT),
                name=run.path.name,
                id=_identity(folder / "id"),
                resume="allow",
                dir=str(run.path),
                config=dict(vars(config)),
                settings=wandb.Settings(console="off"),  # the dashboard uses the terminal
            )
        except (wandb.errors.Error, OSError) as error:  # pyright: ignore[reportAttributeAccessIssue]
            raise OptionError(f"log=wandb: {error}; log in with wandb login, or set WANDB_MODE=offline") from error
        # a killed run repeats some steps when it is resumed, which W&B's own step counter does not allow
        self._run.define_metric("*", step_metric="train/step")

    def write(self, numbers: Iterable[tuple[str, float]], step: int) -> None:
        self._run.log({**dict(numbers), "train/step": step})

    def close(self) -> None:
        self._run.finish()


class Trackio:
    """trackio: a run of the folder's name in the project ``$TRACKIO_PROJECT``, on this machine.

    ``trackio show`` shows it.

    Raises:
        OptionError: the run cannot begin.
    """

    def __init__(self, config: Config, run: RunFolder):
        import trackio  # pyright: ignore[reportMissingImports]

        try:
            self._run = trackio.init(
                project=os.environ.get("TRACKIO_PROJECT", PROJECT),
                name=run.path.name,
                resume="allow",
                config=dict(vars(config)),
                embed=False,
            )
        except (OSError, ValueError, RuntimeError) as error:
            raise OptionError(f"log=trackio: {error}") from error

    def write(self, numbers: Iterable[tuple[str, float]], step: int) -> None:
        self._run.log(dict(numbers), step=step)

    def close(self) -> None:
        self._run.finish()


def check_loggers(names: Iterable[str]) -> None:
    """Raises `OptionError` unless all loggers that a run's settings name are installed."""
    for name in names:
        if importlib.util.find_spec(name) is None:
            extra = "train" if name == "tensorboard" else name
            raise OptionError(f"log={name!r} needs {name}: pip install 'headrace[{extra}]'")


def make_loggers(config: Config, run: RunFolder, step: int) -> list[Logger]:
    loggers: list[Logger] = []
    if "tensorboard" in config.log or (config.tensorboard and importlib.util.find_spec("tensorboard")):
        loggers.append(TensorBoard(run.tensorboard, step))
    kinds: dict[str, Any] = {"wandb": Wandb, "trackio": Trackio}
    assert {"tensorboard", *kinds} == {*LOGGERS}
    return loggers + [kinds[name](config, run) for name in dict.fromkeys(config.log) if name in kinds]


def _identity(file: Path) -> str:
    """Returns the run's id at Weights & Biases, read from the file, so that a resumed run has the same."""
    if not file.exists():
        replace(file, uuid.uuid4().hex[:8])
    return files.read(file).decode().strip()


class MetricsWriter:
    """A writer of lines of ``metrics.jsonl``, which passes the same numbers to loggers.

    Args:
        file: the JSON lines file; it is truncated to ``offset`` bytes, since a run that was killed may have written
            lines after its last checkpoint, and to whole lines, since a disk may have lost the end of the last one.
        offset: bytes to keep.
    """

    def __init__(self, file: Path, offset: int = 0, loggers: Sequence[Logger] = ()):
        # unbuffered: data that a full disk refuses must not be written again when the file is closed
        self._path, self._file = file, os.fdopen(files.opened(file, files.APPEND), "ab", buffering=0)
        size = self._file.tell()
        whole = size if size == offset else files.read(file, files.MOST_METRICS)[:offset].rfind(b"\n") + 1
        if size > whole:  # only then, so that otherwise the modification time stays
            self._file.seek(self._file.truncate(whole))
        self._loggers = loggers

    def write(self, metrics: dict[str, Any]) -> None:
        """Appends one line; numbers in nested objects become ``outer/inner`` for loggers, others ``train/name``.

        Raises:
            StorageError: the line cannot be written, for instance because the disk is full.
        """
        line = json.dumps(metrics).encode() + b"\n"
        with writing(self._path):
            write_all(self._file, line)
        if self._loggers:
            numbers = [(name if "/" in name else f"train/{name}", number) for name, number in _flat(metrics)]
            for logger in self._loggers:
                logger.write(numbers, metrics["step"])

    def offset(self) -> int:
        return self._file.tell()

    def close(self) -> None:
        self._file.close()
        for logger in self._loggers:
            logger.close()


def _flat(metrics: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, float]]:
    """Yields all numbers by their paths, such as ``outer/inner``."""
    for name, value in metrics.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}/")
        elif isinstance(value, int | float):
            yield f"{prefix}{name}", value
