"""Catch: move a paddle under a falling ball.

The game and its rules are those of bsuite (Osband et al., "Behaviour suite for reinforcement learning", 2020).
The ball starts in a random column of the top row and falls one row per step; the paddle starts in the middle
of the bottom row. Actions 0, 1 and 2 move the paddle left, not at all, and right. When the ball reaches the
bottom row, the reward is 1 if the paddle is there and -1 otherwise, and the episode ends. Observations are
the board, float32[height, width], with 1 at the ball and the paddle and 0 elsewhere.

Options: EnvPool's ``height`` and ``width`` of the board (bsuite's rows and columns).
"""

# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false

from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np
import warp as wp

from headrace.envs.drawing import box
from headrace.envs.toy_text import tiles
from headrace.pool.executors.kernels import KernelEnv, KernelTask, Option, Streams, integers
from headrace.pool.executors.kernels.program import NOT_NEGATIVE

SIDE = 1024
OPTIONS = {"height": Option(10, 2, SIDE), "width": Option(5, 1, SIDE)}
SKY, CELL, BALL, PADDLE = (24, 30, 44), (34, 42, 60), (250, 180, 70), (120, 200, 250)


@wp.struct
class State:
    """The ball's column and row and the paddle's column; row 0 is the top."""

    ball_x: wp.array[wp.int32]
    ball_y: wp.array[wp.int32]
    paddle_x: wp.array[wp.int32]
    height: wp.int32
    width: wp.int32


@wp.struct
class View:
    obs: wp.array3d[wp.float32]


@wp.func
def reset(state: State, env: int, streams: Streams):
    state.ball_x[env] = integers(streams, env, 0, state.width)
    state.ball_y[env] = wp.int32(0)
    state.paddle_x[env] = state.width / 2


@wp.func
def step(state: State, env: int, actions: wp.array[wp.int64], row: int, streams: Streams):
    paddle = wp.clamp(state.paddle_x[env] + wp.int32(actions[row]) - 1, 0, state.width - 1)
    ball_y = wp.min(state.ball_y[env] + 1, state.height - 1)
    state.paddle_x[env] = paddle
    state.ball_y[env] = ball_y
    landed = ball_y == state.height - 1
    reward = wp.float32(0.0)
    if landed:
        reward = wp.where(paddle == state.ball_x[env], wp.float32(1.0), wp.float32(-1.0))
    return reward, landed


@wp.func
def observe(state: State, env: int, view: View, row: int):
    board = view.obs[row]
    y = wp.int32(0)
    while y < state.height:  # range() takes 1.5 times as long
        x = wp.int32(0)
        while x < state.width:
            board[y & NOT_NEGATIVE, x & NOT_NEGATIVE] = wp.float32(0.0)
            x += 1
        y += 1
    view.obs[row, state.ball_y[env], state.ball_x[env]] = wp.float32(1.0)
    view.obs[row, state.height - 1, state.paddle_x[env]] = wp.float32(1.0)


def render(state: Mapping[str, Any]) -> np.ndarray:
    height, width = state["height"], state["width"]
    grid = tiles.Grid(height, width, SKY)
    for y in range(height):
        for x in range(width):
            grid.tile(y, x, CELL)
    half = 0.45 * grid.side
    at = grid.center(height - 1, int(state["paddle_x"]))
    grid.canvas.polygon(box(-half, half, -half, -half / 3, at=at), PADDLE)
    grid.canvas.circle(grid.center(int(state["ball_y"]), int(state["ball_x"])), 0.3 * grid.side, BALL)
    return grid.canvas.array()


def bounds(scalars: Mapping[str, Any]) -> dict[str, tuple[int, int]]:
    """Returns the bounds of the state for a board's size."""
    columns = (0, scalars["width"] - 1)
    return {"ball_x": columns, "ball_y": (0, scalars["height"] - 1), "paddle_x": columns}


TASKS = {
    "Catch-v0": KernelTask(
        KernelEnv("Catch", State, View, reset, step, observe, render, bounds=bounds),
        lambda options: gym.spaces.Box(0.0, 1.0, (options["height"], options["width"]), np.float32),
        gym.spaces.Discrete(3),
        options=OPTIONS,
        render_fps=4,
    )
}
