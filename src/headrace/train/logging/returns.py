"""The returns of a run over steps and seconds, from its metrics, for plots."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from headrace.train.config.settings import Config
from headrace.train.logging.metrics import read_metrics
from headrace.train.runs import files
from headrace.train.runs.folder import RunFolder

Source = Literal["training", "evaluation"]
"""the source of returns: episodes of training, or evaluations, which have no exploration"""


@dataclass(frozen=True)
class Curve:
    """The returns of one run.

    Attributes:
        steps, seconds, returns: agent steps, seconds of training and mean returns, float64 [M], without nan.
    """

    path: Path
    config: Config
    steps: np.ndarray
    seconds: np.ndarray
    returns: np.ndarray


def read_curve(path: str | Path, source: Source = "training") -> Curve:
    """Returns the curve of a run, possibly of length 0.

    Args:
        source: the source of returns.

    Raises:
        OptionError: there is no run in this folder.
        StateError: the run's settings or metrics are damaged.
    """
    run, config = RunFolder.read(path)
    lines = read_metrics(run.metrics_file)
    points = _evaluations(lines) if source == "evaluation" else [(line["step"], line, line) for line in lines]
    rows = [(step, _seconds(line), measured.get("return")) for step, line, measured in points]
    known = [row for row in rows if None not in (files.number(row[0]), files.number(row[2]))]
    kept = np.array(known, dtype=np.float64).reshape(-1, 3)
    return Curve(Path(path), config, kept[:, 0], kept[:, 1], kept[:, 2])


def _evaluations(lines: Sequence[dict[str, Any]]) -> list[tuple[Any, dict[str, Any], dict[str, Any]]]:
    found: dict[Any, tuple[Any, dict[str, Any], dict[str, Any]]] = {}
    for line in lines:
        known = line.get("evaluation")
        if isinstance(known, dict) and files.number(known.get("step")) is not None:
            found.setdefault(known["step"], (known["step"], line, known))
    return list(found.values())


def _seconds(line: Mapping[str, Any]) -> float:
    """Returns the seconds of training of a line; nan if it has none."""
    time = line.get("time")
    seconds = files.number(time.get("seconds")) if isinstance(time, dict) else None
    return math.nan if seconds is None else seconds
