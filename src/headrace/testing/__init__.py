"""Conformance checks that run on any registered task.

    >>> import headrace.testing
    >>> headrace.testing.check("TargetCart-v0")  # runs all checks; raises ConformanceError

    >>> @pytest.mark.parametrize("check", headrace.testing.CHECKS)
    ... def test_my_environment(check):
    ...     check("TargetCart-v0", seed=3)

Each check plays short runs with random actions and compares them bit by bit. Checks take the task's own options, and
``seed``, ``num_envs`` and ``steps``. ``headrace check TASK`` shows the results in a table.
"""

from __future__ import annotations

from typing import Any

from headrace.errors import ConformanceError
from headrace.testing.episodes import (
    autoreset_disabled,
    autoreset_next_step,
    autoreset_same_step,
    elapsed_step,
    rendering,
    saved_states,
    spaces,
    truncation,
)
from headrace.testing.kept import kept_results
from headrace.testing.report import Check, NotApplicable, Report, Result, run_checks
from headrace.testing.results import (
    asynchronous,
    determinism,
    devices,
    equal_seeds,
    number_of_environments,
    number_of_threads,
    order_of_agents,
    own_streams,
    partial_steps,
    resets,
    seeds,
)

__all__ = ["CHECKS", "Check", "ConformanceError", "NotApplicable", "Report", "Result", "check", "run_checks"]

CHECKS: tuple[Check, ...] = (
    determinism,
    seeds,
    own_streams,
    equal_seeds,
    resets,
    number_of_environments,
    number_of_threads,
    partial_steps,
    asynchronous,
    order_of_agents,
    devices,
    autoreset_next_step,
    autoreset_same_step,
    autoreset_disabled,
    elapsed_step,
    truncation,
    spaces,
    saved_states,
    rendering,
    kept_results,
)
"""All checks, each a function of a task's name and options, for `pytest.mark.parametrize`."""


def check(task: str, **options: Any) -> Report:
    """Runs all checks on a task.

    Args:
        task: a registered name.
        options: the task's own options; and the runs' ``seed`` (default 0), ``num_envs`` (5) and ``steps`` (100).

    Returns:
        The report, which includes skipped checks and the reasons.

    Raises:
        ConformanceError: checks failed; for each, the message holds what was expected, what was seen, and the call that
            reproduces it.
    """
    report = run_checks(task, CHECKS, **options)
    if report.failures:
        raise ConformanceError(str(report))
    return report
