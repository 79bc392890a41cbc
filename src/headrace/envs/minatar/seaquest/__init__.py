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

import warp as wp

from headrace.envs.minatar.common import ALL_ACTIONS, DOWN, FIRE, NONE, RIGHT, SIZE, UP, action_taken, moved, versions
from headrace.envs.minatar.seaquest.state import (
    BOUNDS,
    BULLET_INTERVAL,
    DIVER_INTERVAL,
    FASTEST_MOVE,
    FULL_AIR,
    MOST_RESCUED,
    MOVE_INTERVAL,
    RELOAD,
    Rows,
    State,
    reset,
)
from headrace.envs.minatar.seaquest.swimmers import (
    DEEPEST,
    FIRES_IN_SHIFT,
    IS_HUNTER,
    MOST_DIVERS,
    MOST_ENEMIES,
    MOVES_IN_SHIFT,
    RIGHTWARD,
    Divers,
    column,
    depth,
    entering,
    is_at,
    shot_by,
    swum,
    without_gaps,
)
from headrace.envs.minatar.seaquest.view import View, observe, render
from headrace.pool.executors.kernels import KernelEnv, Streams, uniform


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
def with_bit(rows: Rows, x: int, y: int) -> Rows:
    """Returns the rows with one more shot or bullet, at this place."""
    result = rows
    result[y] = result[y] | (1 << x)
    return result


@wp.func
def without_bit(rows: Rows, x: int, y: int) -> Rows:
    """Returns the rows without the shot or bullet at this place."""
    result = rows
    result[y] = result[y] & ~(1 << x)
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
                        state.shots_left[env] = without_bit(state.shots_left[env], x, y)
                        state.shots_right[env] = without_bit(state.shots_right[env], x, y)
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
        state.bullets_right[env] = with_bit(state.bullets_right[env], x, y)
    else:
        state.bullets_left[env] = with_bit(state.bullets_left[env], x, y)


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
                state.shots_right[env] = with_bit(state.shots_right[env], x, y)
            else:
                state.shots_left[env] = with_bit(state.shots_left[env], x, y)
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


GAME = KernelEnv("MinAtarSeaquest", State, View, reset, step, observe, render, bounds=BOUNDS)
TASKS = versions("Seaquest", GAME, 10, ALL_ACTIONS, difficulty_ramping=True)
