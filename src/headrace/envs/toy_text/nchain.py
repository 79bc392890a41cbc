"""NChain: advance along a chain to a large reward at its end, or return to its start for a small reward.

The problem is from Strens, "A Bayesian framework for reinforcement learning" (ICML 2000), with the rules of
OpenAI Gym's ``nchain.py``. Action 0 moves to the next link, action 1 back to the first link; with probability
``slip``, the other action is taken. Action 0 at the last link stays there and earns ``large``; action 1
always earns ``small``. Observations are the link's number as int32. Episodes never terminate; they are
truncated by their time limit.

Options: ``n`` (the number of links), ``slip``, ``small`` and ``large``, as in Gym.
"""

# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false

from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np
import warp as wp

from headrace.envs.drawing import BLACK, WHITE
from headrace.envs.toy_text import tiles
from headrace.pool.executors.kernels import KernelEnv, KernelTask, Option, Streams, decimal, uniform

OPTIONS = {"n": Option(5, 1), "slip": Option(0.2, 0.0, 1.0), "small": decimal(2.0), "large": decimal(10.0)}
MOST_DRAWN = 32

BACK, AHEAD, GOLD = (226, 233, 240), (120, 140, 160), (240, 190, 60)


@wp.struct
class State:
    """The number of the agent's link, 0 … n − 1."""

    link: wp.array[wp.int32]
    n: wp.int32
    slip: wp.float64
    small: wp.float32
    large: wp.float32


@wp.struct
class View:
    obs: wp.array[wp.int32]


@wp.func
def reset(state: State, env: int, streams: Streams):
    state.link[env] = wp.int32(0)


@wp.func
def step(state: State, env: int, actions: wp.array[wp.int64], row: int, streams: Streams):
    slips = uniform(streams, env, wp.float64(0.0), wp.float64(1.0)) < state.slip
    link = state.link[env]
    reward = wp.float32(0.0)
    if (actions[row] == wp.int64(1)) != slips:
        link = wp.int32(0)
        reward = state.small
    elif link < state.n - 1:
        link = link + 1
    else:
        reward = state.large
    state.link[env] = link
    return reward, wp.bool(False)


@wp.func
def observe(state: State, env: int, view: View, row: int):
    view.obs[row] = state.link[env]


def render(state: Mapping[str, Any]) -> np.ndarray:
    """Returns a frame of the chain, uint8[height, width, 3]; of a long chain, only the links around the agent's."""
    n, link = state["n"], int(state["link"])
    shown = min(n, MOST_DRAWN)
    first = min(max(link - shown // 2, 0), n - shown)
    grid = tiles.Grid(2, max(shown, 3), WHITE)
    offset = (max(shown, 3) - shown) / 2
    for number in range(first, first + shown):
        x, y = grid.center(1, number - first + offset)
        if number < n - 1:
            grid.canvas.line([(x, y), (x + grid.side, y)], AHEAD, 0.08 * grid.side)
        grid.canvas.circle((x, y), 0.42 * grid.side, AHEAD)
        grid.canvas.circle((x, y), 0.36 * grid.side, GOLD if number == n - 1 else BACK)
        grid.canvas.text((x, y), str(number), 0.3 * grid.side, BLACK)
    grid.figure(0, link - first + offset)
    return grid.canvas.array()


TASKS = {
    "NChain-v0": KernelTask(
        KernelEnv("NChain", State, View, reset, step, observe, render, bounds=lambda s: {"link": (0, s["n"] - 1)}),
        lambda options: gym.spaces.Discrete(options["n"], dtype=np.int32),
        gym.spaces.Discrete(2),
        options=OPTIONS,
        max_episode_steps=1000,
        render_fps=4,
    )
}
