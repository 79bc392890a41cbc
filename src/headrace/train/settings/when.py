"""Circumstances in which a run has a record of settings: its workers, its network, its task, or another setting."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from headrace.train.settings.kinds import NETWORKS


@dataclass(frozen=True)
class When:
    """A circumstance in which a run has a record of settings.

    Attributes:
        words: the circumstance, such as ``"with samplers"``.
        holds: whether it holds in a run; called with the run's settings.
        possible: whether it can hold in a run of an algorithm.
        setting: the setting that decides it; None for a circumstance that the task, the network or the workers decide.
    """

    words: str
    holds: Callable[[Any], bool]
    possible: Callable[[Any], bool] = lambda algorithm: True
    setting: str | None = None


def network(*settings: str) -> When:
    """Returns the circumstance that the network is of a kind that has one of these settings."""
    kinds = [name for name, kind in NETWORKS.items() if {*settings} & {*kind.settings}]
    words = f"with a network that is {' or '.join(kinds)}"
    return When(words, lambda run: run.fit.network in kinds, lambda algorithm: any(map(algorithm.has_network, kinds)))


def given(name: str, value: Any = True) -> When:
    """Returns the circumstance that a setting has this value, where True stands for every value that is true."""

    def holds(run: Any) -> bool:
        return bool(getattr(run, name)) if value is True else getattr(run, name) == value

    return When(f"with {name}" + ("" if value is True else f"={value!r}"), holds, setting=name)


IN_TURN = When("with samplers=0", lambda run: run.samplers <= 0)
"""the run collects and learns alternately, in one process for each device"""
WORKERS = When("with samplers", lambda run: run.samplers > 0, lambda algorithm: algorithm.has_workers)
MLP, LAYERS, CNN = network("shared"), network("hidden"), network("trunk")
CONTINUOUS = When(
    "with continuous actions", lambda run: run.fit.continuous, lambda algorithm: "continuous" in algorithm.action_kinds
)
ONE_AGENT = When("in tasks with one agent", lambda run: run.fit.alone)
