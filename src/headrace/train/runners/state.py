"""How far a run is: the counts that its loop, its reporter and its saver share, and that a checkpoint holds."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass
class RunState:
    """The counts of one run.

    Attributes:
        step: agent steps so far, in all environments together.
        best_return: the highest mean return so far for which a checkpoint was kept.
        logged, logged_at: agent steps and seconds of training at the last line of metrics.
        resumed: whether the run continues from a checkpoint.
        trained: seconds of training up to the moment ``since``; None for that while the run does not train.
    """

    step: int = 0
    best_return: float = float("-inf")
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
        """Returns the counts for a checkpoint."""
        best = self.best_return if self.best_return > float("-inf") else None
        return {"step": self.step, "logged": self.logged, "seconds": self.seconds, "best_return": best}

    def load(self, counters: Mapping[str, Any]) -> None:
        """Restores what `counters` returned."""
        self.step, self.logged, self.trained = (counters[name] for name in ("step", "logged", "seconds"))
        self.logged_at, self.resumed = self.trained, True
        if counters["best_return"] is not None:
            self.best_return = counters["best_return"]
