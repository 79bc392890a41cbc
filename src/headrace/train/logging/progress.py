"""What a run has done so far, as whoever shows it needs it: a record that knows nothing of how training works."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from headrace.train.config.settings import Config


@dataclass(frozen=True)
class PolicyProgress:
    """How one policy fares.

    Attributes:
        name: as in ``config.policies``; empty where there is one policy.
        mean_return, mean_length: of its last episodes; None before any has ended.
        types: agent type → the same two numbers, where several types share the policy.
        losses: the last update's statistics by name; empty before it.
    """

    name: str
    mean_return: float | None
    mean_length: float | None
    types: Mapping[str, tuple[float | None, float | None]]
    losses: Mapping[str, float]


@dataclass(frozen=True)
class Progress:
    """A run at one moment.

    Attributes:
        config: its settings.
        folder, metrics_file: where it writes.
        step: agent steps so far, all environments together.
        seconds: time spent training so far.
        episodes: episodes that have ended so far.
        policies: one record each, the first one's returns being the run's.
        evaluation: what the evaluator found last, ``return`` among it; empty without one.
        split: part of the work → seconds spent in it.
        speeds: name → per second; None before it is known.
        memory: kind → bytes in use, as `headrace.train.logging.memory.in_use`.
        address: where the run can be watched; None where it cannot.
        remarks: lines about what happened by the way.
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
    address: str | None
    remarks: tuple[str, ...]
