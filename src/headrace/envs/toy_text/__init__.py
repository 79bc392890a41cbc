"""The toy text problems, small enough to be solved by hand, as kernel environments.

Dynamics are Gymnasium's, or, where Gymnasium has no such task, those of bsuite (Catch) and of
old OpenAI Gym (NChain). Names, defaults and the layout of observations are EnvPool's, so that
its programs run unchanged; Gymnasium's options and info fields are there as well. The ways in which
that differs from Gymnasium: states are int32 (Gymnasium's are int64), Blackjack's hand is an array
of three numbers (Gymnasium's is a tuple), and Catch, the cliff and Blackjack have no time limit (0).

Naming the tasks costs nothing: a file, and with it Warp, is imported when its task is first built.
"""

from __future__ import annotations

import importlib
from typing import Any

from headrace.pool.task import Task

_MODULES = {
    "Catch-v0": "catch",
    "FrozenLake-v1": "frozen_lake",
    "FrozenLake8x8-v1": "frozen_lake",
    "Taxi-v3": "taxi",
    "Taxi-v4": "taxi",
    "NChain-v0": "nchain",
    "CliffWalking-v0": "cliff_walking",
    "CliffWalking-v1": "cliff_walking",
    "CliffWalkingSlippery-v1": "cliff_walking",
    "Blackjack-v1": "blackjack",
}
TASKS: tuple[str, ...] = tuple(_MODULES)


def build(task: str, **options: Any) -> Task:
    """The task of this name; its module says which options there are.

    Raises:
        OptionError: an option is unknown, or its value does not fit.
    """
    return importlib.import_module(f"{__name__}.{_MODULES[task]}").TASKS[task](task, **options)
