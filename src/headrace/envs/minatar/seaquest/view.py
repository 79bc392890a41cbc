"""What is seen of Seaquest: the ten channels of an observation, and pictures."""

# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false
# pyright: reportInvalidTypeForm=false

from collections.abc import Mapping
from typing import Any

import numpy as np
import warp as wp

from headrace.envs.minatar.common import LAST, SIZE, View, at, cell, draw, show_row, unpacked
from headrace.envs.minatar.seaquest.state import FULL_AIR, Rows, State
from headrace.envs.minatar.seaquest.swimmers import IS_HUNTER, MOST_DIVERS, MOST_ENEMIES, column, depth, trail

FRONT, BACK, SHOT, TRAIL, BULLET, FISH, HUNTER, AIR, RESCUED, DIVER = (wp.constant(channel) for channel in range(10))
PLAYER_COLOR, HULL_COLOR, SHOT_COLOR, BULLET_COLOR = (92, 190, 255), (64, 130, 180), (255, 255, 255), (255, 120, 96)
FISH_COLOR, HUNTER_COLOR, DIVER_COLOR, AIR_COLOR = (186, 104, 220), (226, 98, 72), (255, 196, 64), (96, 190, 120)
TRAIL_COLOR = (104, 98, 88)


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
