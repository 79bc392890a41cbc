"""MinAtar's five games, Asterix, Breakout, Freeway, Seaquest and Space Invaders, as kernel environments.

MinAtar (Young and Tian, "MinAtar: An Atari-inspired testbed for thorough and reproducible
reinforcement learning experiments", arXiv 1903.03176) reproduces the dynamics of Atari games in miniature,
without the difficulty of visual perception: a screen is 10 × 10 cells, with a binary channel for each kind of
object. The games follow the rules of its package, version 1.0.15, step by step, in an independent
implementation.

Observations are uint8[channels, 10, 10] of zeros and ones, the layout of PyTorch's convolutions. MinAtar's
layout, [10, 10, channels], is a view of it: ``np.moveaxis(obs, 1, -1)``. Version v0 of a task has MinAtar's
six actions (none, left, up, right, down, fire), version v1 only those that have an effect in its game.
Episodes have no time limit by default but that of Freeway's game, and those of a good player of Breakout may never
end; ``max_episode_steps`` sets a limit.

An episode begins with "none" as the last action, which a sticky action may repeat. MinAtar keeps the last
action of the previous episode, with which an episode would not be determined by its seed.
"""

from __future__ import annotations

import importlib
from typing import Any

from headrace.pool.family import Family
from headrace.pool.task import Task

_GAMES = {
    "Asterix": "asterix",
    "Breakout": "breakout",
    "Freeway": "freeway",
    "Seaquest": "seaquest",
    "SpaceInvaders": "space_invaders",
}
_MODULES = {f"MinAtar-{game}-{version}": module for game, module in _GAMES.items() for version in ("v0", "v1")}
TASKS: tuple[str, ...] = tuple(_MODULES)
_ACTIONS = ("·", "←", "↑", "→", "↓", "fire")


def build(task: str, **options: Any) -> Task:
    """Returns the task of this name.

    Args:
        task: one of `TASKS`.
        options: ``sticky_action_prob`` (0.1 by default; the probability that the last action is repeated
            instead of the given one), ``max_episode_steps`` (0 for no limit), and for Asterix, Seaquest and
            Space Invaders ``difficulty_ramping`` (True by default; the game becomes harder as it goes on).

    Raises:
        OptionError: an option is unknown, or its value is of the wrong type or out of range.
    """
    return importlib.import_module(f"{__name__}.{_MODULES[task]}").TASKS[task](task, **options)


FAMILY = Family(
    "minatar",
    TASKS,
    build,
    runs_on="Warp kernels, on CPUs and GPUs",
    presets="headrace.envs.minatar.presets:PRESETS",
    recipe=("pqn", "fast"),
    meanings={
        **{f"MinAtar-{game}-v0": _ACTIONS for game in _GAMES},
        "MinAtar-Asterix-v1": _ACTIONS[:-1],
        "MinAtar-Breakout-v1": ("·", "←", "→"),
        "MinAtar-Freeway-v1": ("·", "↑", "↓"),
        "MinAtar-Seaquest-v1": _ACTIONS,
        "MinAtar-SpaceInvaders-v1": ("·", "←", "→", "fire"),
    },
)
