"""Rewards and ends of whole games, for tasks that clip rewards or whose episodes are single lives."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np


def of_the_game(info: Mapping[str, Any], name: str, over: np.ndarray, otherwise: np.ndarray) -> np.ndarray:
    """Returns a value of a step by the rules of the game itself, [N].

    Args:
        info: the info of the step, whose arrays have N rows.
        name: the name of the value: ``"reward"`` or ``"terminated"``.
        over: where an episode has ended, bool[N].
        otherwise: the pool's value, [N], which is returned if ``info`` has no such value.
    """
    # after an autoreset, info belongs to the new episode, and final_info to the step that ended the previous one
    final = info.get("final_info", {})
    return np.where(over, final[name], info[name]) if name in final else info.get(name, otherwise)


def game_over(terminated: np.ndarray, truncated: np.ndarray, info: Mapping[str, Any]) -> np.ndarray:
    """Returns where a whole game is over, and not only one of its lives, bool[N].

    Args:
        terminated, truncated: the pool's results, bool[N].
        info: as for `of_the_game`.
    """
    return of_the_game(info, "terminated", terminated | truncated, terminated).astype(bool) | truncated
