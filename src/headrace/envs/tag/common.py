"""What both games of tag share: their clock, and the places that are remembered for pictures."""

# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false

from collections.abc import Mapping
from typing import Any

import numpy as np
import warp as wp


@wp.func
def time_of(state: Any, env: int) -> float:
    """The share of the episode that has passed, in [0, 1]; 0 where it has no limit."""
    if state.max_episode_steps == 0:
        return 0.0
    return float(state.t[env]) / float(state.max_episode_steps)


def remembered(state: Mapping[str, Any]) -> np.ndarray:
    """The earlier places ``was_at[step % trail]`` of one environment, [steps, …], oldest first."""
    t, trail = int(state["t"]), state["trail"]
    return state["was_at"][np.arange(max(t - trail, 0), t) % max(trail, 1)]
