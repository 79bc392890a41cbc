"""How a world is generated: water, sand, mountains with paths, caves, ores and lava, meadows and trees.

Four maps of gradient noise (Perlin, "Improving noise", 2002) decide, each scaled to 0 to 1 over the whole map. While a
world is generated, a cell's byte holds which thresholds each noise is above there.
"""

# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false

import math

import warp as wp

from headrace.envs.craftax.state import (
    COAL,
    DIAMOND,
    GRASS,
    IRON,
    LAVA,
    PATH,
    SAND,
    SIZE,
    STONE,
    TREE,
    WATER,
    State,
)
from headrace.pool.executors.kernels import Streams, integers, random_bits

TWO_PI = wp.constant(float(2.0 * math.pi))
UNIT = wp.constant(float(2.0**-24))
CENTER = wp.constant(int(SIZE) // 2)
CLEARING = wp.constant(5.0)  # steps from the player's start within which there is less water and rock

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
def draw_gradients(state: State, env: int, seed: wp.uint64, first: int, count: int):
    """Draws the gradients of one noise, unit vectors of any angle."""
    for i in range(count):
        angle = TWO_PI * chance(seed, first + i)
        state.gradients[env, i] = wp.vec2f(wp.cos(angle), wp.sin(angle))


@wp.func
def ease(t: float) -> float:
    return t * t * t * (t * (t * 6.0 - 15.0) + 10.0)


@wp.func
def noise_line(state: State, env: int, x: int, corner: int, rows: int, columns: int) -> wp.vec4f:
    """Returns the noise of row x between two corners as a line along the row from each: (at, slope) × 2.

    Cells of the noise have ``rows`` × ``columns`` of the map; ``corner`` is the number of the corner column.
    """
    wide = SIZE / columns + 1
    i = (x / rows) * wide + corner
    down = float(x % rows) / float(rows)
    t = ease(down)
    upper_left = state.gradients[env, i]
    upper_right = state.gradients[env, i + 1]
    lower_left = state.gradients[env, i + wide]
    lower_right = state.gradients[env, i + wide + 1]
    return wp.vec4f(
        (1.0 - t) * upper_left[0] * down + t * lower_left[0] * (down - 1.0),
        (1.0 - t) * upper_left[1] + t * lower_left[1],
        (1.0 - t) * upper_right[0] * down + t * lower_right[0] * (down - 1.0),
        (1.0 - t) * upper_right[1] + t * lower_right[1],
    )


@wp.func
def noise_at(line: wp.vec4f, right: float) -> float:
    """Returns the noise at a part of the way along `noise_line`."""
    t = ease(right)
    return (1.0 - t) * (line[0] + line[1] * right) + t * (line[2] + line[3] * (right - 1.0))


@wp.func
def stamp(state: State, env: int, rows: int, columns: int, lift: float, clears: bool, levels: wp.vec3f, shift: int):
    """Adds to each cell's byte how many of the levels the noise of the present gradients is above there.

    ``lift`` is added to the noise and, if it ``clears``, what is missing to a full distance from the player's start
    is taken off.
    """
    low, high = float(1e9), float(-1e9)
    for x in range(SIZE):
        for corner in range(SIZE / columns):
            line = noise_line(state, env, x, corner, rows, columns)
            for k in range(columns):
                value = noise_at(line, float(k) / float(columns))
                low, high = wp.min(low, value), wp.max(high, value)
    scale = 1.0 / (high - low)
    for x in range(SIZE):
        for corner in range(SIZE / columns):
            line = noise_line(state, env, x, corner, rows, columns)
            for k in range(columns):
                value = (noise_at(line, float(k) / float(columns)) - low) * scale + lift
                y = corner * columns + k
                if clears:
                    steps = float(wp.abs(x - CENTER) + wp.abs(y - CENTER))
                    value += wp.min(steps / CLEARING, 1.0) - 1.0
                above = int(0)
                for n in range(3):
                    above += wp.where(value > levels[n], 1, 0)
                state.cells[env, x, y] = wp.uint8(int(state.cells[env, x, y]) | (above << shift))


@wp.func
def block_of(marks: int, across: int, roll: float) -> int:
    """Returns the block of a cell, by its marks, those of the cell across the diagonal, and a chance."""
    water, rock = marks & 3, (marks >> ROCK_SHIFT) & 3
    woods = (marks >> WOODS_SHIFT) & 3
    if rock == 3 and woods == 2:
        return LAVA
    if rock == 0:
        if water >= 3:
            return WATER
        if water == 2:
            return SAND
        return wp.where(woods > 0 and roll > 0.8, TREE, GRASS)
    if (((marks | across) >> PATHS_SHIFT) & 1) == 1 or (rock == 3 and water >= 1):
        return PATH
    if roll < 0.04:
        return COAL
    if roll < 0.04 + 0.96 * 0.03:
        return IRON
    if rock >= 2 and roll < 0.04 + 0.96 * (0.03 + 0.97 * 0.005):
        return DIAMOND
    return STONE


@wp.func
def lay_blocks(state: State, env: int, seed: wp.uint64, first: int) -> int:
    """Makes blocks of all marks, with chances from number ``first`` on; returns the number of stones."""
    stones = int(0)
    for x in range(SIZE):
        for y in range(x + 1):
            one, other = int(state.cells[env, x, y]), int(state.cells[env, y, x])
            block = block_of(one, other, chance(seed, first + SIZE * x + y))
            across = block
            if x != y:
                across = block_of(other, one, chance(seed, first + SIZE * y + x))
                stones += wp.where(across == STONE, 1, 0)
            stones += wp.where(block == STONE, 1, 0)
            if x == CENTER and y == CENTER:
                stones -= wp.where(block == STONE, 1, 0)
                block = GRASS
                across = GRASS
            state.cells[env, x, y] = wp.uint8(block)
            state.cells[env, y, x] = wp.uint8(across)
    return stones


@wp.func
def hide_diamond(state: State, env: int, streams: Streams, stones: int):
    """Makes a diamond of one of the stones."""
    skip = integers(streams, env, 0, wp.max(stones, 1))
    for x in range(SIZE):
        for y in range(SIZE):
            if int(state.cells[env, x, y]) == STONE:
                if skip == 0:
                    state.cells[env, x, y] = wp.uint8(DIAMOND)
                    return
                skip -= 1


@wp.func
def generate_world(state: State, env: int, streams: Streams):
    """Generates the map of blocks, without mobs."""
    for x in range(SIZE):
        for y in range(SIZE):
            state.cells[env, x, y] = wp.uint8(0)
    seed = random_bits(streams, env)
    draw_gradients(state, env, seed, 0, 25)
    stamp(state, env, 16, 16, 0.0, True, WATER_LEVELS, WATER_SHIFT)
    draw_gradients(state, env, seed, 25, 25)
    stamp(state, env, 16, 16, 0.05, True, ROCK_LEVELS, ROCK_SHIFT)
    draw_gradients(state, env, seed, 50, 9 * 33)
    stamp(state, env, 8, 2, 0.0, False, PATHS_LEVELS, PATHS_SHIFT)
    draw_gradients(state, env, seed, 347, 17 * 17)
    stamp(state, env, 4, 4, 0.0, False, WOODS_LEVELS, WOODS_SHIFT)
    stones = lay_blocks(state, env, seed, 636)
    hide_diamond(state, env, streams, stones)
