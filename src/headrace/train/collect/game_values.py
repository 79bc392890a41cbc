"""Rewards and ends of whole games, for tasks that clip rewards or whose episodes are single lives; other numbers that
environments report at the end of an episode; and lost steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from headrace.errors import OptionError
from headrace.pool.executors.processes.deaths import MARK
from headrace.pool.spec import TaskSpec
from headrace.train.settings.config import Config

SUCCESS = "is_success"
"""the number that is reported wherever an environment has it, as in Gymnasium-Robotics and stable-baselines3"""


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


def metric_names(config: Config) -> tuple[str, ...]:
    """Returns the names of the numbers in ``info`` that a run reports of finished episodes."""
    return tuple(dict.fromkeys((SUCCESS, *config.metrics)))


def reported(names: Sequence[str], info: Mapping[str, Any], over: np.ndarray) -> np.ndarray | None:
    """Returns the numbers that environments report with the last step of an episode.

    Args:
        names: keys of ``info``. Of an array for each environment, as of agents, the mean is taken.
        info: the info of the step, whose arrays have N rows.
        over: where an episode has ended, bool[N].

    Returns:
        For each name the number, and whether it was reported, float64[2 names, K] of the K episodes that have ended;
        None if none of them is there.

    Raises:
        OptionError: what an environment reports by one of the names is not a number.
    """
    final = info.get("final_info", info)
    if not any(name in final for name in names):
        return None
    found = np.zeros((len(names), 2, int(over.sum())))
    for name, (values, given) in zip(names, found, strict=True):
        if name not in final:
            continue
        given[:] = final[f"_{name}"][over] if f"_{name}" in final else 1.0
        told = np.asarray(final[name])[over][given > 0]
        try:
            values[given > 0] = told.astype(np.float64).reshape(len(told), -1).mean(1)
        except (TypeError, ValueError):
            if name == SUCCESS:  # nobody has asked for it
                given[:] = 0.0
                continue
            raise OptionError(f"metrics: info[{name!r}] must be a number, not {told[0]!r:.100}") from None
    return found.reshape(2 * len(names), -1)


def lost_steps(info: Mapping[str, Any]) -> np.ndarray | None:
    """Returns which steps of an info were lost with the process of their environment, bool[N]; None if none was.

    Their rows are truncated and have the first observation of another episode, also as their final one: what is known
    of the lost episode ends with the observation before.
    """
    return info.get(MARK)
