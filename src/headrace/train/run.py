"""The run folder: everything a run leaves behind, readable without this library.

``config.json`` what was asked for · ``metrics.jsonl`` what happened, one line a measurement ·
``checkpoints/`` and ``replay/`` what is needed to go on · ``videos/`` and ``curve.png`` what to look at ·
``tensorboard/`` the metrics again, for TensorBoard · ``viewer.json`` where it can be watched while it trains.
"""

from __future__ import annotations

import re
import time
from pathlib import Path

from headrace.errors import OptionError
from headrace.train.config import Config


class RunFolder:
    """Paths of one run."""

    def __init__(self, path: str | Path):
        self.path = Path(path)
        self.config_file = self.path / "config.json"
        self.metrics_file = self.path / "metrics.jsonl"
        self.checkpoints = self.path / "checkpoints"
        self.replay = self.path / "replay"
        self.videos = self.path / "videos"
        self.tensorboard = self.path / "tensorboard"
        self.plot_file = self.path / "curve.png"
        self.viewer_file = self.path / "viewer.json"

    @classmethod
    def create(cls, path: str | Path | None, config: Config) -> RunFolder:
        """A new folder with the configuration in it; by default ``runs/TASK-DATE-TIME``.

        Raises:
            OptionError: the folder already holds a run.
        """
        run = cls(path if path is not None else _fresh_path(config.task))
        if run.config_file.exists():
            raise OptionError(f"{run.path} already holds a run: resume it, or choose another run_dir")
        run.path.mkdir(parents=True, exist_ok=True)
        run.write_config(config)
        return run

    @classmethod
    def open(cls, path: str | Path) -> tuple[RunFolder, Config]:
        """An existing run and its configuration.

        Raises:
            OptionError: there is no run in this folder.
        """
        run = cls(path)
        if not run.config_file.is_file():
            raise OptionError(f"{run.path} holds no run: it has no config.json")
        return run, Config.from_json(run.config_file.read_text())

    def write_config(self, config: Config) -> None:
        self.config_file.write_text(config.to_json())


def _fresh_path(task: str) -> Path:
    name = re.sub(r"[^\w.-]+", "_", task)
    stem = Path("runs") / f"{name}-{time.strftime('%Y%m%d-%H%M%S')}"
    path, again = stem, 2
    while path.exists():
        path, again = stem.with_name(f"{stem.name}-{again}"), again + 1
    return path
