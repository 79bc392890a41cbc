"""What a run of the board is worth: steps and seconds to each goal, and games of the trained agent."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from headrace.errors import HeadraceError, StateError
from headrace.train.logging.metrics import read_metrics
from headrace.train.runs.folder import RunFolder
from headrace.train.runs.writing import replace


@dataclass(frozen=True)
class Reached:
    """When a run first reported a return.

    Attributes:
        goal: the return.
        steps: agent steps until then; None if it was never reached.
        seconds: of training until then; None if it was never reached.
    """

    goal: float
    steps: int | None = None
    seconds: float | None = None


@dataclass(frozen=True)
class Measured:
    """One seed of a row, as its file beside the run folder holds it.

    Attributes:
        seed: of the run.
        reached: of each goal.
        steps, seconds: of the whole run.
        greedy: mean return of the games that the trained agent played; None if there were none.
        games: how many.
        error: what ended a run that failed.
    """

    seed: int
    reached: tuple[Reached, ...]
    steps: int
    seconds: float
    greedy: float | None = None
    games: int = 0
    error: str = ""

    def write(self, file: Path) -> None:
        """Write it as JSON."""
        replace(file, json.dumps(asdict(self), indent=1) + "\n")

    @classmethod
    def read(cls, file: Path) -> Measured:
        """Returns what a file holds; raises `StateError` where it is damaged."""
        try:
            values: dict[str, Any] = json.loads(file.read_text())
            reached = tuple(Reached(**each) for each in values.pop("reached"))
            return cls(reached=reached, **values)
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise StateError(f"{file} cannot be read: {error}; remove it to measure again") from error


def times_to(points: Iterable[tuple[float, float, float]], goals: Sequence[float]) -> tuple[Reached, ...]:
    """Returns when each goal was first reached.

    Args:
        points: agent steps, seconds and mean return, in the order of the steps.
        goals: returns.
    """
    known = list(points)
    found = []
    for goal in goals:
        first = next(((steps, seconds) for steps, seconds, earned in known if earned >= goal), None)
        found.append(Reached(goal) if first is None else Reached(goal, int(first[0]), float(first[1])))
    return tuple(found)


def measured(
    run_dir: Path, seed: int, goals: Sequence[float], games: int, ended: Callable[[int], None] = lambda games: None
) -> Measured:
    """Returns what a run that has ended is worth, from its metrics and from games of its best checkpoint.

    A goal counts as reached when the mean of the last ``games`` episodes of training, exploration included, first was
    at least as much; fewer episodes count for nothing.

    Args:
        run_dir: the run folder.
        seed: of the run.
        goals: returns.
        games: episodes that the agent plays without exploration, of the game's own rules.
        ended: called with the number of games played.

    Raises:
        HeadraceError: the run cannot be read, or has no checkpoint.
    """
    from headrace.train.play.evaluate import evaluate

    run, _ = RunFolder.read(run_dir)
    points = [
        (line["step"], line.get("time", {}).get("seconds", 0.0), line["return"])
        for line in read_metrics(run.metrics_file)
        if line.get("return") is not None and line.get("episodes", 0) >= games
    ]
    steps, seconds = points[-1][:2] if points else (0, 0.0)
    greedy = evaluate(run_dir, games, ended=ended, trust=True).mean_return
    return Measured(seed, times_to(points, goals), steps, seconds, greedy, games)


def failed(seed: int, goals: Sequence[float], words: str) -> Measured:
    """Returns what there is to say of a run that failed."""
    return Measured(seed, tuple(map(Reached, goals)), 0, 0.0, error=words)


def median(values: Iterable[float | None]) -> float | None:
    """Returns the median of values of which None is larger than all; None if it is one of these."""
    ordered = sorted(float("inf") if value is None else value for value in values)
    if not ordered:
        return None
    middle = statistics.median_high(ordered)
    return None if middle == float("inf") else middle


def try_measure(run_dir: Path, seed: int, goals: Sequence[float], games: int) -> Measured:
    """Returns what a run is worth, or why that cannot be said."""
    try:
        return measured(run_dir, seed, goals, games)
    except HeadraceError as error:
        return failed(seed, goals, str(error))
