"""Pictures of MiniGrid's cells, with the colours and shapes of its package."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import numpy as np

from headrace.envs.minigrid.sight import SIDE
from headrace.envs.minigrid.world import BALL, BOX, FLOOR, GOAL_KIND, KEY, LAVA, OPEN, WALL, looks

TILE, FINER = 32, 3  # pixels of a cell, and how much finer shapes are drawn
COLORS = ((255, 0, 0), (0, 255, 0), (0, 0, 255), (112, 39, 195), (255, 255, 0), (100, 100, 100))
LINE, BLACK, ORANGE = (100, 100, 100), (0, 0, 0), (255, 128, 0)
LIGHT = 0.3  # how much of white there is in cells that the agent sees
LOOKS = looks()

Area = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""where a shape is: the columns and rows of points, 0 to 1 within the cell → whether they are in it"""
Shape = tuple[Area, Any]
"""a shape, and its colour"""


def rectangle(left: float, right: float, top: float, bottom: float) -> Area:
    return lambda x, y: (left <= x) & (right >= x) & (top <= y) & (bottom >= y)


def circle(x0: float, y0: float, radius: float) -> Area:
    return lambda x, y: (x - x0) ** 2 + (y - y0) ** 2 <= radius**2


def segment(x0: float, y0: float, x1: float, y1: float, radius: float) -> Area:
    """Returns the area that is no further than ``radius`` from a line."""
    length = (x1 - x0) ** 2 + (y1 - y0) ** 2

    def area(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        along = np.clip(((x - x0) * (x1 - x0) + (y - y0) * (y1 - y0)) / length, 0, 1)
        return (x - x0 - along * (x1 - x0)) ** 2 + (y - y0 - along * (y1 - y0)) ** 2 <= radius**2

    return area


def arrow(direction: int) -> Area:
    """Returns the agent's triangle, which points to the right in direction 0."""

    def area(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        inside = (np.abs(y - 0.5) * 0.75 <= 0.31 * (0.87 - x)) & (x >= 0.12)
        return np.rot90(inside, -direction)

    return area


def _door(state: int, color: Any) -> list[Shape]:
    if state == 0:
        return [(rectangle(0.88, 1, 0, 1), color), (rectangle(0.92, 0.96, 0.04, 0.96), BLACK)]
    whole = (rectangle(0, 1, 0, 1), color)
    if state == 2:
        dim = tuple(int(0.45 * part) for part in color)
        return [whole, (rectangle(0.06, 0.94, 0.06, 0.94), dim), (rectangle(0.52, 0.75, 0.5, 0.56), color)]
    frames = [(0.04, BLACK), (0.08, color), (0.12, BLACK)]
    return [
        whole,
        *((rectangle(edge, 1 - edge, edge, 1 - edge), shade) for edge, shade in frames),
        (circle(0.75, 0.5, 0.08), color),
    ]


def _key(state: int, color: Any) -> list[Shape]:
    bars = [(0.5, 0.63, 0.31, 0.88), (0.38, 0.5, 0.59, 0.66), (0.38, 0.5, 0.81, 0.88)]
    ring = [(circle(0.56, 0.28, 0.19), color), (circle(0.56, 0.28, 0.064), BLACK)]
    return [*((rectangle(*bar), color) for bar in bars), *ring]


def _box(state: int, color: Any) -> list[Shape]:
    bars = [(0.12, 0.88, color), (0.18, 0.82, BLACK)]
    return [
        *((rectangle(low, high, low, high), shade) for low, high, shade in bars),
        (rectangle(0.16, 0.84, 0.47, 0.53), color),
    ]


def _lava(state: int, color: Any) -> list[Shape]:
    waves = [
        segment(x, top + 0.1 * (i % 2), x + 0.2, top + 0.1 * (1 - i % 2), 0.03)
        for top in (0.3, 0.5, 0.7)
        for i, x in enumerate((0.1, 0.3, 0.5, 0.7))
    ]
    return [(rectangle(0, 1, 0, 1), ORANGE), *((wave, BLACK) for wave in waves)]


SHAPES: Mapping[int, Callable[[int, Any], list[Shape]]] = {
    2: lambda state, color: [(rectangle(0, 1, 0, 1), color)],  # a wall
    int(FLOOR): lambda state, color: [(rectangle(0.031, 1, 0.031, 1), tuple(part / 2 for part in color))],
    int(GOAL_KIND): lambda state, color: [(rectangle(0, 1, 0, 1), color)],
    int(BALL): lambda state, color: [(circle(0.5, 0.5, 0.31), color)],
    int(OPEN): _door,
    int(KEY): _key,
    int(BOX): _box,
    int(LAVA): _lava,
}
"""kind → the shapes of a thing of a state and a colour"""


@cache
def tile(look: int, agent: int, lit: bool, size: int = TILE) -> np.ndarray:
    """Returns the picture of a cell, uint8[size, size, 3]; ``agent`` is the direction of the agent there, -1 for none.

    ``lit`` says whether the agent sees the cell.
    """
    y, x = (np.mgrid[: size * FINER, : size * FINER] + 0.5) / (size * FINER)
    fine = np.zeros((*x.shape, 3), np.uint8)
    kind, color, state = (look >> shift & 255 for shift in (0, 8, 16))
    shapes = [(rectangle(0, 0.031, 0, 1), LINE), (rectangle(0, 1, 0, 0.031), LINE)]
    if kind in SHAPES:
        shapes += SHAPES[kind](state, COLORS[color])
    if agent >= 0:
        shapes.append((arrow(agent), COLORS[0]))
    for area, shade in shapes:
        fine[area(x, y)] = shade
    if lit:
        fine = (fine + LIGHT * (255 - fine.astype(float))).astype(np.uint8)
    return fine.reshape(size, FINER, size, FINER, 3).mean(3).mean(1).astype(np.uint8)


def visible(cells: np.ndarray, x: int, y: int, direction: int, see_through: bool) -> np.ndarray:
    """Returns which cells [height, width] the agent sees: what `sight.row_ahead` says, bit by bit."""
    height, width = cells.shape
    ahead = np.array(((0, 1), (1, 0), (0, -1), (-1, 0))[direction])
    right = np.array((ahead[1], -ahead[0]))
    seen, lit = np.zeros((height, width), bool), np.arange(SIDE) == SIDE // 2
    for row in range(SIDE):
        at = np.array((y, x)) + row * ahead + np.arange(-(SIDE // 2), SIDE // 2 + 1)[:, None] * right
        inside = ((at >= 0) & (at < (height, width))).all(1)
        own = np.where(inside, cells[tuple(at.clip(0, (height - 1, width - 1)).T)], WALL)
        clear = own & 0x8C != 0x0C
        through = lit & clear
        for _ in range(SIDE):
            through |= _wider(through) & clear
        shown = np.ones(SIDE, bool) if see_through else lit | _wider(through)
        seen[tuple(at[inside & shown].T)] = True
        lit = _wider(through)
    return seen


def _wider(row: np.ndarray) -> np.ndarray:
    padded = np.pad(row, 1)
    return row | padded[2:] | padded[:-2]


def render(state: Mapping[str, Any]) -> np.ndarray:
    """Returns a picture of the grid, uint8[32 · height, 32 · width, 3]; what the agent sees is lighter."""
    width, height = int(state["width"]), int(state["height"])
    cells = np.asarray(state["cells"]).reshape(height, width)
    x, y, direction = (int(state[name]) for name in ("x", "y", "direction"))
    seen = visible(cells, x, y, direction, bool(state["see_through"]))
    picture = np.zeros((height * TILE, width * TILE, 3), np.uint8)
    for j, i in np.ndindex(height, width):
        agent = direction if (i, j) == (x, y) else -1
        at = slice(j * TILE, (j + 1) * TILE), slice(i * TILE, (i + 1) * TILE)
        picture[at] = tile(int(LOOKS[cells[j, i]]), agent, bool(seen[j, i]))
    return picture
