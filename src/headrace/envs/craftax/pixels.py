"""Craftax-Classic seen in pictures: what the package craftax draws of a state, in the textures of that package."""

# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportAttributeAccessIssue=false
# pyright: reportIndexIssue=false, reportOperatorIssue=false

import dataclasses

import gymnasium as gym
import numpy as np
import warp as wp

from headrace.envs.craftax import state as s
from headrace.envs.craftax import textures as t
from headrace.envs.craftax.classic import GAME, show_flags
from headrace.envs.craftax.classic import TASKS as SYMBOLIC
from headrace.envs.craftax.world import chance
from headrace.pool.flat_observation import PICTURES, pictures_option

TILE, ICON, DIGIT = wp.constant(t.TILE), wp.constant(t.ICON), wp.constant(t.DIGIT)
ROWS, COLUMNS = wp.constant(t.ROWS), wp.constant(t.COLUMNS)
WIDTH = wp.constant(t.COLUMNS * t.TILE)  # pixels
HEIGHT = wp.constant((t.ROWS + 2) * t.TILE)
FIRST_FIGURE, FIRST_THING = wp.constant(t.FIRST_FIGURE), wp.constant(t.FIRST_THING)
FIRST_DIGIT, FIRST_NIGHT = wp.constant(t.FIRST_DIGIT), wp.constant(t.FIRST_NIGHT)
SLEEPER, FIRST_MOB, FIRST_ARROW = wp.constant(4), wp.constant(5), wp.constant(8)  # figures; four players come first


@wp.struct
class PixelView:
    """``obs`` uint8[rows, 63, 63, 3] or, channels first, uint8[rows, 3, 63, 63]; ``achievements`` bool[rows, 22]."""

    obs: wp.array4d[wp.uint8]
    achievements: wp.array2d[wp.bool]


@wp.func
def figure_of(state: s.State, env: int, mob: int) -> int:
    """Returns the figure of a mob."""
    if mob < s.ARROWS:
        return FIRST_MOB + wp.where(mob < s.COWS, 0, wp.where(mob < s.SKELETONS, 1, 2))
    flight = state.flights[env, mob - s.ARROWS]
    back = wp.where(flight[0] > 0 or flight[1] > 0, 1, 0)
    return FIRST_ARROW + wp.where(flight[1] != 0, 0, 2) + back


@wp.func
def figures_at(state: s.State, env: int, place: wp.vec2i) -> wp.uint64:
    """Returns one more than each figure at a place, in four bits each, the one behind first."""
    figures, shift = wp.uint64(0), wp.uint64(0)
    if place == state.player[env]:
        figures = wp.uint64(1 + wp.where(state.asleep[env], SLEEPER, state.facing[env] - 1))
        shift = wp.uint64(4)
    for mob in range(s.MOBS):
        if s.lives(state, env, mob) and state.places[env, mob] == place:
            figures = figures | (wp.uint64(1 + figure_of(state, env, mob)) << shift)
            shift += wp.uint64(4)
    return figures


@wp.func
def pixel_at(state: s.State, block: int, figures: wp.uint64, pixel: int) -> wp.vec3f:
    """Returns the color of a place's pixel, by day."""
    seen = state.textures[block * TILE * TILE + pixel]
    color = wp.vec3f(seen[0], seen[1], seen[2])
    rest = figures
    while rest != wp.uint64(0):
        figure = int(rest & wp.uint64(15)) - 1
        over = state.textures[FIRST_FIGURE + figure * TILE * TILE + pixel]
        color = color * (1.0 - over[3]) + wp.vec3f(over[0], over[1], over[2]) * over[3]
        rest = rest >> wp.uint64(4)
    return color


@wp.func
def brightness(color: wp.vec3f) -> float:
    return 0.299 * color[0] + 0.587 * color[1] + 0.114 * color[2]


@wp.func
def by_night(color: wp.vec3f, light: float, noise: float, strength: float) -> wp.vec3f:
    """Returns a color as it is seen at a light; ``noise`` is 0 to 1, and shows where there is less than half of it."""
    dark = color
    if light < 0.5:
        share = 2.0 * (0.5 - light) * strength
        shown = share * (noise * 95.0 + 32.0)
        dark = color * (1.0 - share) + wp.vec3f(shown, shown, shown)
    grey = (1.0 - 0.4) * brightness(dark)
    dark = dark * 0.4 + wp.vec3f(grey, grey, grey)
    dark = 0.5 * dark + 0.5 * wp.vec3f(0.0, 16.0, 64.0)
    return light * color + (1.0 - light) * dark


@wp.func
def to_byte(number: float) -> wp.uint8:
    return wp.uint8(int(number + 0.5))


@wp.func
def put(pictures: wp.array4d[wp.uint8], row: int, y: int, x: int, c: int, byte: wp.uint8):
    """Writes a channel of a pixel, which is in the last dimension or in the first one after the rows."""
    if pictures.shape[3] == 3:
        pictures[row, y, x, c] = byte
    else:
        pictures[row, c, y, x] = byte


@wp.func
def draw_place(state: s.State, env: int, view: PixelView, row: int, i: int, j: int):
    """Draws a place of the map."""
    place = state.player[env] + wp.vec2i(i - ROWS / 2, j - COLUMNS / 2)
    block = s.OUTSIDE
    if s.inside(place):
        block = int(state.cells[env, place[0], place[1]]) & s.BLOCK
    figures = figures_at(state, env, place)
    player, light = state.player[env], state.light[env]
    drawn = wp.uint64((state.time[env] * s.SIZE + player[0]) * s.SIZE + player[1]) << wp.uint64(32)
    for k in range(TILE * TILE):
        y, x = i * TILE + k / TILE, j * TILE + k % TILE
        number = y * WIDTH + x
        noise = float(0.0)
        if light < 0.5:
            noise = chance(drawn, number)
        color = by_night(pixel_at(state, block, figures, k), light, noise, state.textures[FIRST_NIGHT + number][0])
        if state.asleep[env]:
            grey = 0.5 * brightness(color)
            color = wp.vec3f(grey, grey, grey + 8.0)
        for c in range(3):
            put(view.obs, row, y, x, c, to_byte(color[c]))


@wp.func
def draw_thing(state: s.State, env: int, view: PixelView, row: int, tile: int):
    """Draws what is shown in a tile below the map and how many there are; black where there are none.

    The first tiles show health, food, drink, energy, a sapling, wood to iron; the row below, a diamond and tools.
    """
    thing, count = int(tile), int(0)
    if tile < 4:
        count = state.vitals[env, tile]
    else:
        held = wp.where(tile > COLUMNS, tile - 4, wp.where(tile == 4, s.SAPLINGS, tile - 5))
        thing = 4 + held
        count = state.things[env, held]
    top, left = (ROWS + tile / COLUMNS) * TILE, tile % COLUMNS * TILE
    for k in range(ICON * ICON):
        icon = state.textures[FIRST_THING + thing * ICON * ICON + k]
        for c in range(3):
            put(view.obs, row, top + k / ICON, left + k % ICON, c, to_byte(wp.where(count > 0, icon[c], 0.0)))
    k = int(0)
    while k < DIGIT * DIGIT:  # range() would be unrolled
        digit = state.textures[FIRST_DIGIT + count * DIGIT * DIGIT + k]
        if digit[3] > 0.0:
            for c in range(3):
                put(view.obs, row, top + 2 + k / DIGIT, left + 2 + k % DIGIT, c, to_byte(digit[c]))
        k += 1


@wp.func
def observe(state: s.State, env: int, view: PixelView, row: int):
    for i in range(ROWS * COLUMNS):  # one loop, too long to be unrolled: a GPU's compiler takes minutes for 63 copies
        draw_place(state, env, view, row, i / COLUMNS, i % COLUMNS)
    for y in range(ROWS * TILE, HEIGHT):
        for x in range(WIDTH):
            for c in range(3):
                put(view.obs, row, y, x, c, wp.uint8(0))
    tile = int(0)
    while tile < 4 + s.THINGS:  # range() would be unrolled
        draw_thing(state, env, view, row, tile)
        tile += 1
    show_flags(view.achievements, row, state.achieved[env])


SHAPES = {False: (int(HEIGHT), int(WIDTH), 3), PICTURES: (3, int(HEIGHT), int(WIDTH))}
PIXELS = dataclasses.replace(
    GAME,
    name="CraftaxClassicPixels",
    view=PixelView,
    observe=observe,
    tables=t.Tables(GAME.tables),
    inlined=False,  # pictures, where most of a step goes, would take 7 % longer
)
TASKS = {
    "Craftax-Classic-Pixels-v1": dataclasses.replace(
        SYMBOLIC["Craftax-Classic-Symbolic-v1"],
        env=PIXELS,
        observation=lambda options: gym.spaces.Box(0, 255, SHAPES[options["flat_observation"]], np.uint8),
        options={"flat_observation": pictures_option()},
    )
}
