"""How a world is generated: water, sand, mountains with paths, caves, ores and lava, meadows and trees.

Four maps of gradient noise (Perlin, "Improving noise", 2002) decide, each scaled to 0 to 1 over the whole map. While a
world is generated, a cell's byte holds which thresholds each noise is above there.
"""

# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false

import math

import warp as wp

from headrace.envs.craftax import state as s
from headrace.pool.executors.kernels import Streams, random_bits
from headrace.pool.executors.kernels.cpp import cpp
from headrace.pool.executors.kernels.trigonometry import sincos

TWO_PI = wp.constant(wp.float64(2.0 * math.pi))
UNIT = wp.constant(float(2.0**-24))
CENTER = wp.constant(int(s.SIZE) // 2)

# The levels of each noise, and the bit of a cell's byte from which on it is noted how many of them the noise is above.
NEVER = 9.0
WATER_LEVELS, WATER_SHIFT = wp.constant(wp.vec3f(0.4, 0.6, 0.7)), wp.constant(0)
ROCK_LEVELS, ROCK_SHIFT = wp.constant(wp.vec3f(0.7, 0.8, 0.85)), wp.constant(2)
PATHS_LEVELS, PATHS_SHIFT = wp.constant(wp.vec3f(0.8, NEVER, NEVER)), wp.constant(4)
WOODS_LEVELS, WOODS_SHIFT = wp.constant(wp.vec3f(0.5, 0.7, NEVER)), wp.constant(5)


@wp.func
def scramble(number: wp.uint64) -> wp.uint64:
    """Returns the number's value in SplitMix64 (Steele, Lea, Flood, OOPSLA 2014), for numbers γ apart."""
    z = (number ^ (number >> wp.uint64(30))) * wp.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> wp.uint64(27))) * wp.uint64(0x94D049BB133111EB)
    return z ^ (z >> wp.uint64(31))


@wp.func
def chance(seed: wp.uint64, number: int) -> float:
    """Returns the number-th chance of a world, uniform in [0, 1)."""
    drawn = scramble(seed + wp.uint64(number) * wp.uint64(0x9E3779B97F4A7C15))
    return float(drawn >> wp.uint64(40)) * UNIT


@wp.func
def draw_gradients(state: s.State, env: int, seed: wp.uint64, first: int, count: int):
    """Draws the gradients of one noise, unit vectors of any angle."""
    for i in range(count):
        sine, cosine = sincos(TWO_PI * wp.float64(chance(seed, first + i)))
        state.gradients[env, i] = wp.vec2f(float(cosine), float(sine))


@wp.func
def ease(t: float) -> float:
    return t * t * t * (t * (t * 6.0 - 15.0) + 10.0)


@wp.func
def noise_at(gradients: wp.array2d[wp.vec2f], env: int, x: int, y: int, rows: int, columns: int) -> float:
    """Returns the noise at a cell of the map, of which each cell of the noise has ``rows`` × ``columns``."""
    wide = s.SIZE / columns + 1
    upper = x / rows * wide + y / columns
    lower = upper + wide
    down = float(x % rows) / float(rows)
    right = float(y % columns) / float(columns)
    u, t = ease(down), ease(right)
    value = float(0.0)
    for side in range(2):
        above = gradients[env, upper + side]
        below = gradients[env, lower + side]
        at = (1.0 - u) * (above[0] * down) + u * (below[0] * (down - 1.0))
        slope = (1.0 - u) * above[1] + u * below[1]
        value += wp.where(side == 0, 1.0 - t, t) * (at + slope * (right - float(side)))
    return value


@wp.func_native(cpp(__file__, "stamp"))
def stamp(
    gradients: wp.array2d[wp.vec2f],
    cells: wp.array3d[wp.uint8],
    env: int,
    rows: int,
    columns: int,
    lift: float,
    clears: bool,
    levels: wp.vec3f,
    shift: int,
):
    """Adds to each cell's byte how many levels the noise is above there; the one without a shift begins the byte.

    A cell of the noise is ``rows`` × ``columns`` of the map. ``lift`` is added to the noise and, if it ``clears``, what
    is missing to five steps from the player's start is taken off.
    """
    low, high = float(1e9), float(-1e9)
    for x in range(s.SIZE):
        for y in range(s.SIZE):
            value = noise_at(gradients, env, x, y, rows, columns)
            low, high = wp.min(low, value), wp.max(high, value)
    for x in range(s.SIZE):
        for y in range(s.SIZE):
            value = (noise_at(gradients, env, x, y, rows, columns) - low) * (1.0 / (high - low)) + lift
            if clears:
                value -= 1.0 - wp.min(float(wp.abs(x - CENTER) + wp.abs(y - CENTER)) * 0.2, 1.0)
            above = int(0)
            for n in range(3):
                above += wp.where(value > levels[n], 1, 0)
            if shift == 0:
                cells[env, x, y] = wp.uint8(above)
            else:
                cells[env, x, y] = wp.uint8(int(cells[env, x, y]) | (above << shift))


@wp.func
def block_of(marks: int, across: int, seed: wp.uint64, number: int) -> int:
    """Returns the block of a cell, by its marks, those of the cell across the diagonal, and the chance of a number."""
    water, rock = marks & 3, (marks >> ROCK_SHIFT) & 3
    woods = (marks >> WOODS_SHIFT) & 3
    if rock == 3 and woods == 2:
        return s.LAVA
    if rock == 0:
        if water >= 3:
            return s.WATER
        if water == 2:
            return s.SAND
        if woods > 0 and chance(seed, number) > 0.8:
            return s.TREE
        return s.GRASS
    if (((marks | across) >> PATHS_SHIFT) & 1) == 1 or (rock == 3 and water >= 1):
        return s.PATH
    roll = chance(seed, number)
    if roll < 0.04:
        return s.COAL
    if roll < 0.04 + 0.96 * 0.03:
        return s.IRON
    if rock >= 2 and roll < 0.04 + 0.96 * (0.03 + 0.97 * 0.005):
        return s.DIAMOND
    return s.STONE


@wp.func_native(cpp(__file__, "lay_blocks"))
def lay_blocks(cells: wp.array3d[wp.uint8], env: int, seed: wp.uint64, first: int):
    """Makes blocks of all marks, with chances from number ``first`` on."""
    for x in range(s.SIZE):
        for y in range(x + 1):
            one = int(cells[env, x, y])
            other = int(cells[env, y, x])
            cells[env, x, y] = wp.uint8(block_of(one, other, seed, first + s.SIZE * x + y))
            if x != y:
                cells[env, y, x] = wp.uint8(block_of(other, one, seed, first + s.SIZE * y + x))


@wp.func
def hide_diamond(state: s.State, env: int, seed: wp.uint64, first: int):
    """Makes a diamond of one of the stones, which is found by chances from number ``first`` on."""
    for i in range(1000):
        cell = int(chance(seed, first + i) * float(s.SIZE * s.SIZE))
        if int(state.cells[env, cell / s.SIZE, cell % s.SIZE]) == s.STONE:
            state.cells[env, cell / s.SIZE, cell % s.SIZE] = wp.uint8(s.DIAMOND)
            return


@wp.func
def generate_world(state: s.State, env: int, streams: Streams):
    """Generates the map of blocks, without mobs."""
    seed = random_bits(streams, env)
    draw_gradients(state, env, seed, 0, 25)
    stamp(state.gradients, state.cells, env, 16, 16, 0.0, True, WATER_LEVELS, WATER_SHIFT)
    draw_gradients(state, env, seed, 25, 25)
    stamp(state.gradients, state.cells, env, 16, 16, 0.05, True, ROCK_LEVELS, ROCK_SHIFT)
    draw_gradients(state, env, seed, 50, 9 * 33)
    stamp(state.gradients, state.cells, env, 8, 2, 0.0, False, PATHS_LEVELS, PATHS_SHIFT)
    draw_gradients(state, env, seed, 347, 17 * 17)
    stamp(state.gradients, state.cells, env, 4, 4, 0.0, False, WOODS_LEVELS, WOODS_SHIFT)
    lay_blocks(state.cells, env, seed, 636)
    state.cells[env, CENTER, CENTER] = wp.uint8(s.GRASS)
    hide_diamond(state, env, seed, 636 + s.SIZE * s.SIZE)
