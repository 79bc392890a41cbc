"""The result of a run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

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
    """

    run_dir: Path
    reason: Reason
    steps: int
    seconds: float
    mean_return: float | None
    video: Path | None = None
    plot: Path | None = None
