"""What swims in MinAtar's Seaquest, fish, hostile submarines and divers, as an integer each.

It is 0 for none, else `SWIMS` with its place and the times until it moves and fires. Those of one list are in order of
age.
"""

# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false
# pyright: reportInvalidTypeForm=false, reportReturnType=false

import warp as wp

from headrace.envs.minatar.common import LAST, SIZE
from headrace.pool.executors.kernels import Streams, integers

DEEPEST = wp.constant(8)  # row; the last one shows the gauges

X_BITS = wp.constant(15)
Y_SHIFT = wp.constant(4)
RIGHTWARD = wp.constant(1 << 8)
MOVES_IN_SHIFT = wp.constant(9)  # the time until it moves, 0 to 7
FIRES_IN_SHIFT = wp.constant(12)  # the time until it fires, 0 to 15
IS_HUNTER = wp.constant(1 << 16)
SWIMS = wp.constant(1 << 17)

# Enemies cross in 30 to 60 steps, and enter every 1 to 20: at most 30 at a time at the end, and 3 that came before
MOST_ENEMIES = wp.constant(40)
MOST_DIVERS = wp.constant(4)  # each crosses in 60 steps
Enemies = wp.types.vector(40, wp.int32)
Divers = wp.types.vector(4, wp.int32)


@wp.func
def column(swimmer: int) -> int:
    return swimmer & X_BITS


@wp.func
def depth(swimmer: int) -> int:
    """Returns its row; a state that was loaded may say anything."""
    return wp.min((swimmer >> Y_SHIFT) & X_BITS, DEEPEST)


@wp.func
def is_at(swimmer: int, x: int, y: int) -> bool:
    return (swimmer & SWIMS) != 0 and column(swimmer) == x and depth(swimmer) == y


@wp.func
def entering(streams: Streams, env: int, moves_in: int) -> int:
    """Returns a swimmer at one of the sides, in a row from 1 to 8."""
    rightward = integers(streams, env, 0, 2)
    y = integers(streams, env, 1, DEEPEST + 1)
    place = wp.where(rightward == 1, RIGHTWARD, LAST) | (y << Y_SHIFT)
    return place | (moves_in << MOVES_IN_SHIFT) | SWIMS


@wp.func
def swum(swimmer: int, interval: int) -> int:
    """Returns a swimmer one step later, which moves every ``interval`` + 1 steps: 0 if it has left the screen."""
    if ((swimmer >> MOVES_IN_SHIFT) & 7) > 0:
        return swimmer - (1 << MOVES_IN_SHIFT)
    x = column(swimmer) + wp.where((swimmer & RIGHTWARD) != 0, 1, -1)
    if x < 0 or x > LAST:
        return 0
    return (swimmer & ~X_BITS) | x | (interval << MOVES_IN_SHIFT)


@wp.func
def trail(swimmer: int) -> int:
    """Returns the bit of the cell behind a swimmer, or 0 where that is beyond the screen's side."""
    here = 1 << column(swimmer)
    if (swimmer & RIGHTWARD) != 0:
        return here >> 1
    return (here << 1) & ((1 << SIZE) - 1)


@wp.func
def shot_by(enemies: Enemies, x: int, y: int) -> int:
    """Returns the number of the enemy that a shot at this place hits: the eldest fish, or else submarine, or -1."""
    hunter = int(-1)
    i = int(0)
    while i < MOST_ENEMIES:
        if is_at(enemies[i], x, y):
            if (enemies[i] & IS_HUNTER) == 0:
                return i
            if hunter < 0:
                hunter = i
        i += 1
    return hunter


@wp.func
def without_gaps(enemies: Enemies) -> Enemies:
    kept = Enemies()
    number = int(0)
    i = int(0)
    while i < MOST_ENEMIES:
        if enemies[i] != 0:
            kept[number] = enemies[i]
            number += 1
        i += 1
    return kept
