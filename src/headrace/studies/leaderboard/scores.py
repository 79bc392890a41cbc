"""The scores of a leaderboard's runs: steps and seconds to each goal, and the return of the trained agent."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

from headrace.errors import HeadraceError, StateError
from headrace.train.runs import files
from headrace.train.runs.folder import RunFolder
from headrace.train.runs.metrics import read_metrics, seconds_of
from headrace.train.settings.values import describe, matches

T = TypeVar("T")


@dataclass(frozen=True)
class TimeToReturn:
    """The steps and times at which a run first reached a return.

    Attributes:
        steps: agent steps until then; None if it was not reached.
        seconds: seconds of training until then; None if it was not reached.
        core_seconds: processor seconds of the run until then, which depend less on other programs than seconds; None if
            it was not reached, or they were not measured.
    """

    goal: float
    steps: int | None = None
    seconds: float | None = None
    core_seconds: float | None = None


@dataclass(frozen=True)
class Measured:
    """The scores of one seed of a row, as the file beside its run folder holds them.

    Attributes:
        reached: when each goal was reached, in the order of the goals.
        steps, seconds: agent steps and seconds of training of the whole run.
        greedy: mean return of the trained agent without exploration; None if it was not measured.
        games: the number of episodes of that mean.
        error: the error with which the run failed; empty if it did not.
    """

    seed: int
    reached: tuple[TimeToReturn, ...]
    steps: int
    seconds: float
    greedy: float | None = None
    games: int = 0
    error: str = ""

    def write(self, file: Path) -> None:
        files.replace(file, json.dumps(asdict(self), indent=1) + "\n")

    @classmethod
    def read(cls, file: Path) -> Measured:
        """Returns the scores in a file; raises `StateError` if it is damaged."""
        try:
            values: dict[str, Any] = json.loads(files.read(file))
            reached = tuple(_of_types(TimeToReturn(**each)) for each in values.pop("reached"))
            return _of_types(cls(reached=reached, **values))
        except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise StateError(f"{file} cannot be read: {error}; remove it to measure again") from error


def _of_types(record: T) -> T:
    """Returns a record that a file held; raises TypeError where a field is of another type than it should be."""
    for name, hint in get_type_hints(type(record)).items():
        if name != "reached" and not matches(value := getattr(record, name), hint):
            raise TypeError(f"{name}={value!r} must be {describe(hint)}")
    return record


def times_to(points: Iterable[tuple[float, float, float]], goals: Sequence[float]) -> tuple[TimeToReturn, ...]:
    """Returns the steps and times at which each goal was first reached.

    Args:
        points: agent steps, seconds and mean return, in the order of the steps.
        goals: the returns to reach.
    """
    known = list(points)
    found = []
    for goal in goals:
        first = next(((steps, seconds) for steps, seconds, earned in known if earned >= goal), None)
        found.append(TimeToReturn(goal) if first is None else TimeToReturn(goal, int(first[0]), float(first[1])))
    return tuple(found)


def measured(run_dir: Path, seed: int, goals: Sequence[float], games: int, judge: str = "training") -> Measured:
    """Returns the scores of a run that has ended, from its metrics and from episodes of its best checkpoint.

    Judged by training, a goal is reached at the first line of metrics whose mean over the last ``games`` episodes,
    with exploration, is at least the goal. Judged by games, it is reached at the first checkpoint whose mean over
    ``games`` episodes without exploration is at least the goal.

    Args:
        goals: increasing returns.
        games: the number of episodes of each mean.
        judge: ``"training"`` or ``"games"``.

    Raises:
        HeadraceError: the run cannot be read, or has no checkpoint.
    """
    from headrace.train.play.evaluate import evaluate

    run, _ = RunFolder.read(run_dir)
    lines = list(read_metrics(run.metrics_file))
    points = [
        (line["step"], seconds_of(line) or 0.0, line["return"])
        for line in lines
        if line.get("return") is not None and line.get("episodes", 0) >= games
    ]
    steps, seconds = points[-1][:2] if points else (0, 0.0)
    if judge == "games":
        points = _points_of_games(run, lines, max(goals), games)
    greedy = evaluate(run_dir, games).mean_return
    reached = tuple(replace(each, core_seconds=core_seconds(lines, each.seconds)) for each in times_to(points, goals))
    return Measured(seed, reached, steps, seconds, greedy, games)


def core_seconds(lines: Iterable[Mapping[str, Any]], until: float | None) -> float | None:
    """Returns the processor seconds that a run had used after some seconds of training, from its metrics.

    A line without the number of cores in use takes that of the line before, or, as a run's first line, of the next.

    Args:
        lines: the lines of the metrics, in their order.
        until: seconds of training; None for a goal that was not reached.

    Returns:
        The processor seconds; None for such a goal, or if no line holds the cores in use.
    """
    if until is None:
        return None
    times = [line["time"] for line in lines if "time" in line and (seconds_of(line) or 0.0) <= until]
    share = next((time["cores"] for time in times if "cores" in time), None)
    if share is None:
        return None
    spent, before = 0.0, 0.0
    for time in times:
        share = time.get("cores", share)
        spent += share * (time["seconds"] - before)
        before = time["seconds"]
    return round(spent, 1)


def _points_of_games(
    run: RunFolder, lines: Sequence[Mapping[str, Any]], goal: float, games: int
) -> list[tuple[int, float, float]]:
    """Returns steps, seconds and mean return of each checkpoint, up to the first that reaches the goal."""
    from headrace.train.play.evaluate import evaluate

    found: list[tuple[int, float, float]] = []
    for path in sorted(run.checkpoints.glob("step-*")):
        steps = int(path.name.removeprefix("step-"))
        seconds = next((seconds_of(line) or 0.0 for line in lines if line["step"] >= steps), None)
        if steps == 0 or seconds is None:
            continue
        earned = evaluate(run.path, games, which=path.name).mean_return
        found.append((steps, seconds, earned))
        if earned >= goal:
            break
    return found


def failed(seed: int, goals: Sequence[float], words: str) -> Measured:
    """Returns the scores of a run that failed with an error: no goal is reached."""
    return Measured(seed, tuple(map(TimeToReturn, goals)), 0, 0.0, error=words)


def median(values: Iterable[float | None]) -> float | None:
    """Returns the upper median, None counting as larger than all numbers; None also for no values."""
    ordered = sorted(float("inf") if value is None else value for value in values)
    if not ordered:
        return None
    middle = statistics.median_high(ordered)
    return None if middle == float("inf") else middle


def try_measure(run_dir: Path, seed: int, goals: Sequence[float], games: int, judge: str = "training") -> Measured:
    """Returns the scores of a run, as `measured`; the scores of a failed run if they cannot be determined."""
    try:
        return measured(run_dir, seed, goals, games, judge)
    except HeadraceError as error:
        return failed(seed, goals, str(error))
