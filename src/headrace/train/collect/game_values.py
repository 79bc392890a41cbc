"""Rewards and ends of whole games, for tasks that clip rewards or whose episodes are single lives."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from headrace.pool.spec import TaskSpec


def game_value(
    spec: TaskSpec, info: Mapping[str, Any], name: str, over: np.ndarray, otherwise: np.ndarray
) -> np.ndarray:
    """Returns a value of a step by the rules of the game itself, [N].

    Args:
        spec: the pool's task, which declares the value if it has it; an environment's own key of this name is another.
        info: the info of the step, whose arrays have N rows.
        name: the name of the value: ``"reward"`` or ``"terminated"``.
        over: where an episode has ended, bool[N].
        otherwise: the pool's value, [N], which is returned if the task declares no such value.
    """
    if not spec.declares(name):
        return otherwise
    # after an autoreset, info belongs to the new episode, and final_info to the step that ended the previous one
    final = info.get("final_info", {})
    return np.where(over, final[name], info[name]) if name in final else info[name]


def game_over(spec: TaskSpec, terminated: np.ndarray, truncated: np.ndarray, info: Mapping[str, Any]) -> np.ndarray:
    """Returns where a whole game is over, and not only one of its lives, bool[N].

    Args:
        spec, info: as for `game_value`.
        terminated, truncated: the pool's results, bool[N].
    """
    return game_value(spec, info, "terminated", terminated | truncated, terminated).astype(bool) | truncated
