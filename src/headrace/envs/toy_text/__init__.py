"""The toy text problems, small enough to be solved by hand, as kernel environments.

Dynamics are those of Gymnasium or, for tasks that Gymnasium does not have, of bsuite (Catch) and of
OpenAI Gym (NChain). Names, defaults and the layout of observations are those of EnvPool, so that programs
written for EnvPool run unchanged; Gymnasium's options and info fields exist as well. Differences from
Gymnasium: states are int32 (Gymnasium: int64), Blackjack's observation is an array of three numbers
(Gymnasium: a tuple), and Catch, CliffWalking and Blackjack have no time limit (0).

A module, and with it Warp, is imported when one of its tasks is first built.
"""

from __future__ import annotations

import importlib
from typing import Any

from headrace.pool.family import Family
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
    """Returns the task of this name; its options are documented in its module.

    Raises:
        OptionError: an option is unknown, or its value is invalid.
    """
    return importlib.import_module(f"{__name__}.{_MODULES[task]}").TASKS[task](task, **options)


FAMILY = Family(
    "toy_text",
    TASKS,
    build,
    runs_on="Warp kernels, on CPUs and GPUs",
    meanings={
        "Catch-v0": ("←", "·", "→"),
        **dict.fromkeys(("FrozenLake-v1", "FrozenLake8x8-v1"), ("←", "↓", "→", "↑")),
        **{task: ("↑", "→", "↓", "←") for task in TASKS if task.startswith("CliffWalking")},
        **dict.fromkeys(("Taxi-v3", "Taxi-v4"), ("↓", "↑", "→", "←", "pick up", "drop off")),
        "NChain-v0": ("forward", "back"),
        "Blackjack-v1": ("stick", "hit"),
    },
    other_names={
        "tabular/Blackjack-v0": ("Blackjack-v1", {}),
        "tabular/CliffWalking-v0": ("CliffWalking-v0", {}),
    },
)
