"""Checks for values from which nothing can be learnt: NaN and infinite ones, which end a run, and those rounded to few.

A single reward that is not finite makes all weights NaN.

Only values on the host are checked, so that nothing waits for a GPU.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from torch import Tensor

from headrace.errors import NotFiniteError
from headrace.train.runs.checkpoint import newest_learnt

COARSE = 0.01
"""the error of float32, in standard deviations, from which on numbers have lost what could be learnt from them"""


def all_finite(values: Tensor) -> bool:
    """Returns whether values, of any shape, are finite: tests their sum, and each value only if the sum is not."""
    return bool(values.sum().isfinite()) or bool(values.isfinite().all())


def check_rewards(rewards: Tensor, when: str) -> None:
    """Raises `NotFiniteError`, which names the environment, unless all rewards are finite.

    Args:
        rewards: float32[T, N], or of all agents [T, N, A].
        when: a description of when the first of these steps was taken.
    """
    if not all_finite(rewards):
        (step, env, *agent), value = _first(rewards)
        whose = f" to agent {agent[0]}" if agent else ""
        raise NotFiniteError(f"environment {env} gave{whose} the reward {value}, in step {step} {when}")


def check_observations(arrays: Mapping[str, Tensor], when: str) -> None:
    """Raises `NotFiniteError`, which names the environment, unless all observations are finite.

    Args:
        arrays: array name → observations, [T, N, …].
        when: as for `check_rewards`.
    """
    for seen in arrays.values():
        if seen.dtype.is_floating_point and not all_finite(seen):
            (step, env, *place), value = _first(seen)
            raise NotFiniteError(f"environment {env} observed {value} at {place}, in step {step} {when}")


def rounding_of(observations: Tensor) -> str | None:
    """Returns in words which numbers of observations [B, D] float32 rounds by much of their spread; None if none."""
    exact = observations.double()
    wrong = (exact - exact.float().double()).abs().amax(0)
    spread = exact.std(0, correction=0)
    (columns,) = ((wrong > COARSE * spread) & (spread > 0)).nonzero(as_tuple=True)
    if not len(columns):
        return None
    first = int(columns[0])
    more = f" and {len(columns) - 1} more" if len(columns) > 1 else ""
    return (
        f"number {first}{more} of the observations, such as {exact[0, first]:.12g}, is rounded by up to "
        f"{wrong[first]:.3g} in float32, in which networks compute: with normalise_observations=True its mean is "
        "subtracted first"
    )


def check_statistics(statistics: Mapping[str, float], policy: str, when: str) -> None:
    """Raises `NotFiniteError`, which names the update and the policy, unless all statistics of updates are finite."""
    wrong = [f"{name} is {value}" for name, value in statistics.items() if not math.isfinite(value)]
    if wrong:
        whose = f" of policy {policy!r}" if policy else ""
        raise NotFiniteError(f"after the updates{whose} {when}, {', '.join(wrong)}")


@contextmanager
def naming_what_is_kept(folder: Path) -> Iterator[None]:
    """Adds the run's last checkpoint to the message of a `NotFiniteError` that is raised within this context."""
    try:
        yield
    except NotFiniteError as error:
        kept = newest_learnt(folder)
        state = "nothing had been learnt before" if kept is None else f"the last good state is {kept}"
        raise NotFiniteError(f"{error}; {state}") from error


def _first(values: Tensor) -> tuple[list[int], float]:
    place = (~values.isfinite()).nonzero()[0].tolist()
    return place, values[tuple(place)].item()
