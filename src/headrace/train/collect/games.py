"""What is the game's own, where a task rewards or ends otherwise: clipped rewards, and episodes of a single life."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np


def of_the_game(info: Mapping[str, Any], name: str, over: np.ndarray, otherwise: np.ndarray) -> np.ndarray:
    """Returns the game's own value of a step, [N].

    Args:
        info: of the step.
        name: of the value, "reward" or "terminated".
        over: where an episode has ended, bool[N].
        otherwise: the pool's value, of tasks that have no other.
    """
    # a finished row carries the new episode's info; the old one's is beside it
    final = info.get("final_info", {})
    return np.where(over, final[name], info[name]) if name in final else info.get(name, otherwise)


def game_over(terminated: np.ndarray, truncated: np.ndarray, info: Mapping[str, Any]) -> np.ndarray:
    """Returns where a whole game is over, and not only one of its lives, bool[N]; see `of_the_game`."""
    return of_the_game(info, "terminated", terminated | truncated, terminated).astype(bool) | truncated
