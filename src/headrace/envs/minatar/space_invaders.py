"""MinAtar's Space Invaders: shoot the aliens before they land, and avoid their bombs.

Aliens march sideways in formation; at the edge of the screen they reverse direction and move one row down. The
number of steps between two marches is the number of aliens left, but at most 12; with ``difficulty_ramping``,
each cleared wave reduces that maximum by 1, down to 6. Every 10 steps, an alien drops a bomb: the lowest one in
the occupied column nearest to the cannon. The cannon can fire once every 5 steps. Shots and bombs move one cell
per step. Each alien shot earns 1. The episode ends when a bomb or an alien reaches the cannon, or when the
formation would move down from the bottom row.
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
    """The state of the game; ``aliens``, ``shots`` and ``bombs`` are ten rows of bits each, and times are in steps.

    ``direction`` is -1 (left) or 1. ``march_interval`` is the maximal time between two marches; ``march_in``,
    ``bomb_in`` and ``reload`` are the times until the next march, bomb and possible shot.
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
    """Returns a complete formation."""
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
    """Returns all rows moved up by one; the top row is dropped."""
    result = Rows()
    for y in range(SIZE - 1):
        result[y] = rows[y + 1]
    return result


@wp.func
def lowered(rows: Rows, first: int) -> Rows:
    """Returns all rows moved down by one, with ``first`` as the top row; the bottom row is dropped."""
    result = Rows()
    result[0] = first
    for y in range(SIZE - 1):
        result[y + 1] = rows[y]
    return result


@wp.func
def shifted(rows: Rows, direction: int) -> Rows:
    """Returns all columns moved by one to the side, where the edge column must be empty."""
    result = Rows()
    for y in range(SIZE):
        result[y] = wp.where(direction > 0, rows[y] << 1, rows[y] >> 1)
    return result


@wp.func
def union(rows: Rows) -> int:
    """Returns the bits of the columns that are occupied in any row."""
    columns = int(0)
    for y in range(SIZE):
        columns = columns | rows[y]
    return columns


@wp.func
def count(rows: Rows) -> int:
    """Returns the number of occupied cells."""
    total = int(0)
    for y in range(SIZE):
        total += wp.bit_count(rows[y])
    return total


@wp.func
def nearest_column(columns: int, x: int) -> int:
    """Returns the bit of the set column nearest to column x, the left one of two equally near; 0 if none is set."""
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
    """Returns the number of the lowest row in which the column's bit is set."""
    lowest = int(0)
    for y in range(SIZE):
        if (rows[y] & column) != 0:
            lowest = y
    return lowest


@wp.func
def march(state: State, env: int, aliens: Rows, here: int):
    """Returns the formation after a step, and whether it reached the cannon or would move down from the bottom row.

    ``here`` is the bit of the cannon's column.
    """
    march_in = state.march_in[env]
    landed = wp.bool(False)
    if march_in == 0:
        march_in = wp.min(count(aliens), state.march_interval[env])
        direction = state.direction[env]
        if (union(aliens) & wp.where(direction > 0, 1 << LAST, 1)) != 0:
            state.direction[env] = -direction
            landed = aliens[LAST] != 0
            aliens = lowered(aliens, aliens[LAST])  # as in MinAtar, the bottom row wraps to the top
        else:
            aliens = shifted(aliens, direction)
        landed = landed or (aliens[LAST] & here) != 0
    state.march_in[env] = march_in - 1
    return aliens, landed


@wp.func
def bomb_column(state: State, env: int, aliens: Rows, cannon: int) -> int:
    """Returns the bit of the column in which a bomb is dropped in this step, or 0."""
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
    screen = view.obs[row]  # once, not for every cell
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


BOUNDS = {
    "cannon": (0, LAST),
    **dict.fromkeys(("aliens", "shots", "bombs"), (0, (1 << SIZE) - 1)),
    "direction": (-1, 1),
    "march_interval": (FASTEST_INTERVAL, MARCH_INTERVAL),
    "march_in": (0, MARCH_INTERVAL),
    "bomb_in": (0, BOMB_INTERVAL),
    "reload": (0, RELOAD),
    "last_action": LAST_ACTIONS,
}
GAME = KernelEnv("MinAtarSpaceInvaders", State, View, reset, step, observe, render, bounds=BOUNDS)
TASKS = versions("SpaceInvaders", GAME, 6, (NONE, LEFT, RIGHT, FIRE), difficulty_ramping=True)
