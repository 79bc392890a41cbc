"""Turns checks into functions whose errors contain the call that reproduces them, and runs all checks."""

from __future__ import annotations

import functools
import time
import unittest
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal

from headrace.errors import ConformanceError, HeadraceError, UnsupportedError
from headrace.pool.make_pool import make_pool
from headrace.testing.trial import Mismatch, Trial

Check = Callable[..., None]
Verdict = Literal["passed", "failed", "skipped"]
MARKS: dict[Verdict, str] = {"passed": "✓", "failed": "✗", "skipped": "–"}


class NotApplicable(unittest.SkipTest):
    """A check does not apply to this task or machine, for the reason in the message; pytest reports it as skipped."""


@dataclass(frozen=True)
class Result:
    """The result of one check.

    Attributes:
        name: the check's name.
        verdict: ``"passed"``, ``"failed"`` or ``"skipped"``.
        note: what was expected and what was seen, or why the check was skipped; empty if it passed.
        seconds: the check's duration in seconds.
    """

    name: str
    verdict: Verdict
    note: str
    seconds: float


@dataclass(frozen=True)
class Report:
    """The results of all checks of a task; ``str(report)`` has a line for each."""

    task: str
    results: tuple[Result, ...]

    @property
    def failures(self) -> tuple[Result, ...]:
        return tuple(result for result in self.results if result.verdict == "failed")

    def __str__(self) -> str:
        width = max(len(result.name) for result in self.results)
        skipped = sum(result.verdict == "skipped" for result in self.results)
        failed = len(self.failures)
        held = f"{len(self.results) - failed - skipped} checks passed, {failed} failed, {skipped} skipped"
        lines = [f"{MARKS[r.verdict]} {r.name:<{width}}  {r.note}".rstrip() for r in self.results]
        return "\n".join([f"{self.task}: {held}", *lines])


def conformance(check: Callable[[Trial], None]) -> Check:
    """Returns a check of a `Trial` as a function ``check(task, **options)``, which raises `ConformanceError`.

    The error's message contains the call that reproduces it.
    """

    @functools.wraps(check)
    def run(task: str, **options: Any) -> None:
        settings = {name: options.pop(name) for name in ("seed", "num_envs", "steps") if name in options}
        trial = Trial(task, options, **settings)
        try:
            check(trial)
        except UnsupportedError as reason:
            raise NotApplicable(str(reason)) from None
        except (Mismatch, HeadraceError) as error:
            kind = "" if isinstance(error, Mismatch) else f"{type(error).__name__}: "
            given = {"seed": trial.seed, "num_envs": trial.num_envs, "steps": trial.steps, **options}
            call = ", ".join([repr(task), *(f"{name}={value!r}" for name, value in given.items())])
            raise ConformanceError(
                f"{task}, {check.__name__}: {kind}{error}\n  again: headrace.testing.{check.__name__}({call})"
            ) from error

    # hides the inner signature, whose argument pytest would treat as a fixture
    del run.__wrapped__  # type: ignore[attr-defined]
    return run


def run_checks(
    task: str, checks: Iterable[Check], *, watch: Callable[[Result], object] | None = None, **options: Any
) -> Report:
    """Runs all checks, also after failures, and returns a report; ``watch`` is called with each result.

    Raises:
        UnknownTaskError, OptionError: the task cannot be made with these options.
    """
    settings = {name: value for name, value in options.items() if name not in ("seed", "num_envs", "steps")}
    make_pool(task, **settings).close()  # raises for a task that cannot be made
    results = []
    for check in checks:
        began = time.perf_counter()
        verdict: Verdict = "passed"
        note = ""
        try:
            check(task, **options)
        except NotApplicable as reason:
            verdict, note = "skipped", str(reason)
        except ConformanceError as error:
            verdict, note = "failed", str(error).removeprefix(f"{task}, {check.__name__}: ")
        results.append(Result(check.__name__, verdict, note, time.perf_counter() - began))
        if watch is not None:
            watch(results[-1])
    return Report(task, tuple(results))
