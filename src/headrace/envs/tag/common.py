"""Code that both games of tag share: the elapsed time, and the earlier positions for rendering."""

# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false

from collections.abc import Mapping
from typing import Any

import numpy as np
import warp as wp


@wp.func
def time_of(state: Any, env: int) -> float:
    """Returns the elapsed fraction of the episode's time limit, in [0, 1]; 0 if there is no limit."""
    if state.max_episode_steps == 0:
        return 0.0
    return float(state.t[env]) / float(state.max_episode_steps)


MOST_STEPS = 1 << 30  # of a saved state: ``t``, which is an index, does not overflow


def remembered(state: Mapping[str, Any]) -> np.ndarray:
    """Returns the stored earlier positions of one environment, [steps, …], oldest first.

    Step ``t``'s positions are stored in ``was_at[t % trail]``.
    """
    t, trail = int(state["t"]), state["trail"]
    return state["was_at"][np.arange(max(t - trail, 0), t) % max(trail, 1)]
