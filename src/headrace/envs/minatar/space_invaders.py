"""MinAtar's Space Invaders: shoot the aliens before they land, and keep out of the way of their bombs.

Aliens march sideways in formation; at the screen's edge they turn round and come a row nearer. They
march once in as many steps as there are aliens left, but at least once in 12; with ramping, each
wave that is cleared makes that one step fewer, down to 6. Every 10 steps the alien nearest to
the cannon's column, the lowest of it, drops a bomb. The cannon can fire once in 5 steps. Shots and
bombs fly a cell a step. An alien shot earns 1. The episode ends when a bomb or an alien reaches the
cannon, or when the formation would march on from the lowest row.
"""

# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false
# pyright: reportInvalidTypeForm=false

from collections.abc import Mapping
from typing import Any

import numpy as np
import warp as wp

from headrace.envs.minatar.common import (
    FIRE,
    LAST,
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
from headrace.pool.executors.kernels import KernelEnv, Streams

CANNON, ALIEN, ALIEN_LEFT, ALIEN_RIGHT, SHOT, BOMB = (wp.constant(channel) for channel in range(6))
CANNON_COLOR, SHOT_COLOR, BOMB_COLOR = (92, 190, 255), (255, 255, 255), (255, 196, 64)
LEFTWARD_COLOR, RIGHTWARD_COLOR = (186, 104, 220), (96, 190, 120)

START = wp.constant(5)
WAVE_ROW = wp.constant(0b0011111100)  # columns 2 to 7
WAVE_ROWS = wp.constant(4)
MARCH_INTERVAL = wp.constant(12)
FASTEST_INTERVAL = wp.constant(6)
BOMB_INTERVAL = wp.constant(10)
RELOAD = wp.constant(5)

Rows = wp.types.vector(SIZE, wp.int32)


@wp.struct
class State:
    """Screens are ten rows of bits; ``direction`` is -1 for left; all times are steps.

    ``march_interval`` is the most steps between two marches, ``march_in``, ``bomb_in`` and ``reload`` those left.
    """

    cannon: wp.array[wp.int32]
    aliens: wp.array[Rows]
    shots: wp.array[Rows]
    bombs: wp.array[Rows]
    direction: wp.array[wp.int32]
    march_interval: wp.array[wp.int32]
    march_in: wp.array[wp.int32]
    bomb_in: wp.array[wp.int32]
    reload: wp.array[wp.int32]
    last_action: wp.array[wp.int32]
    action_set: wp.array[wp.int32]
    sticky_action_prob: wp.float64
    difficulty_ramping: wp.bool


@wp.func
def wave() -> Rows:
    """A whole formation."""
    aliens = Rows()
    for y in range(WAVE_ROWS):
        aliens[y] = WAVE_ROW
    return aliens


@wp.func
def reset(state: State, env: int, streams: Streams):
    state.cannon[env] = START
    state.aliens[env] = wave()
    state.shots[env] = Rows()
    state.bombs[env] = Rows()
    state.direction[env] = -1
    state.march_interval[env] = MARCH_INTERVAL
    state.march_in[env] = MARCH_INTERVAL
    state.bomb_in[env] = BOMB_INTERVAL
    state.reload[env] = 0
    state.last_action[env] = NONE


@wp.func
def raised(rows: Rows) -> Rows:
    """All rows one higher; the uppermost is lost."""
    result = Rows()
    for y in range(SIZE - 1):
        result[y] = rows[y + 1]
    return result


@wp.func
def lowered(rows: Rows, first: int) -> Rows:
    """All rows one lower, and ``first`` above them."""
    result = Rows()
    result[0] = first
    for y in range(SIZE - 1):
        result[y + 1] = rows[y]
    return result


@wp.func
def shifted(rows: Rows, direction: int) -> Rows:
    """All columns one to the side; nothing may be at the edge there."""
    result = Rows()
    for y in range(SIZE):
        result[y] = wp.where(direction > 0, rows[y] << 1, rows[y] >> 1)
    return result


@wp.func
def union(rows: Rows) -> int:
    """The columns in which anything is."""
    columns = int(0)
    for y in range(SIZE):
        columns = columns | rows[y]
    return columns


@wp.func
def count(rows: Rows) -> int:
    total = int(0)
    for y in range(SIZE):
        total += wp.bit_count(rows[y])
    return total


@wp.func
def nearest_column(columns: int, x: int) -> int:
    """The bit of the column nearest to x among those set; of two, the left one."""
    for distance in range(SIZE):
        left = (1 << x) >> distance
        if (columns & left) != 0:
            return left
        right = (1 << x) << distance
        if (columns & right) != 0:
            return right
    return 0


@wp.func
def lowest_row(rows: Rows, column: int) -> int:
    """The lowest row that has this column's bit."""
    lowest = int(0)
    for y in range(SIZE):
        if (rows[y] & column) != 0:
            lowest = y
    return lowest


@wp.func
def march(state: State, env: int, aliens: Rows, here: int):
    """The formation after a step; and whether it came upon the cannon, or would march on from the lowest row."""
    march_in = state.march_in[env]
    landed = wp.bool(False)
    if march_in == 0:
        march_in = wp.min(count(aliens), state.march_interval[env])
        direction = state.direction[env]
        if (union(aliens) & wp.where(direction > 0, 1 << LAST, 1)) != 0:
            state.direction[env] = -direction
            landed = aliens[LAST] != 0
            aliens = lowered(aliens, aliens[LAST])  # as MinAtar shows it: what leaves the screen is at its top
        else:
            aliens = shifted(aliens, direction)
        landed = landed or (aliens[LAST] & here) != 0
    state.march_in[env] = march_in - 1
    return aliens, landed


@wp.func
def bomb_column(state: State, env: int, aliens: Rows, cannon: int) -> int:
    """The bit of the column in which a bomb is dropped in this step; 0 for none."""
    bomb_in = state.bomb_in[env]
    column = int(0)
    if bomb_in == 0:
        bomb_in = BOMB_INTERVAL
        column = nearest_column(union(aliens), cannon)
    state.bomb_in[env] = bomb_in - 1
    return column


@wp.func
def step(state: State, env: int, actions: wp.array[wp.int64], row: int, streams: Streams):
    action = action_taken(state, env, actions, row, streams)
    cannon = moved(state.cannon[env], action)
    state.cannon[env] = cannon
    here = 1 << cannon

    reload = state.reload[env]
    shots = raised(state.shots[env])
    if action == FIRE and reload == 0:
        shots[LAST - 1] = here
        reload = RELOAD
    state.reload[env] = wp.max(reload - 1, 0)

    bombs = lowered(state.bombs[env], 0)
    aliens = state.aliens[env]
    terminated = ((bombs[LAST] | aliens[LAST]) & here) != 0
    aliens, landed = march(state, env, aliens, here)
    column = bomb_column(state, env, aliens, cannon)
    if column != 0:
        lowest = lowest_row(aliens, column)
        bombs[lowest] = bombs[lowest] | column
    state.bombs[env] = bombs

    kills = int(0)
    for y in range(SIZE):
        hit = aliens[y] & shots[y]
        kills += wp.bit_count(hit)
        aliens[y] = aliens[y] ^ hit
        shots[y] = shots[y] ^ hit
    if union(aliens) == 0:
        aliens = wave()
        if state.difficulty_ramping:
            state.march_interval[env] = wp.max(state.march_interval[env] - 1, FASTEST_INTERVAL)
    state.aliens[env] = aliens
    state.shots[env] = shots
    return wp.float32(kills), terminated or landed


@wp.func
def observe(state: State, env: int, view: View, row: int):
    screen = view.obs[row]  # not looked up again for every cell
    cannon = wp.vec2i(state.cannon[env], LAST)
    leftward = state.direction[env] < 0
    aliens = state.aliens[env]
    shots = state.shots[env]
    bombs = state.bombs[env]
    y = int(0)
    while y < SIZE:  # range() would be unrolled
        show_row(screen, CANNON, y, cell(cannon, y))
        show_row(screen, ALIEN, y, aliens[y])
        show_row(screen, ALIEN_LEFT, y, wp.where(leftward, aliens[y], 0))
        show_row(screen, ALIEN_RIGHT, y, wp.where(leftward, 0, aliens[y]))
        show_row(screen, SHOT, y, shots[y])
        show_row(screen, BOMB, y, bombs[y])
        y += 1


def render(state: Mapping[str, Any]) -> np.ndarray:
    return draw(
        (unpacked(state["aliens"]), LEFTWARD_COLOR if state["direction"] < 0 else RIGHTWARD_COLOR),
        (unpacked(state["shots"]), SHOT_COLOR),
        (unpacked(state["bombs"]), BOMB_COLOR),
        (at(state["cannon"], LAST), CANNON_COLOR),
    )


GAME = KernelEnv("MinAtarSpaceInvaders", State, View, reset, step, observe, render)
TASKS = versions("SpaceInvaders", GAME, 6, (NONE, LEFT, RIGHT, FIRE), difficulty_ramping=True)
