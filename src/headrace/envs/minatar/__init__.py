"""Two of MinAtar's arcade games, as kernel environments: small enough to experiment with, still games.

MinAtar (Young and Tian, "MinAtar: An Atari-inspired testbed for thorough and reproducible
reinforcement learning experiments", arXiv 1903.03176) keeps what makes an Atari game hard to
play and leaves out what makes it hard to see: a screen is 10 × 10 cells, with a channel of
zeros and ones for each kind of object. The rules here are those of its package, version
1.0.15, followed step by step; the code is our own.

Observations are uint8 [channels, 10, 10], zeros and ones: what convolutions want, here and in
PyTorch. MinAtar's own layout, [10, 10, channels], is a view of it: ``np.moveaxis(obs, 1, -1)``.
Version v0 of a task takes MinAtar's six actions (none, left, up, right, down, fire),
version v1 only those that do something in its game. A game has no limit of steps unless one
is asked for, and a good player of Breakout may never lose: give ``max_episode_steps`` a value
where every episode must end.

An episode begins with "none" as the action that stickiness may repeat. MinAtar lets the last
action of the episode before stand, which would make an episode depend on what came before its seed.
"""

from __future__ import annotations

import importlib
from typing import Any

from headrace.pool.task import Task

_MODULES = {
    "MinAtar-Breakout-v0": "breakout",
    "MinAtar-Breakout-v1": "breakout",
    "MinAtar-SpaceInvaders-v0": "space_invaders",
    "MinAtar-SpaceInvaders-v1": "space_invaders",
}
TASKS: tuple[str, ...] = tuple(_MODULES)


def build(task: str, **options: Any) -> Task:
    """The task of this name.

    Args:
        task: one of `TASKS`.
        options: ``sticky_action_prob`` (0.1; how likely the last action is repeated instead of the one
            given), ``max_episode_steps`` (0 for never), and for Space Invaders ``difficulty_ramping``
            (True; each wave moves sooner than the last).

    Raises:
        OptionError: an option is unknown, or its value is of the wrong type or out of range.
    """
    return importlib.import_module(f"{__name__}.{_MODULES[task]}").TASKS[task](task, **options)
