"""What the agent observes, in pictures: as the package's wrappers of RGB images draw it, channels first.

Each cell is a copy of a tile out of a table that is drawn once.
"""

# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false
# pyright: reportInvalidTypeForm=false, reportAttributeAccessIssue=false

from functools import cache
from typing import Any

import numpy as np
import warp as wp

from headrace.envs.minigrid.picture import LOOKS, TILE, tile
from headrace.envs.minigrid.sight import DIRECTIONS, LAST, MIDDLE, SIDE, FlatView, Rows, in_view, observing, telling
from headrace.envs.minigrid.world import VALID, State, ahead_x, ahead_y
from headrace.pool.executors.kernels.cpp import cpp

CELLS = wp.constant(256)
LIT = wp.constant(int(DIRECTIONS) + 1)
UP = wp.constant(3)
IN_VIEW, VIEW = wp.constant(SIDE * SIDE), wp.constant(SIDE)
LARGEST = TILE  # pixels, a tile's side
NO_TILES = np.zeros((1, 1, 1, 1), np.uint8)


@wp.struct
class PictureView:
    """The picture alone: uint8[rows, 3, height, width]."""

    obs: wp.array4d[wp.uint8]


@cache
def tiles(size: int) -> np.ndarray:
    """Returns the pictures of all cells with the agent in all directions, uint8[2560, 3, size, size].

    The number of a picture is (lit · 5 + agent) · 256 + cell, where ``agent`` is one more than its direction, 0 where
    it is not.
    """
    table = np.zeros((2, int(LIT), int(CELLS), 3, size, size), np.uint8)
    for lit, agent, cell in np.ndindex(table.shape[:3]):
        if cell in VALID:
            table[lit, agent, cell] = tile(int(LOOKS[cell]) & 0xFFFFFF, agent - 1, bool(lit), size).transpose(2, 0, 1)
    return table.reshape(-1, 3, size, size)


@wp.func_native(cpp(__file__, "put_tile"))
def put_tile(
    picture: wp.array3d[wp.uint8],
    first: int,
    x: int,
    y: int,
    width: int,
    height: int,
    tiles: wp.array4d[wp.uint8],
    number: int,
):
    """Writes a tile where a cell is in a picture, whose width and height are in cells."""
    size = tiles.shape[2]
    for i in range(3 * size * size):
        color, line, column = i / (size * size), i / size % size, i % size
        picture[color, y * size + line, x * size + column] = tiles[number, color, line, column]


@wp.func_native(cpp(__file__, "put_tile"))
def put_tile_in_row(
    picture: wp.array[wp.uint8],
    first: int,
    x: int,
    y: int,
    width: int,
    height: int,
    tiles: wp.array4d[wp.uint8],
    number: int,
):
    """As `put_tile`, in a picture that is the end of a row of numbers, from ``first`` on."""
    size = tiles.shape[2]
    for i in range(3 * size * size):
        color, line, column = i / (size * size), i / size % size, i % size
        at = ((color * height + y) * size + line) * width * size + x * size + column
        picture[first + at] = tiles[number, color, line, column]


@wp.func
def tile_number(cell: int, agent: int, lit: bool) -> int:
    return (wp.where(lit, LIT, 0) + agent) * CELLS + cell


@wp.func
def is_seen(state: State, env: int, rows: Rows, x: int, y: int) -> bool:
    """Returns whether the agent sees a cell of the grid."""
    right, down, direction = x - state.x[env], y - state.y[env], state.direction[env]
    ahead = right * ahead_x(direction) + down * ahead_y(direction)
    aside = (direction + 1) & 3
    across = right * ahead_x(aside) + down * ahead_y(aside) + MIDDLE
    if ahead < 0 or ahead > LAST or across < 0 or across > LAST:
        return False
    return ((rows[ahead] >> (wp.uint64(across) * wp.uint64(8))) & wp.uint64(255)) != wp.uint64(0)


def drawing(full: bool, put: Any) -> Any:
    """Returns a function that draws the whole grid, or else what the agent sees, into an array with ``put``."""

    @wp.func
    def view(state: State, env: int, into: Any, first: int):
        rows = in_view(state, env)
        i = int(0)
        while i < IN_VIEW:
            x, y = i % VIEW, i / VIEW
            cell = int((rows[LAST - y] >> (wp.uint64(x) * wp.uint64(8))) & wp.uint64(255))
            agent = wp.where(x == MIDDLE and y == LAST, UP + 1, 0)
            put(into, first, x, y, VIEW, VIEW, state.tiles, tile_number(cell, agent, agent > 0 or cell > 0))
            i += 1

    @wp.func
    def whole(state: State, env: int, into: Any, first: int):
        rows = in_view(state, env)
        i, width = int(0), state.width
        while i < width * state.height:
            x, y = i % width, i / width
            agent = wp.where(x == state.x[env] and y == state.y[env], state.direction[env] + 1, 0)
            lit = agent > 0 or is_seen(state, env, rows, x, y)
            number = tile_number(int(state.cells[env, i]), agent, lit)
            put(into, first, x, y, width, state.height, state.tiles, number)
            i += 1

    return whole if full else view


def observing_picture(full: bool) -> Any:
    """Returns the environment function ``observe`` of the picture alone."""
    draw = drawing(full, put_tile)

    @wp.func
    def observe(state: State, env: int, view: PictureView, row: int):
        draw(state, env, view.obs[row], 0)

    return observe


def observing_parts(full: bool, words: int) -> Any:
    """Returns the function ``observe`` of the dictionary, whose mission has so many words."""
    draw = drawing(full, put_tile)

    @wp.func
    def look(state: State, env: int, image: wp.array3d[wp.uint8]):
        draw(state, env, image, 0)

    return observing(look, words)


def observing_row(full: bool, words: int) -> Any:
    """Returns the function ``observe`` of one array: the numbers of `telling`, then the picture."""
    draw, tell = drawing(full, put_tile_in_row), telling(words)

    @wp.func
    def observe(state: State, env: int, view: FlatView, row: int):
        tell(state, env, view.obs[row], 0)
        draw(state, env, view.obs[row], DIRECTIONS + words * state.mission.shape[1])

    return observe
