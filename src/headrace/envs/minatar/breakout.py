"""MinAtar's Breakout: break three rows of bricks with a ball, and keep the ball from reaching the floor.

The ball moves diagonally, one cell per step. When it hits a brick, the brick is removed, the reward is 1 and
the ball bounces back vertically. After a hit, the ball passes through bricks until it has spent a step in a
cell without one. The paddle reflects the ball vertically and, if the paddle is only at the ball's new column,
not at its old one, horizontally too. When all bricks are gone, a new wall appears as the ball next reaches the
bottom row. The episode ends when the ball reaches the floor.
"""

# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false

from collections.abc import Mapping
from typing import Any

import numpy as np
import warp as wp

from headrace.envs.minatar.common import (
    LAST,
    LAST_ACTIONS,
    LEFT,
    NONE,
    RIGHT,
    SIZE,
    View,
    action_taken,
    at,
    cell,
    draw,
    moved,
    show_row,
    unpacked,
    versions,
)
from headrace.pool.executors.kernels import KernelEnv, Streams, integers

PADDLE, BALL, TRAIL, BRICK = (wp.constant(channel) for channel in range(4))
PADDLE_COLOR, BALL_COLOR, TRAIL_COLOR, BRICK_COLOR = (92, 190, 255), (255, 255, 255), (120, 112, 96), (226, 98, 72)

TOP = wp.constant(1)  # the wall's first row
HEIGHT = wp.constant(3)  # rows
FULL_ROW = wp.constant((1 << SIZE) - 1)
WALL = wp.constant((1 << HEIGHT * SIZE) - 1)  # all bricks; the top row is in the lowest bits
START_ROW = wp.constant(3)
START_PADDLE = wp.constant(4)


@wp.struct
class State:
    """The state of the game; positions are (column, row), ``velocity`` is in cells per step.

    ``trail`` is the ball's previous position. ``wall`` has a bit for every brick. ``passing`` is whether the ball
    passes through bricks: from a hit until it is in a cell without one.
    """

    paddle: wp.array[wp.int32]
    ball: wp.array[wp.vec2i]
    trail: wp.array[wp.vec2i]
    velocity: wp.array[wp.vec2i]
    wall: wp.array[wp.int32]
    passing: wp.array[wp.bool]
    last_action: wp.array[wp.int32]
    action_set: wp.array[wp.int32]
    sticky_action_prob: wp.float64


@wp.func
def reset(state: State, env: int, streams: Streams):
    side = integers(streams, env, 0, 2)
    start = wp.vec2i(side * LAST, START_ROW)
    state.paddle[env] = START_PADDLE
    state.ball[env] = start
    state.trail[env] = start
    state.velocity[env] = wp.vec2i(1 - 2 * side, 1)
    state.wall[env] = WALL
    state.passing[env] = False
    state.last_action[env] = NONE


@wp.func
def wall_row(wall: int, y: int) -> int:
    """Returns the wall's bricks in row y of the screen, a bit per column."""
    if y < TOP or y >= TOP + HEIGHT:
        return 0
    return (wall >> ((y - TOP) * SIZE)) & FULL_ROW


@wp.func
def step(state: State, env: int, actions: wp.array[wp.int64], row: int, streams: Streams):
    action = action_taken(state, env, actions, row, streams)
    paddle = moved(state.paddle[env], action)
    state.paddle[env] = paddle

    ball = state.ball[env]
    velocity = state.velocity[env]
    wall = state.wall[env]
    dx, dy = velocity[0], velocity[1]
    x, y = ball[0] + dx, wp.min(ball[1] + dy, LAST)
    reward = wp.float32(0.0)
    terminated = wp.bool(False)
    passing = wp.bool(False)

    if x < 0 or x > LAST:
        x = ball[0]
        dx = -dx
    if y < 0:
        y = 0
        dy = -dy
    elif ((wall_row(wall, y) >> x) & 1) != 0:
        passing = True
        if not state.passing[env]:
            reward = wp.float32(1.0)
            wall = wall ^ (1 << ((y - TOP) * SIZE + x))
            y = ball[1]
            dy = -dy
    elif y == LAST:
        if wall == 0:
            wall = WALL
        if ball[0] == paddle or x == paddle:
            if ball[0] != paddle:
                dx = -dx
            y = ball[1]
            dy = -dy
        else:
            terminated = True

    state.trail[env] = ball
    state.ball[env] = wp.vec2i(x, y)
    state.velocity[env] = wp.vec2i(dx, dy)
    state.wall[env] = wall
    state.passing[env] = passing
    return reward, terminated


@wp.func
def observe(state: State, env: int, view: View, row: int):
    screen = view.obs[row]  # once, not for every cell
    paddle = wp.vec2i(state.paddle[env], LAST)
    ball = state.ball[env]
    trail = state.trail[env]
    wall = state.wall[env]
    y = int(0)
    while y < SIZE:  # range() would be unrolled
        show_row(screen, PADDLE, y, cell(paddle, y))
        show_row(screen, BALL, y, cell(ball, y))
        show_row(screen, TRAIL, y, cell(trail, y))
        show_row(screen, BRICK, y, wall_row(wall, y))
        y += 1


def render(state: Mapping[str, Any]) -> np.ndarray:
    wall = [wall_row(int(state["wall"]), y) for y in range(SIZE)]
    return draw(
        (unpacked(wall), BRICK_COLOR),
        (at(*state["trail"]), TRAIL_COLOR),
        (at(*state["ball"]), BALL_COLOR),
        (at(state["paddle"], LAST), PADDLE_COLOR),
    )


BOUNDS = {
    **dict.fromkeys(("paddle", "ball", "trail"), (0, LAST)),
    "velocity": (-1, 1),
    "wall": (0, WALL),
    "last_action": LAST_ACTIONS,
}
GAME = KernelEnv("MinAtarBreakout", State, View, reset, step, observe, render, bounds=BOUNDS)
TASKS = versions("Breakout", GAME, 4, (NONE, LEFT, RIGHT))
