"""Names of discrete actions, for displays of an agent's actions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium as gym

from headrace.envs import craftax, mpe

LEFT, DOWN, RIGHT, UP, STAY = "←", "↓", "→", "↑", "·"
ATARI = (
    "noop", "fire", UP, RIGHT, LEFT, DOWN, "↗", "↖", "↘", "↙", "↑ fire", "→ fire", "← fire", "↓ fire", "↗ fire",
    "↖ fire", "↘ fire", "↙ fire",
)  # fmt: skip
"""names of the console's joystick actions, indexed by the emulator's action numbers"""
_MINATAR = (STAY, LEFT, UP, RIGHT, DOWN, "fire")
_MINIGRID = ("turn left", "turn right", "forward", "pick up", "drop", "toggle", "done")
_NAMES: Mapping[str, tuple[str, ...]] = {
    "CartPole-v0": (LEFT, RIGHT),
    "CartPole-v1": (LEFT, RIGHT),
    "LunarLander-v3": (STAY, "left engine", "main engine", "right engine"),
    "CarRacing-v3": (STAY, RIGHT, LEFT, "gas", "brake"),
    "MountainCar-v0": (LEFT, STAY, RIGHT),
    "Acrobot-v1": ("↻", STAY, "↺"),
    "Catch-v0": (LEFT, STAY, RIGHT),
    "FrozenLake-v1": (LEFT, DOWN, RIGHT, UP),
    "FrozenLake8x8-v1": (LEFT, DOWN, RIGHT, UP),
    "CliffWalking-v0": (UP, RIGHT, DOWN, LEFT),
    "CliffWalking-v1": (UP, RIGHT, DOWN, LEFT),
    "CliffWalkingSlippery-v1": (UP, RIGHT, DOWN, LEFT),
    "Taxi-v3": (DOWN, UP, RIGHT, LEFT, "pick up", "drop off"),
    "Taxi-v4": (DOWN, UP, RIGHT, LEFT, "pick up", "drop off"),
    "NChain-v0": ("forward", "back"),
    "Blackjack-v1": ("stick", "hit"),
    **{f"MinAtar-{game}-v0": _MINATAR for game in ("Asterix", "Breakout", "Freeway", "Seaquest", "SpaceInvaders")},
    "MinAtar-Asterix-v1": _MINATAR[:-1],
    "MinAtar-Breakout-v1": (STAY, LEFT, RIGHT),
    "MinAtar-Freeway-v1": (STAY, UP, DOWN),
    "MinAtar-Seaquest-v1": _MINATAR,
    "MinAtar-SpaceInvaders-v1": (STAY, LEFT, RIGHT, "fire"),
    "Game2048-v0": (UP, RIGHT, DOWN, LEFT),
    "KuhnPoker-v0": ("check or fold", "bet or call"),
    "LeducPoker-v0": ("fold", "check or call", "raise"),
    **dict.fromkeys(craftax.TASKS, (STAY, LEFT, RIGHT, UP, DOWN, *craftax.ACTIONS[5:])),
    "TagGridWorld-v0": (STAY, RIGHT, LEFT, UP, DOWN),
    **dict.fromkeys(mpe.TASKS, (STAY, LEFT, RIGHT, DOWN, UP)),
}


def action_meanings(task: str, options: Mapping[str, Any], action: gym.Space) -> tuple[str, ...] | None:
    """Returns a name for each discrete action of an agent, or None if the action space is continuous.

    The names of a `MultiDiscrete` space are those of its components, concatenated. Actions that have no
    name are named by their numbers.

    Args:
        task: the task's name.
        options: the task's options, with their defaults filled in.
        action: the action space of one agent.
    """
    if isinstance(action, gym.spaces.MultiDiscrete):
        heads = zip(action.nvec.flat, action.start.flat, strict=True)
        return tuple(str(start + i) for size, start in heads for i in range(int(size)))
    if not isinstance(action, gym.spaces.Discrete):
        return None
    names = _NAMES.get(task) or (_MINIGRID[: int(action.n)] if task.startswith(("MiniGrid-", "BabyAI-")) else None)
    names = names or _of_console(task, options)
    if names is not None and len(names) == action.n:
        return names
    return tuple(str(int(action.start) + i) for i in range(int(action.n)))


def _of_console(task: str, options: Mapping[str, Any]) -> tuple[str, ...] | None:
    from headrace.envs import atari

    if task not in atari.TASKS:
        return None
    return tuple(ATARI[number] for number in atari.joystick_actions(task, bool(options.get("full_action_space"))))
