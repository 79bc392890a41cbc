"""How a run ended."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Reason = Literal["solved", "finished", "interrupted"]
"""why a run ended: it reached ``stop_at_return``, took all its steps, or was stopped by Ctrl-C or TERM"""


@dataclass(frozen=True)
class Result:
    """How a run ended.

    Attributes:
        run_dir: the run folder.
        reason: why it ended.
        steps: agent steps, all environments together.
        seconds: time spent training.
        mean_return: of the last ``stop_episodes`` episodes; None if none has ended.
        video, plot: files made at the end, if any.
    """

    run_dir: Path
    reason: Reason
    steps: int
    seconds: float
    mean_return: float | None
    video: Path | None = None
    plot: Path | None = None
