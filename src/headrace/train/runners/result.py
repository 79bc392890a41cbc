"""How far a run is, and its result."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

Reason = Literal["solved", "finished", "interrupted"]
"""the reason for a run's end: it reached ``stop_at_return``, took all its steps, or was stopped by Ctrl-C or TERM"""


@dataclass(frozen=True)
class Result:
    """The result of a run.

    Attributes:
        run_dir: the run folder.
        reason: the reason for its end.
        steps: number of agent steps, in all environments together.
        seconds: seconds spent on training.
        mean_return: mean return of the last ``stop_episodes`` episodes; None if none has ended.
        video, plot: files made at the end, if any.
        elo: of self-play by turns, where the player who moves at random has 0; None for other runs.
    """

    run_dir: Path
    reason: Reason
    steps: int
    seconds: float
    mean_return: float | None
    video: Path | None = None
    plot: Path | None = None
    elo: float | None = None


@dataclass
class RunState:
    """The counts of one run, which its loop, its reporter and its saver share, and a checkpoint holds.

    Attributes:
        step: agent steps so far, in all environments together.
        best_return: the highest mean return so far for which a checkpoint was kept.
        best_stage: the curriculum's stage of that return, as `headrace.train.runners.parts.Scored` has it.
        logged, logged_at: agent steps and seconds of training at the last line of metrics.
        resumed: whether the run continues from a checkpoint.
        trained: seconds of training up to the moment ``since``; None for that while the run does not train.
    """

    step: int = 0
    best_return: float = float("-inf")
    best_stage: int = 0
    logged: int = 0
    logged_at: float = 0.0
    resumed: bool = False
    trained: float = 0.0
    since: float | None = None

    @property
    def seconds(self) -> float:
        """The seconds spent on training so far, including those before a resumption."""
        return self.trained + (0.0 if self.since is None else time.monotonic() - self.since)

    def counters(self) -> dict[str, Any]:
        best = self.best_return if self.best_return > float("-inf") else None
        return {
            "step": self.step,
            "logged": self.logged,
            "seconds": self.seconds,
            "best_return": best,
            "best_stage": self.best_stage,
        }

    def load(self, counters: Mapping[str, Any]) -> None:
        self.step, self.logged, self.trained = (counters[name] for name in ("step", "logged", "seconds"))
        self.logged_at, self.resumed = self.trained, True
        if counters["best_return"] is not None:
            self.best_return, self.best_stage = counters["best_return"], counters.get("best_stage", 0)
