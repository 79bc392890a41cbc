"""Frames of Craftax-Classic: what the player sees, and what it has, in plain tiles of Headrace's own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from headrace.envs.drawing import BLACK, WHITE, Canvas, Color, Point

TILE = 48  # pixels
ROWS, COLUMNS, BELOW = 7, 9, 2  # tiles: what the player sees, and the rows below with what it has
GRASS, EARTH, ROCK, TRUNK = (108, 160, 78), (148, 122, 92), (132, 134, 140), (112, 78, 50)
BLOCKS: tuple[Color, ...] = (
    *(BLACK, (40, 40, 44), GRASS, (64, 122, 196), ROCK, GRASS, TRUNK, EARTH, ROCK, ROCK, ROCK),
    *((166, 118, 70), (92, 92, 98), (220, 204, 146), (214, 84, 34), GRASS, GRASS),
)  # by the block's number
LEAVES, SPROUT, FRUIT = (46, 104, 52), (70, 190, 70), (232, 88, 120)
ORES: Mapping[int, Color] = {8: (44, 44, 48), 9: (214, 158, 112), 10: (196, 240, 246)}
MOBS: tuple[Color, ...] = ((66, 128, 72), (126, 84, 62), (226, 226, 220), (70, 52, 36))
"""zombies, cows, skeletons, arrows"""
SHIRT, SKIN = (46, 96, 168), (245, 208, 172)
MATERIALS: tuple[Color, ...] = (TRUNK, ROCK, ORES[8], ORES[9], ORES[10], SPROUT)
VITALS: tuple[Color, ...] = ((206, 60, 60), (198, 132, 64), (72, 132, 214), (216, 196, 76))
"""health, food, drink, energy"""
TOOLS = (((-0.28, 0.2), (0.06, 0.04)), ((-0.38, -0.02), (-0.2, -0.14)))  # the head of a pickaxe, the hilt of a sword
STEPS = ((0, -1), (0, 1), (-1, 0), (1, 0))  # left, right, up, down as (row, column)


def center(row: float, column: float) -> Point:
    """Returns the center of a tile, in pixels."""
    return (column + 0.5) * TILE, (ROWS + BELOW - row - 0.5) * TILE


def square(canvas: Canvas, at: Point, side: float, color: Color) -> None:
    """Fills a square around a point; ``side`` is in tiles."""
    (x, y), half = at, side * TILE / 2
    canvas.polygon([(x - half, y - half), (x - half, y + half), (x + half, y + half), (x + half, y - half)], color)


def draw_block(canvas: Canvas, at: Point, block: int) -> None:
    """Draws a block of the map."""
    (x, y), unit = at, TILE
    square(canvas, at, 1.0, BLOCKS[block])
    if block == 5:
        square(canvas, (x, y - 0.3 * unit), 0.22, TRUNK)
        canvas.circle((x, y + 0.06 * unit), 0.36 * unit, LEAVES)
    elif block in ORES:
        for dx, dy in ((-0.2, 0.18), (0.22, 0.1), (-0.04, -0.22)):
            canvas.circle((x + dx * unit, y + dy * unit), 0.11 * unit, ORES[block])
    elif block == 11:
        square(canvas, at, 0.7, (196, 150, 98))
    elif block == 12:
        square(canvas, (x, y - 0.12 * unit), 0.44, (238, 140, 50))
    elif block >= 15:
        canvas.line([(x, y - 0.3 * unit), (x, y + 0.15 * unit)], SPROUT, 5)
        canvas.circle((x, y + 0.15 * unit), 0.16 * unit, SPROUT if block == 15 else FRUIT)


def draw_mob(canvas: Canvas, at: Point, kind: int, flight: np.ndarray) -> None:
    """Draws a zombie, cow, skeleton or arrow (0 to 3); an arrow along its flight."""
    (x, y), unit = at, TILE
    if kind == 3:
        dx, dy = 0.3 * unit * flight[1], -0.3 * unit * flight[0]
        canvas.line([(x - dx, y - dy), (x + dx, y + dy)], MOBS[3], 4)
        canvas.circle((x + dx, y + dy), 0.09 * unit, ROCK)
    elif kind == 1:
        canvas.circle((x - 0.06 * unit, y), 0.3 * unit, MOBS[1])
        canvas.circle((x + 0.26 * unit, y + 0.16 * unit), 0.15 * unit, WHITE)
    else:
        square(canvas, (x, y - 0.14 * unit), 0.44, MOBS[kind])
        canvas.circle((x, y + 0.2 * unit), 0.2 * unit, MOBS[kind])
        for dx in (-0.08, 0.08):
            canvas.circle((x + dx * unit, y + 0.22 * unit), 0.04 * unit, BLACK)


def draw_player(canvas: Canvas, at: Point, facing: int, asleep: bool) -> None:
    """Draws the player, with a nose where it is facing."""
    (x, y), unit = at, TILE
    square(canvas, (x, y - 0.16 * unit), 0.44, SHIRT)
    canvas.circle((x, y + 0.18 * unit), 0.2 * unit, SKIN)
    down, right = STEPS[facing - 1]
    if asleep:
        canvas.line([(x - 0.12 * unit, y + 0.18 * unit), (x + 0.12 * unit, y + 0.18 * unit)], BLACK, 3)
    else:
        canvas.circle((x + 0.15 * unit * right, y + (0.18 - 0.15 * down) * unit), 0.06 * unit, BLACK)


def draw_belongings(canvas: Canvas, vitals: np.ndarray, things: np.ndarray) -> None:
    """Draws health, food, drink and energy, and the things that the player has, with their numbers."""
    tools = (TRUNK, ROCK, ORES[9])
    for i, (color, n) in enumerate(zip((*VITALS, *MATERIALS, *tools, *tools), (*vitals, *things), strict=True)):
        if n > 0 or i < len(VITALS):
            x, y = center(ROWS + i // COLUMNS, i % COLUMNS)
            if i < len(VITALS):
                canvas.circle((x - 0.2 * TILE, y), 0.2 * TILE, color)
            elif i < len(VITALS) + len(MATERIALS):
                square(canvas, (x - 0.2 * TILE, y), 0.38, color)
            else:
                ends = TOOLS[i >= len(VITALS) + len(MATERIALS) + len(tools)]
                for line in (((-0.36, -0.2), (-0.06, 0.2)), ends):
                    canvas.line([(x + dx * TILE, y + dy * TILE) for dx, dy in line], color, 5)
            canvas.text((x + 0.24 * TILE, y), str(int(n)), 0.4 * TILE, WHITE)


def render(state: Mapping[str, Any]) -> np.ndarray:
    """Returns what the player sees, darker at night and asleep, above what it has: uint8[432, 432, 3]."""
    canvas = Canvas(COLUMNS * TILE, (ROWS + BELOW) * TILE, BLACK)
    player = np.asarray(state["player"])
    corner = player - (ROWS // 2, COLUMNS // 2)
    cells = np.pad(np.asarray(state["cells"]) & 31, 10, constant_values=1)
    for row in range(ROWS):
        for column in range(COLUMNS):
            x, y = corner + np.array((row + 10, column + 10))
            draw_block(canvas, center(row, column), int(cells[x, y]))
    for mob, place in enumerate(np.asarray(state["places"]) - corner):
        if state["alive"] >> mob & 1 and (place >= 0).all() and (place < (ROWS, COLUMNS)).all():
            kind = (0, 0, 0, 1, 1, 1, 2, 2, 3, 3, 3)[mob]
            draw_mob(canvas, center(*place), kind, state["flights"][mob - 8] if kind == 3 else place)
    draw_player(canvas, center(*(player - corner)), int(state["facing"]), bool(state["asleep"]))
    draw_belongings(canvas, state["vitals"], state["things"])
    frame = canvas.array().copy()
    seen = frame[: ROWS * TILE]
    seen[:] = seen * (0.35 if state["asleep"] else 0.4 + 0.6 * float(state["light"]))
    return frame
