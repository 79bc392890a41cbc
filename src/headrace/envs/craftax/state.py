"""The state of Craftax-Classic, and what its rules ask of a place.

A place is (row, column) on a map of 64 × 64 blocks. A cell of the map is one byte: the block's number, and a bit that
says whether a zombie, cow or skeleton stands there. That bit is a record of its own, as in the package: where two mobs
have met, it may differ from where they are. Mobs that do not live keep a place, and move, since they may live again.
"""

# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false

import warp as wp

SIZE = wp.constant(64)  # cells: the sides of the map
LAST = wp.constant(63)
MOB = wp.constant(32)  # the bit of a cell on which a mob stands
BLOCK = wp.constant(31)  # the bits of its block

OUTSIDE, GRASS, WATER, STONE, TREE = (wp.constant(n) for n in (1, 2, 3, 4, 5))
PATH, COAL, IRON, DIAMOND, TABLE, FURNACE = (wp.constant(n) for n in range(7, 13))
SAND, LAVA, PLANT, RIPE_PLANT = (wp.constant(n) for n in range(13, 17))
SOLID_BLOCKS = (WATER, STONE, TREE, COAL, IRON, DIAMOND, TABLE, FURNACE, PLANT, RIPE_PLANT)
SOLID = wp.constant(sum(1 << int(block) for block in SOLID_BLOCKS))
# cells where nobody can go: of a solid block, of lava, or with a mob
TAKEN = wp.constant(wp.uint64(0xFFFFFFFF00000000 | int(SOLID) | 1 << int(LAVA)))

# the mobs, one after the other: three zombies, three cows, two skeletons, three arrows
ZOMBIES, COWS, SKELETONS, ARROWS = (wp.constant(n) for n in (0, 3, 6, 8))
WALKERS = wp.constant(8)  # all but the arrows
MOBS = wp.constant(11)
PLANTS = wp.constant(10)
FAR = wp.constant(14)  # steps away from the player, where mobs vanish

HEALTH, FOOD, DRINK, ENERGY = (wp.constant(n) for n in range(4))
RECOVERY, HUNGER, THIRST, FATIGUE = (wp.constant(n) for n in range(4))
MOST = wp.constant(9)  # of each thing, and of health, food, drink and energy

WOOD, STONES, COALS, IRONS, DIAMONDS, SAPLINGS, PICKAXES, SWORDS = (wp.constant(n) for n in (0, 1, 2, 3, 4, 5, 6, 9))
THINGS = wp.constant(12)

LEFT, RIGHT, UP, DOWN, DO, SLEEP = (wp.constant(n) for n in range(1, 7))
PLACE_STONE, PLACE_TABLE, PLACE_FURNACE, PLACE_PLANT, MAKE = (wp.constant(n) for n in range(7, 12))

WAKE_UP = wp.constant(15)  # the achievements are named in `headrace.envs.craftax`
ACHIEVEMENTS = wp.constant(22)


@wp.struct
class State:
    """``vitals``: health, food, drink, energy; ``strain``: the four counters that change them.

    ``alive``, ``planted`` and ``achieved`` have a bit for each mob, plant and achievement. ``facing`` is 1 to 4: left,
    right, up, down. ``light`` is 1 at noon. ``gradients`` hold those of the noise while a world is generated.
    """

    cells: wp.array3d[wp.uint8]
    player: wp.array[wp.vec2i]
    facing: wp.array[wp.int32]
    asleep: wp.array[wp.bool]
    vitals: wp.array2d[wp.int32]
    strain: wp.array2d[wp.float32]
    things: wp.array2d[wp.int32]
    places: wp.array2d[wp.vec2i]
    mob_health: wp.array2d[wp.int32]
    cooldown: wp.array2d[wp.int32]
    flights: wp.array2d[wp.vec2i]
    alive: wp.array[wp.int32]
    plants: wp.array2d[wp.vec2i]
    plant_age: wp.array2d[wp.int32]
    planted: wp.array[wp.int32]
    achieved: wp.array[wp.int32]
    light: wp.array[wp.float32]
    time: wp.array[wp.int32]
    gradients: wp.array2d[wp.vec2f]
    tenths: wp.array[wp.float32]  # k → k/10 as the observation has it
    textures: wp.array[wp.vec4f]  # of pictures: `headrace.envs.craftax.textures`


SHAPES = {
    "cells": (int(SIZE), int(SIZE)),
    "vitals": (4,),
    "strain": (4,),
    "things": (int(THINGS),),
    "places": (int(MOBS),),
    "mob_health": (int(WALKERS),),
    "cooldown": (int(WALKERS),),
    "flights": (3,),
    "plants": (int(PLANTS),),
    "plant_age": (int(PLANTS),),
    "gradients": (9 * 33,),
}


@wp.func
def inside(place: wp.vec2i) -> bool:
    """Returns whether a place is on the map."""
    return ((place[0] | place[1]) & ~LAST) == 0


@wp.func
def cell_at(state: State, env: int, place: wp.vec2i) -> int:
    """Returns the cell at a place; one step before the map's first row is its last one, and one after it the same."""
    return int(state.cells[env, wp.min(place[0], LAST) & LAST, wp.min(place[1], LAST) & LAST])


@wp.func
def block_at(state: State, env: int, place: wp.vec2i) -> int:
    """Returns the block at a place, as for `cell_at`."""
    return cell_at(state, env, place) & BLOCK


@wp.func
def mark(state: State, env: int, place: wp.vec2i, cleared: int, added: int):
    """Clears bits of the cell at a place of the map, and adds others."""
    row, column = place[0] & LAST, place[1] & LAST
    state.cells[env, row, column] = wp.uint8((int(state.cells[env, row, column]) & ~cleared) | added)


@wp.func
def set_block(state: State, env: int, place: wp.vec2i, block: int):
    """Puts a block at a place; nothing after the last row or column."""
    if place[0] <= LAST and place[1] <= LAST:
        mark(state, env, place, BLOCK, block)


@wp.func
def set_mob(state: State, env: int, place: wp.vec2i, here: bool):
    """Notes that a mob stands at a place of the map, or none."""
    mark(state, env, place, MOB, wp.where(here, MOB, 0))


@wp.func
def is_free(state: State, env: int, place: wp.vec2i) -> bool:
    """Returns whether a mob or the player may step on a place; without branches, which chance decides."""
    taken = int((TAKEN >> wp.uint64(cell_at(state, env, place))) & wp.uint64(1))
    gap = place - state.player[env]
    return (((place[0] | place[1]) & ~LAST) | taken | wp.where((gap[0] | gap[1]) == 0, 1, 0)) == 0


@wp.func
def direction(number: int) -> wp.vec2i:
    """Returns the step of a direction, 0 to 3: left, right, up, down."""
    sign = 2 * (number & 1) - 1
    row = sign * (number >> 1)
    return wp.vec2i(row, sign - row)


@wp.func
def distance(a: wp.vec2i, b: wp.vec2i) -> int:
    """Returns the number of steps between two places."""
    return wp.abs(a[0] - b[0]) + wp.abs(a[1] - b[1])


@wp.func
def achieve(state: State, env: int, achievement: int):
    """Notes an achievement."""
    state.achieved[env] = state.achieved[env] | (1 << achievement)


@wp.func
def lives(state: State, env: int, mob: int) -> bool:
    """Returns whether a mob lives."""
    return ((state.alive[env] >> mob) & 1) == 1


@wp.func
def gain(state: State, env: int, thing: int, number: int):
    """Adds a number of things, which may be negative, up to the most that the player can carry."""
    state.things[env, thing] = wp.min(state.things[env, thing] + number, MOST)


@wp.func
def bits(drawn: wp.uint64, first: int, count: int) -> int:
    """Returns ``count`` bits of a drawn number, from bit ``first`` on."""
    return int((drawn >> wp.uint64(first)) & ((wp.uint64(1) << wp.uint64(count)) - wp.uint64(1)))
