"""MinAtar's Asterix: gather gold, and keep away from enemies.

Gold and enemies enter from both sides, in the eight rows between the first and the last one, each row holding at most
one of them, and leave at the other side. Every ``spawn_interval`` steps something enters a free row: gold one time in
three. All move one cell every ``move_interval`` steps. With ``difficulty_ramping``, about every hundred steps the
first interval becomes shorter by 1, and every other time the second one too, down to 1. Each piece of gold that the
player touches earns 1. The episode ends when an enemy and the player touch.
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
    LEFT,
    NONE,
    RIGHT,
    SIZE,
    UP,
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
from headrace.pool.executors.kernels import KernelEnv, Streams, integers, uniform

PLAYER, ENEMY, TRAIL, GOLD = (wp.constant(channel) for channel in range(4))
PLAYER_COLOR, ENEMY_COLOR, TRAIL_COLOR, GOLD_COLOR = (92, 190, 255), (226, 98, 72), (104, 98, 88), (255, 196, 64)

START = wp.constant(5)
TOP_ROW = wp.constant(1)
BOTTOM_ROW = wp.constant(8)
ROWS = wp.constant(8)
SPAWN_INTERVAL = wp.constant(10)
MOVE_INTERVAL = wp.constant(5)
RAMP_INTERVAL = wp.constant(100)
ABSENT = wp.constant(-1)

Columns = wp.types.vector(8, wp.int32)


@wp.struct
class State:
    """The state of the game; times are in steps.

    ``columns`` are those of what is in each of the eight rows, -1 in an empty one; ``rightward`` and ``gold`` have a
    bit for each row. ``spawn_in`` and ``move_in`` are the times until the next one enters and all move. ``ramp_in`` is
    the time until the game becomes harder, for the ``ramps``-th time.
    """

    player: wp.array[wp.vec2i]
    columns: wp.array[Columns]
    rightward: wp.array[wp.int32]
    gold: wp.array[wp.int32]
    spawn_interval: wp.array[wp.int32]
    spawn_in: wp.array[wp.int32]
    move_interval: wp.array[wp.int32]
    move_in: wp.array[wp.int32]
    ramp_in: wp.array[wp.int32]
    ramps: wp.array[wp.int32]
    last_action: wp.array[wp.int32]
    action_set: wp.array[wp.int32]
    sticky_action_prob: wp.float64
    difficulty_ramping: wp.bool


@wp.func
def reset(state: State, env: int, streams: Streams):
    columns = Columns()
    for row in range(ROWS):
        columns[row] = ABSENT
    state.player[env] = wp.vec2i(START, START)
    state.columns[env] = columns
    state.rightward[env] = 0
    state.gold[env] = 0
    state.spawn_interval[env] = SPAWN_INTERVAL
    state.spawn_in[env] = SPAWN_INTERVAL
    state.move_interval[env] = MOVE_INTERVAL
    state.move_in[env] = MOVE_INTERVAL
    state.ramp_in[env] = RAMP_INTERVAL
    state.ramps[env] = 0
    state.last_action[env] = NONE


@wp.func
def enter(state: State, env: int, streams: Streams):
    """Lets gold or an enemy enter a free row, if there is one."""
    columns = state.columns[env]
    free = int(0)
    for row in range(ROWS):
        free += wp.where(columns[row] == ABSENT, 1, 0)
    if free == 0:
        return
    rightward = integers(streams, env, 0, 2)
    gold = wp.where(uniform(streams, env, wp.float64(0.0), wp.float64(3.0)) < wp.float64(1.0), 1, 0)
    skip = integers(streams, env, 0, free)
    for row in range(ROWS):
        if columns[row] == ABSENT:
            if skip == 0:
                columns[row] = wp.where(rightward == 1, 0, LAST)
                state.rightward[env] = (state.rightward[env] & ~(1 << row)) | (rightward << row)
                state.gold[env] = (state.gold[env] & ~(1 << row)) | (gold << row)
            skip -= 1
    state.columns[env] = columns


@wp.func
def touched(columns: Columns, gold: int, player: wp.vec2i):
    """Returns the columns without gold that the player touches, the reward, and whether an enemy touches the player."""
    row = player[1] - TOP_ROW
    reward = float(0.0)
    dead = wp.bool(False)
    if columns[row] == player[0]:
        if ((gold >> row) & 1) != 0:
            columns[row] = ABSENT
            reward = 1.0
        else:
            dead = True
    return columns, reward, dead


@wp.func
def marched(columns: Columns, rightward: int) -> Columns:
    """Returns where all are after a move; those that left the screen are absent."""
    for row in range(ROWS):
        x = columns[row]
        if x != ABSENT:
            x += wp.where(((rightward >> row) & 1) != 0, 1, -1)
            columns[row] = wp.where(x > LAST, ABSENT, x)  # the column before the first one is ABSENT, too
    return columns


@wp.func
def ramp(state: State, env: int):
    """Makes the game harder when it is time."""
    spawn, move = state.spawn_interval[env], state.move_interval[env]
    if spawn > 1 or move > 1:
        if state.ramp_in[env] >= 0:
            state.ramp_in[env] -= 1
        else:
            ramps = state.ramps[env]
            if (ramps & 1) != 0:
                state.move_interval[env] = wp.max(move - 1, 1)
            state.spawn_interval[env] = wp.max(spawn - 1, 1)
            state.ramps[env] = ramps + 1
            state.ramp_in[env] = RAMP_INTERVAL


@wp.func
def step(state: State, env: int, actions: wp.array[wp.int64], row: int, streams: Streams):
    action = action_taken(state, env, actions, row, streams)
    if state.spawn_in[env] == 0:
        enter(state, env, streams)
        state.spawn_in[env] = state.spawn_interval[env]

    player = state.player[env]
    y = player[1] - wp.where(action == UP, 1, 0) + wp.where(action == DOWN, 1, 0)
    player = wp.vec2i(moved(player[0], action), wp.clamp(y, TOP_ROW, BOTTOM_ROW))
    state.player[env] = player

    columns, reward, terminated = touched(state.columns[env], state.gold[env], player)
    if state.move_in[env] == 0:
        state.move_in[env] = state.move_interval[env]
        columns = marched(columns, state.rightward[env])
        columns, more, dead = touched(columns, state.gold[env], player)
        reward += more
        terminated = terminated or dead
    state.columns[env] = columns

    state.spawn_in[env] -= 1
    state.move_in[env] -= 1
    if state.difficulty_ramping:
        ramp(state, env)
    return wp.float32(reward), terminated


@wp.func
def observe(state: State, env: int, view: View, row: int):
    screen = view.obs[row]  # once, not for every cell
    player = state.player[env]
    columns = state.columns[env]
    y = int(0)
    while y < SIZE:  # range() would be unrolled
        enemy, gold, trail = int(0), int(0), int(0)
        if y >= TOP_ROW and y <= BOTTOM_ROW:
            slot = y - TOP_ROW
            if columns[slot] != ABSENT:
                here = 1 << columns[slot]
                trail = wp.where(((state.rightward[env] >> slot) & 1) != 0, here >> 1, here << 1)
                if ((state.gold[env] >> slot) & 1) != 0:
                    gold = here
                else:
                    enemy = here
        show_row(screen, PLAYER, y, cell(player, y))
        show_row(screen, ENEMY, y, enemy)
        show_row(screen, TRAIL, y, trail)
        show_row(screen, GOLD, y, gold)
        y += 1


def render(state: Mapping[str, Any]) -> np.ndarray:
    enemies, gold, trails = np.zeros((3, SIZE), np.int64)
    for slot, column in enumerate(state["columns"]):
        if column != ABSENT:
            (gold if state["gold"] >> slot & 1 else enemies)[TOP_ROW + slot] = 1 << int(column)
            trails[TOP_ROW + slot] = 2 << int(column) >> 2 * int(state["rightward"] >> slot & 1)
    return draw(
        (unpacked(trails), TRAIL_COLOR),
        (unpacked(enemies), ENEMY_COLOR),
        (unpacked(gold), GOLD_COLOR),
        (at(*state["player"]), PLAYER_COLOR),
    )


BOUNDS = {
    "player": ((0, TOP_ROW), (LAST, BOTTOM_ROW)),
    "columns": (ABSENT, LAST),
    **dict.fromkeys(("rightward", "gold"), (0, (1 << ROWS) - 1)),
    **dict.fromkeys(("spawn_interval", "spawn_in"), (0, SPAWN_INTERVAL)),
    **dict.fromkeys(("move_interval", "move_in"), (0, MOVE_INTERVAL)),
    "ramp_in": (-1, RAMP_INTERVAL),
    "ramps": (0, SPAWN_INTERVAL + MOVE_INTERVAL),
    "last_action": LAST_ACTIONS,
}
GAME = KernelEnv("MinAtarAsterix", State, View, reset, step, observe, render, bounds=BOUNDS)
TASKS = versions("Asterix", GAME, 4, (NONE, LEFT, UP, RIGHT, DOWN), difficulty_ramping=True)
