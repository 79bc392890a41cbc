"""Loggers that receive a run's metrics beside ``metrics.jsonl``: TensorBoard, Weights & Biases, trackio.

A logger receives the numbers of each line by name. Its library is imported only if the settings name it.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import os
import uuid
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Protocol

from headrace.errors import OptionError
from headrace.train.config.settings import LOGGERS, Config
from headrace.train.logging.tensorboard import TensorBoard
from headrace.train.runs import files
from headrace.train.runs.folder import RunFolder
from headrace.train.runs.writing import replace

PROJECT = "headrace"  # unless the library's own environment variable names another


class Logger(Protocol):
    """The interface of loggers."""

    def write(self, numbers: Iterable[tuple[str, float]], step: int) -> None:
        """Receives numbers by name (``loss/value``, ``train/return``) at an agent step."""
        ...

    def close(self) -> None:
        """Closes the log at the end of the run."""
        ...


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
                config=dataclasses.asdict(config),
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
                config=dataclasses.asdict(config),
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
    """Returns the loggers that a run's settings name.

    Args:
        config: the settings; ``tensorboard`` adds TensorBoard where it is installed.
        step: the agent step from which a resumed run continues.
    """
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
