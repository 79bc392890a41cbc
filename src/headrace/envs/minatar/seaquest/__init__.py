"""MinAtar's Seaquest: rescue divers and shoot what hunts them, before the air is used up.

Fish, hostile submarines and divers enter from both sides and swim across. The player's submarine looks to where it last
went, fires in that direction at most once every 5 steps, and picks up divers that it touches, up to six. A hostile
submarine fires every 11 steps. Each fish or submarine shot earns 1. Air lasts for 200 steps under water and is full
again after surfacing, which costs a diver; surfacing with six earns up to 10, in proportion to the air that is left,
and costs seven: as in MinAtar, one is owed then. With ``difficulty_ramping``, each surfacing makes enemies come more
often and, every other time, swim faster. The episode ends when the player touches an enemy or a hostile bullet, is out
of air, or surfaces with no diver.
"""

# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false
# pyright: reportInvalidTypeForm=false

from collections.abc import Mapping
from typing import Any

import numpy as np
import warp as wp

from headrace.envs.minatar.common import (
    ALL_ACTIONS,
    DOWN,
    FIRE,
    LAST,
    LAST_ACTIONS,
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
from headrace.envs.minatar.swimmers import (
    DEEPEST,
    FIRES_IN_SHIFT,
    IS_HUNTER,
    MOST_DIVERS,
    MOST_ENEMIES,
    MOVES_IN_SHIFT,
    RIGHTWARD,
    SWIMS,
    Divers,
    Enemies,
    column,
    depth,
    entering,
    is_at,
    shot_by,
    swum,
    trail,
    without_gaps,
)
from headrace.pool.executors.kernels import KernelEnv, Streams, uniform

FRONT, BACK, SHOT, TRAIL, BULLET, FISH, HUNTER, AIR, RESCUED, DIVER = (wp.constant(channel) for channel in range(10))
PLAYER_COLOR, HULL_COLOR, SHOT_COLOR, BULLET_COLOR = (92, 190, 255), (64, 130, 180), (255, 255, 255), (255, 120, 96)
FISH_COLOR, HUNTER_COLOR, DIVER_COLOR, AIR_COLOR = (186, 104, 220), (226, 98, 72), (255, 196, 64), (96, 190, 120)
TRAIL_COLOR = (104, 98, 88)

START = wp.constant(5)
FULL_AIR = wp.constant(200)
MOST_RESCUED = wp.constant(6)
SPAWN_INTERVAL = wp.constant(20)
DIVER_INTERVAL = wp.constant(30)
MOVE_INTERVAL = wp.constant(5)
FASTEST_MOVE = wp.constant(2)
RELOAD = wp.constant(5)
BULLET_INTERVAL = wp.constant(10)

Rows = wp.types.vector(SIZE, wp.int32)


@wp.struct
class State:
    """The state of the game; shots and bullets are ten rows of bits for each direction, and times are in steps.

    ``player`` is the place of the front of the submarine, which looks to the right if ``rightward``. ``enemies`` are
    fish and hostile submarines. ``rescued`` is negative where divers are owed. ``at_surface`` is whether the player
    has surfaced and not dived since. ``ramps`` counts how often the game became harder.
    """

    player: wp.array[wp.vec2i]
    rightward: wp.array[wp.bool]
    air: wp.array[wp.int32]
    rescued: wp.array[wp.int32]
    at_surface: wp.array[wp.bool]
    shots_left: wp.array[Rows]
    shots_right: wp.array[Rows]
    bullets_left: wp.array[Rows]
    bullets_right: wp.array[Rows]
    enemies: wp.array[Enemies]
    divers: wp.array[Divers]
    spawn_interval: wp.array[wp.int32]
    spawn_in: wp.array[wp.int32]
    diver_in: wp.array[wp.int32]
    move_interval: wp.array[wp.int32]
    reload: wp.array[wp.int32]
    ramps: wp.array[wp.int32]
    last_action: wp.array[wp.int32]
    action_set: wp.array[wp.int32]
    sticky_action_prob: wp.float64
    difficulty_ramping: wp.bool


@wp.func
def reset(state: State, env: int, streams: Streams):
    state.player[env] = wp.vec2i(START, 0)
    state.rightward[env] = False
    state.air[env] = FULL_AIR
    state.rescued[env] = 0
    state.at_surface[env] = True
    state.shots_left[env] = Rows()
    state.shots_right[env] = Rows()
    state.bullets_left[env] = Rows()
    state.bullets_right[env] = Rows()
    state.enemies[env] = Enemies()
    state.divers[env] = Divers()
    state.spawn_interval[env] = SPAWN_INTERVAL
    state.spawn_in[env] = SPAWN_INTERVAL
    state.diver_in[env] = DIVER_INTERVAL
    state.move_interval[env] = MOVE_INTERVAL
    state.reload[env] = 0
    state.ramps[env] = 0
    state.last_action[env] = NONE


@wp.func
def flown(rows: Rows, rightward: bool) -> Rows:
    """Returns all bits moved by one column; those that leave the screen are dropped."""
    result = Rows()
    y = int(0)
    while y < SIZE:  # range() would be unrolled
        result[y] = wp.where(rightward, (rows[y] << 1) & ((1 << SIZE) - 1), rows[y] >> 1)
        y += 1
    return result


@wp.func
def enemy_enters(state: State, env: int, streams: Streams):
    """Adds an enemy, one time in three a submarine, unless its row has one that swims the other way."""
    enemy = entering(streams, env, state.move_interval[env])
    if uniform(streams, env, wp.float64(0.0), wp.float64(3.0)) < wp.float64(1.0):
        enemy = enemy | IS_HUNTER | (BULLET_INTERVAL << FIRES_IN_SHIFT)
    enemies = state.enemies[env]
    i = int(0)
    while i < MOST_ENEMIES and enemies[i] != 0:
        if depth(enemies[i]) == depth(enemy) and ((enemies[i] ^ enemy) & RIGHTWARD) != 0:
            return
        i += 1
    if i < MOST_ENEMIES:
        enemies[i] = enemy
        state.enemies[env] = enemies


@wp.func
def diver_enters(state: State, env: int, streams: Streams):
    diver = entering(streams, env, MOVE_INTERVAL)
    divers = state.divers[env]
    for i in range(MOST_DIVERS):
        if divers[i] == 0 and diver != 0:
            divers[i] = diver
            diver = 0
    state.divers[env] = divers


@wp.func
def shots_fly(state: State, env: int) -> int:
    """Moves the player's shots, and returns the number of enemies hit."""
    left = flown(state.shots_left[env], False)
    right = flown(state.shots_right[env], True)
    hits = int(0)
    y = int(0)
    while y < SIZE:
        if (left[y] | right[y]) != 0:
            enemies = state.enemies[env]
            x = int(0)
            while x < SIZE:
                bit = 1 << x
                if ((left[y] | right[y]) & bit) != 0:
                    hit = shot_by(enemies, x, y)
                    if hit >= 0:
                        enemies[hit] = 0
                        left[y] = left[y] & ~bit
                        right[y] = right[y] & ~bit
                        hits += 1
                x += 1
            state.enemies[env] = enemies
        y += 1
    state.shots_left[env] = left
    state.shots_right[env] = right
    return hits


@wp.func
def divers_swim(state: State, env: int, player: wp.vec2i):
    """Moves divers, and picks up those that the player touches before or after."""
    divers = state.divers[env]
    rescued = state.rescued[env]
    kept = Divers()
    number = int(0)
    for back in range(MOST_DIVERS):
        i = MOST_DIVERS - 1 - back  # the youngest first
        diver = divers[i]
        if is_at(diver, player[0], player[1]) and rescued < MOST_RESCUED:
            rescued += 1
            diver = 0
        elif diver != 0:
            waits = ((diver >> MOVES_IN_SHIFT) & 7) > 0
            diver = swum(diver, MOVE_INTERVAL)
            if not waits and is_at(diver, player[0], player[1]) and rescued < MOST_RESCUED:
                rescued += 1
                diver = 0
        divers[i] = diver
    for i in range(MOST_DIVERS):
        if divers[i] != 0:
            kept[number] = divers[i]
            number += 1
    state.divers[env] = kept
    state.rescued[env] = rescued


@wp.func
def enemies_swim(state: State, env: int, player: wp.vec2i, hunters: int):
    """Moves the enemies of one kind (``hunters`` IS_HUNTER or 0), the youngest first, and lets submarines fire.

    Returns the number of those that swam into a shot, and whether one touches the player.
    """
    enemies = state.enemies[env]
    hits = int(0)
    dead = wp.bool(False)
    i = int(MOST_ENEMIES - 1)
    while i >= 0:
        enemy = enemies[i]
        if enemy != 0 and (enemy & IS_HUNTER) == hunters:
            dead = dead or is_at(enemy, player[0], player[1])
            after = swum(enemy, state.move_interval[env])
            if after != 0:
                x, y = column(after), depth(after)
                if ((enemy >> MOVES_IN_SHIFT) & 7) == 0:  # it moved
                    if x == player[0] and y == player[1]:
                        dead = True
                    elif ((state.shots_left[env][y] | state.shots_right[env][y]) & (1 << x)) != 0:
                        left = state.shots_left[env]
                        right = state.shots_right[env]
                        left[y] = left[y] & ~(1 << x)
                        right[y] = right[y] & ~(1 << x)
                        state.shots_left[env] = left
                        state.shots_right[env] = right
                        hits += 1
                        enemies[i] = 0
                if hunters != 0:
                    if ((enemy >> FIRES_IN_SHIFT) & 15) > 0:
                        after -= 1 << FIRES_IN_SHIFT
                    else:  # also with its last breath
                        after = after | (BULLET_INTERVAL << FIRES_IN_SHIFT)
                        fire(state, env, x, y, (enemy & RIGHTWARD) != 0)
                if enemies[i] != 0:
                    enemies[i] = after
            else:
                enemies[i] = 0
        i -= 1
    state.enemies[env] = enemies
    return hits, dead


@wp.func
def fire(state: State, env: int, x: int, y: int, rightward: bool):
    """Adds a bullet of a hostile submarine at this place."""
    if rightward:
        bullets = state.bullets_right[env]
        bullets[y] = bullets[y] | (1 << x)
        state.bullets_right[env] = bullets
    else:
        bullets = state.bullets_left[env]
        bullets[y] = bullets[y] | (1 << x)
        state.bullets_left[env] = bullets


@wp.func
def bullets_fly(state: State, env: int, player: wp.vec2i) -> bool:
    """Moves the hostile bullets, and returns whether one touches the player before or after."""
    x, y = player[0], player[1]
    before = state.bullets_left[env][y] | state.bullets_right[env][y]
    left = flown(state.bullets_left[env], False)
    right = flown(state.bullets_right[env], True)
    state.bullets_left[env] = left
    state.bullets_right[env] = right
    return (((before | left[y] | right[y]) >> x) & 1) != 0


@wp.func
def surface(state: State, env: int) -> int:
    """Fills up the air for a diver, or all six and one; makes the game harder, and returns the reward."""
    reward = int(0)
    if state.rescued[env] == MOST_RESCUED:
        state.rescued[env] = 0
        reward = state.air[env] * 10 // FULL_AIR
    state.rescued[env] -= 1
    state.air[env] = FULL_AIR
    state.at_surface[env] = True
    spawn, move, ramps = state.spawn_interval[env], state.move_interval[env], state.ramps[env]
    if state.difficulty_ramping and (spawn > 1 or move > FASTEST_MOVE):
        if (ramps & 1) != 0:
            state.move_interval[env] = wp.max(move - 1, FASTEST_MOVE)
        state.spawn_interval[env] = wp.max(spawn - 1, 1)
        state.ramps[env] = ramps + 1
    return reward


@wp.func
def act(state: State, env: int, action: int):
    """Moves the player's submarine, or fires."""
    player = state.player[env]
    x, y = player[0], player[1]
    if action == FIRE:
        if state.reload[env] == 0:
            state.reload[env] = RELOAD
            if state.rightward[env]:
                shots = state.shots_right[env]
                shots[y] = shots[y] | (1 << x)
                state.shots_right[env] = shots
            else:
                shots = state.shots_left[env]
                shots[y] = shots[y] | (1 << x)
                state.shots_left[env] = shots
    elif action == UP:
        y = wp.max(y - 1, 0)
    elif action == DOWN:
        y = wp.min(y + 1, DEEPEST)
    elif action != NONE:
        x = moved(x, action)
        state.rightward[env] = action == RIGHT
    state.player[env] = wp.vec2i(x, y)


@wp.func
def step(state: State, env: int, actions: wp.array[wp.int64], row: int, streams: Streams):
    action = action_taken(state, env, actions, row, streams)
    if state.spawn_in[env] == 0:
        enemy_enters(state, env, streams)
        state.spawn_in[env] = state.spawn_interval[env]
    if state.diver_in[env] == 0:
        diver_enters(state, env, streams)
        state.diver_in[env] = DIVER_INTERVAL

    act(state, env, action)
    player = state.player[env]
    reward = shots_fly(state, env)
    divers_swim(state, env, player)
    shot_hunters, hunted = enemies_swim(state, env, player, IS_HUNTER)
    hit = bullets_fly(state, env, player)
    shot_fish, bitten = enemies_swim(state, env, player, 0)
    state.enemies[env] = without_gaps(state.enemies[env])
    reward += shot_hunters + shot_fish

    state.spawn_in[env] = wp.max(state.spawn_in[env] - 1, 0)
    state.diver_in[env] = wp.max(state.diver_in[env] - 1, 0)
    state.reload[env] = wp.max(state.reload[env] - 1, 0)
    terminated = hunted or hit or bitten or state.air[env] <= 0
    if player[1] > 0:
        state.air[env] -= 1
        state.at_surface[env] = False
    elif not state.at_surface[env]:
        if state.rescued[env] == 0:
            terminated = True
        else:
            reward += surface(state, env)
    return wp.float32(reward), terminated


@wp.func
def observe(state: State, env: int, view: View, row: int):
    screen = view.obs[row]  # once, not for every cell
    player = state.player[env]
    behind = wp.vec2i(player[0] + wp.where(state.rightward[env], -1, 1), player[1])
    fish, hunters, divers, trails = Rows(), Rows(), Rows(), Rows()
    enemies = state.enemies[env]
    i = int(0)
    while i < MOST_ENEMIES and enemies[i] != 0:
        y = depth(enemies[i])
        here = 1 << column(enemies[i])
        if (enemies[i] & IS_HUNTER) != 0:
            hunters[y] = hunters[y] | here
        else:
            fish[y] = fish[y] | here
        trails[y] = trails[y] | trail(enemies[i])
        i += 1
    swimmers = state.divers[env]
    for i in range(MOST_DIVERS):
        if swimmers[i] != 0:
            y = depth(swimmers[i])
            divers[y] = divers[y] | (1 << column(swimmers[i]))
            trails[y] = trails[y] | trail(swimmers[i])
    air = (1 << (wp.max(state.air[env], 0) * 10 // FULL_AIR)) - 1
    rescued = wp.max(state.rescued[env], 0)
    aboard = ((1 << rescued) - 1) << (LAST - rescued)
    y = int(0)
    while y < SIZE:  # range() would be unrolled
        show_row(screen, FRONT, y, cell(player, y))
        show_row(screen, BACK, y, cell(behind, y))
        show_row(screen, SHOT, y, state.shots_left[env][y] | state.shots_right[env][y])
        show_row(screen, TRAIL, y, trails[y])
        show_row(screen, BULLET, y, state.bullets_left[env][y] | state.bullets_right[env][y])
        show_row(screen, FISH, y, fish[y])
        show_row(screen, HUNTER, y, hunters[y])
        show_row(screen, AIR, y, wp.where(y == LAST, air, 0))
        show_row(screen, RESCUED, y, wp.where(y == LAST, aboard, 0))
        show_row(screen, DIVER, y, divers[y])
        y += 1


def render(state: Mapping[str, Any]) -> np.ndarray:
    fish, hunters, divers, trails = np.zeros((4, SIZE), np.int64)
    for swimmer in (int(s) for s in (*state["enemies"], *state["divers"]) if s):
        y = depth(swimmer)
        trails[y] |= trail(swimmer)
    for swimmer in (int(s) for s in state["enemies"] if s):
        (hunters if swimmer & IS_HUNTER else fish)[depth(swimmer)] |= 1 << column(swimmer)
    for swimmer in (int(s) for s in state["divers"] if s):
        divers[depth(swimmer)] |= 1 << column(swimmer)
    x, y = (int(i) for i in state["player"])
    gauge, aboard = np.zeros((2, SIZE), np.int64)
    rescued = max(int(state["rescued"]), 0)
    gauge[LAST] = (1 << max(int(state["air"]), 0) * 10 // FULL_AIR) - 1
    aboard[LAST] = (1 << rescued) - 1 << LAST - rescued
    return draw(
        (unpacked(gauge), AIR_COLOR),
        (unpacked(trails), TRAIL_COLOR),
        (unpacked(divers), DIVER_COLOR),
        (unpacked(aboard), DIVER_COLOR),
        (unpacked(fish), FISH_COLOR),
        (unpacked(hunters), HUNTER_COLOR),
        (unpacked(state["bullets_left"] | state["bullets_right"]), BULLET_COLOR),
        (unpacked(state["shots_left"] | state["shots_right"]), SHOT_COLOR),
        (at(x - 1 if state["rightward"] else x + 1, y), HULL_COLOR),
        (at(x, y), PLAYER_COLOR),
    )


FULL_ROW = (1 << SIZE) - 1
BOUNDS = {
    "player": ((0, 0), (LAST, DEEPEST)),
    "air": (-1, FULL_AIR),
    "rescued": (-(1 << 30), MOST_RESCUED),
    **dict.fromkeys(("shots_left", "shots_right", "bullets_left", "bullets_right"), (0, FULL_ROW)),
    **dict.fromkeys(("enemies", "divers"), (0, 2 * SWIMS - 1)),
    **dict.fromkeys(("spawn_interval", "spawn_in"), (0, SPAWN_INTERVAL)),
    "diver_in": (0, DIVER_INTERVAL),
    "move_interval": (0, MOVE_INTERVAL),
    "reload": (0, RELOAD),
    "ramps": (0, SPAWN_INTERVAL),
    "last_action": LAST_ACTIONS,
}
GAME = KernelEnv("MinAtarSeaquest", State, View, reset, step, observe, render, bounds=BOUNDS)
TASKS = versions("Seaquest", GAME, 10, ALL_ACTIONS, difficulty_ramping=True)
