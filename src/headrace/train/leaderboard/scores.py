"""What a run of the board is worth: steps and seconds to each goal, and games of the trained agent."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from headrace.errors import HeadraceError, StateError
from headrace.train.logging.metrics import read_metrics
from headrace.train.runs import writing
from headrace.train.runs.folder import RunFolder


@dataclass(frozen=True)
class Reached:
    """When a run first reported a return.

    Attributes:
        goal: the return.
        steps: agent steps until then; None if it was never reached.
        seconds: of training until then; None if it was never reached.
        core_seconds: of one core that the run's processes had until then, which is less than seconds times cores where
            other programs run beside; None if it was never reached, or is not known.
    """

    goal: float
    steps: int | None = None
    seconds: float | None = None
    core_seconds: float | None = None


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
        writing.replace(file, json.dumps(asdict(self), indent=1) + "\n")

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


def measured(run_dir: Path, seed: int, goals: Sequence[float], games: int, judge: str = "training") -> Measured:
    """Returns what a run that has ended is worth, from its metrics and from games of its best checkpoint.

    A goal counts as reached when the mean of the last ``games`` episodes of training, exploration included, first was
    at least as much; fewer episodes count for nothing. Judged by games, it is the mean of as many that a checkpoint
    plays without exploration, of each from the oldest.

    Args:
        run_dir: the run folder.
        seed: of the run.
        goals: returns.
        games: episodes that the agent plays without exploration, of the game's own rules.
        judge: "training" or "games".

    Raises:
        HeadraceError: the run cannot be read, or has no checkpoint.
    """
    from headrace.train.play.evaluate import evaluate

    run, _ = RunFolder.read(run_dir)
    lines = list(read_metrics(run.metrics_file))
    points = [
        (line["step"], _seconds(line), line["return"])
        for line in lines
        if line.get("return") is not None and line.get("episodes", 0) >= games
    ]
    steps, seconds = points[-1][:2] if points else (0, 0.0)
    if judge == "games":
        points = _points_of_games(run, lines, max(goals), games)
    greedy = evaluate(run_dir, games, trust=True).mean_return
    reached = tuple(replace(each, core_seconds=core_seconds(lines, each.seconds)) for each in times_to(points, goals))
    return Measured(seed, reached, steps, seconds, greedy, games)


def core_seconds(lines: Iterable[Mapping[str, Any]], until: float | None) -> float | None:
    """Returns the seconds of one core that a run had so far, from its metrics; None where they do not say it all.

    Args:
        lines: of metrics, in their order.
        until: seconds of training; None for never.
    """
    if until is None:
        return None
    spent, before = 0.0, 0.0
    for line in lines:
        if (now := _seconds(line)) > until:
            break
        if "cores" not in line.get("time", {}):
            return None
        spent += line["time"]["cores"] * (now - before)
        before = now
    return round(spent, 1)


def _points_of_games(
    run: RunFolder, lines: Sequence[Mapping[str, Any]], goal: float, games: int
) -> list[tuple[int, float, float]]:
    """Steps, seconds and the mean of games of each checkpoint, up to the one that reaches the goal."""
    from headrace.train.play.evaluate import evaluate

    found: list[tuple[int, float, float]] = []
    for path in sorted(run.checkpoints.glob("step-*")):
        steps = int(path.name.removeprefix("step-"))
        seconds = next((_seconds(line) for line in lines if line["step"] >= steps), None)
        if steps == 0 or seconds is None:
            continue
        earned = evaluate(run.path, games, which=path.name, trust=True).mean_return
        found.append((steps, seconds, earned))
        if earned >= goal:
            break
    return found


def _seconds(line: Mapping[str, Any]) -> float:
    """Seconds of training until a line of metrics."""
    return line.get("time", {}).get("seconds", 0.0)


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


def try_measure(run_dir: Path, seed: int, goals: Sequence[float], games: int, judge: str = "training") -> Measured:
    """Returns what a run is worth, or why that cannot be said."""
    try:
        return measured(run_dir, seed, goals, games, judge)
    except HeadraceError as error:
        return failed(seed, goals, str(error))
