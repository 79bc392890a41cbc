"""MinAtar's Freeway: cross a road of eight lanes again and again.

In each lane a car drives along, all the way round, one cell every 1 to 5 steps. The chicken walks up or down, at most
once every 3 steps. At the top it earns 1, starts again at the bottom, and all cars get new speeds and directions. A car
that hits it sends it back to the bottom. The episode ends after 2,501 steps.
"""

# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false
# pyright: reportInvalidTypeForm=false

from collections.abc import Mapping
from typing import Any

import numpy as np
import warp as wp

from headrace.envs.minatar.common import (
    DOWN,
    LAST,
    LAST_ACTIONS,
    NONE,
    SIZE,
    UP,
    View,
    action_taken,
    at,
    cell,
    draw,
    show_row,
    unpacked,
    versions,
)
from headrace.pool.executors.kernels import KernelEnv, Streams, integers

CHICKEN, CAR, TRAILS = (wp.constant(channel) for channel in range(3))  # a channel of trails for each speed
CHICKEN_COLOR, CAR_COLOR, TRAIL_COLOR = (255, 232, 140), (226, 98, 72), (104, 98, 88)

COLUMN = wp.constant(4)  # the chicken's
LANES = wp.constant(8)
FIRST_LANE = wp.constant(1)  # the row of the first one
SLOWEST = wp.constant(5)  # steps a cell
WALK_INTERVAL = wp.constant(3)
TIME = wp.constant(2500)

Lanes = wp.types.vector(8, wp.int32)


@wp.struct
class State:
    """The state of the game; times are in steps.

    ``chicken`` is its row. Of the cars in the eight lanes: ``columns``; ``periods``, the steps for each cell, negative
    for cars that drive to the left; and ``moves_in``, the times until each moves. ``walks_in`` is the time until the
    chicken can move again, and ``time_left`` until the episode ends.
    """

    chicken: wp.array[wp.int32]
    columns: wp.array[Lanes]
    periods: wp.array[Lanes]
    moves_in: wp.array[Lanes]
    walks_in: wp.array[wp.int32]
    time_left: wp.array[wp.int32]
    last_action: wp.array[wp.int32]
    action_set: wp.array[wp.int32]
    sticky_action_prob: wp.float64


@wp.func
def new_speeds(state: State, env: int, streams: Streams):
    periods, moves_in = Lanes(), Lanes()
    for lane in range(LANES):
        steps = integers(streams, env, 1, SLOWEST + 1)
        periods[lane] = wp.where(integers(streams, env, 0, 2) == 1, steps, -steps)
        moves_in[lane] = steps
    state.periods[env] = periods
    state.moves_in[env] = moves_in


@wp.func
def reset(state: State, env: int, streams: Streams):
    new_speeds(state, env, streams)
    state.chicken[env] = LAST
    state.columns[env] = Lanes()
    state.walks_in[env] = WALK_INTERVAL
    state.time_left[env] = TIME
    state.last_action[env] = NONE


@wp.func
def step(state: State, env: int, actions: wp.array[wp.int64], row: int, streams: Streams):
    action = action_taken(state, env, actions, row, streams)
    chicken = state.chicken[env]
    walks_in = state.walks_in[env]
    way = wp.where(action == UP, -1, wp.where(action == DOWN, 1, 0))
    if walks_in == 0 and way != 0:
        walks_in = WALK_INTERVAL
        chicken = wp.clamp(chicken + way, 0, LAST)
    state.walks_in[env] = wp.max(walks_in - 1, 0)

    reward = wp.float32(0.0)
    if chicken == 0:
        reward = wp.float32(1.0)
        chicken = LAST
        new_speeds(state, env, streams)

    columns = state.columns[env]
    periods = state.periods[env]
    moves_in = state.moves_in[env]
    hit = wp.bool(False)
    for lane in range(LANES):
        here = chicken == FIRST_LANE + lane
        hit = hit or (here and columns[lane] == COLUMN)
        moves_in[lane] -= 1
        if moves_in[lane] < 0:
            moves_in[lane] = wp.abs(periods[lane])
            columns[lane] = (columns[lane] + wp.where(periods[lane] > 0, 1, LAST)) % SIZE
            hit = hit or (here and columns[lane] == COLUMN)
    state.columns[env] = columns
    state.moves_in[env] = moves_in
    state.chicken[env] = wp.where(hit, LAST, chicken)
    state.time_left[env] -= 1
    return reward, state.time_left[env] < 0


@wp.func
def observe(state: State, env: int, view: View, row: int):
    screen = view.obs[row]  # once, not for every cell
    chicken = wp.vec2i(COLUMN, state.chicken[env])
    columns = state.columns[env]
    periods = state.periods[env]
    y = int(0)
    while y < SIZE:  # range() would be unrolled
        car, behind, steps = int(0), int(0), int(0)
        if y >= FIRST_LANE and y < FIRST_LANE + LANES:
            lane = y - FIRST_LANE
            steps = wp.abs(periods[lane])
            car = 1 << columns[lane]
            behind = 1 << ((columns[lane] + wp.where(periods[lane] > 0, LAST, 1)) % SIZE)
        show_row(screen, CHICKEN, y, cell(chicken, y))
        show_row(screen, CAR, y, car)
        for speed in range(SLOWEST):
            show_row(screen, TRAILS + speed, y, wp.where(steps == speed + 1, behind, 0))
        y += 1


def render(state: Mapping[str, Any]) -> np.ndarray:
    cars, trails = np.zeros((2, SIZE), np.int64)
    lanes = slice(FIRST_LANE, FIRST_LANE + LANES)
    columns = state["columns"].astype(np.int64)
    cars[lanes] = 1 << columns
    trails[lanes] = 1 << (columns - np.sign(state["periods"])) % SIZE
    return draw(
        (unpacked(trails), TRAIL_COLOR),
        (unpacked(cars), CAR_COLOR),
        (at(COLUMN, state["chicken"]), CHICKEN_COLOR),
    )


BOUNDS = {
    "chicken": (0, LAST),
    "columns": (0, LAST),
    "periods": (-SLOWEST, SLOWEST),
    "moves_in": (0, SLOWEST),
    "walks_in": (0, WALK_INTERVAL),
    "time_left": (-1, TIME),
    "last_action": LAST_ACTIONS,
}
GAME = KernelEnv("MinAtarFreeway", State, View, reset, step, observe, render, bounds=BOUNDS)
TASKS = versions("Freeway", GAME, 7, (NONE, UP, DOWN))
