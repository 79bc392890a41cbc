"""A record of a run's progress, which the dashboard displays without knowledge of the runner."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from headrace.train.config.settings import Config


@dataclass(frozen=True)
class PolicyProgress:
    """The progress of one policy.

    Attributes:
        name: as in ``config.policies``; empty for a single policy.
        mean_return, mean_length: means over its last episodes; None before an episode has ended.
        types: agent type → the same two numbers, if several types share the policy.
        losses: the last update's statistics by name; empty before the first update.
    """

    name: str
    mean_return: float | None
    mean_length: float | None
    types: Mapping[str, tuple[float | None, float | None]]
    losses: Mapping[str, float]


@dataclass(frozen=True)
class Progress:
    """The state of a run at a point in time.

    Attributes:
        step: agent steps so far, of all environments together.
        policies: one record for each policy; the first one's returns are the run's.
        evaluation: the evaluator's last result, with ``return``; empty without one.
        split: part of the work → seconds spent on it.
        speeds: name → rate per second; None before the rate is known.
        memory: kind → bytes in use, from `headrace.train.logging.memory_use.in_use`.
        hardware: ``cores``, the number in use, and ``gpu``, the share in use, as far as known.
        address: the URL of the run's page; None without one.
    """

    config: Config
    folder: Path
    metrics_file: Path
    step: int
    seconds: float
    episodes: int
    policies: tuple[PolicyProgress, ...]
    evaluation: Mapping[str, float]
    split: Mapping[str, float]
    speeds: Mapping[str, float | None]
    memory: Mapping[str, int]
    hardware: Mapping[str, float]
    address: str | None
    remarks: tuple[str, ...]
