"""Draws a board of chess: pieces are polygons in their cells, from 0 to 1 in both directions."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from headrace.envs.boards.common import CELL, LINE, PIECES
from headrace.envs.drawing import Canvas, Color, Point

CELLS: tuple[Color, Color] = ((176, 126, 84), (236, 216, 180))
# fmt: off
FOOT = [(0.2, 0.1), (0.8, 0.1), (0.8, 0.2), (0.7, 0.26)]
OUTLINES: list[list[Point]] = [
    [*FOOT, (0.57, 0.5), (0.65, 0.56), (0.6, 0.72), (0.5, 0.78), (0.4, 0.72), (0.35, 0.56), (0.43, 0.5)],
    [
        *FOOT,
        (0.74, 0.5),
        (0.66, 0.72),
        (0.5, 0.88),
        (0.46, 0.78),
        (0.22, 0.56),
        (0.26, 0.44),
        (0.48, 0.5),
        (0.32, 0.26),
    ],
    [*FOOT, (0.58, 0.34), (0.68, 0.52), (0.62, 0.68), (0.5, 0.88), (0.38, 0.68), (0.32, 0.52), (0.42, 0.34)],
    [*FOOT, (0.64, 0.6), (0.74, 0.66), (0.74, 0.84), (0.6, 0.84), (0.6, 0.76), (0.4, 0.76), (0.4, 0.84), (0.26, 0.84),
     (0.26, 0.66), (0.36, 0.6)],
    [*FOOT, (0.88, 0.76), (0.68, 0.54), (0.64, 0.86), (0.5, 0.56), (0.36, 0.86), (0.32, 0.54), (0.12, 0.76)],
    [*FOOT, (0.82, 0.5), (0.74, 0.64), (0.55, 0.62), (0.55, 0.72), (0.66, 0.72), (0.66, 0.8), (0.55, 0.8), (0.55, 0.92),
     (0.45, 0.92), (0.45, 0.8), (0.34, 0.8), (0.34, 0.72), (0.45, 0.72), (0.45, 0.62), (0.26, 0.64), (0.18, 0.5)],
]
"""from pawn to king, counterclockwise; what is left of the foot follows"""
# fmt: on


def render(state: Mapping[str, Any]) -> np.ndarray:
    """Returns a frame uint8[384, 384, 3] of the newest position, with white below."""
    canvas = Canvas(8 * CELL, 8 * CELL, CELLS[1])
    white, *bits = (int(word) for word in state["positions"][0])
    for y, x in np.ndindex(8, 8):
        left, low = x * CELL, y * CELL
        if (x + y) % 2 == 0:
            canvas.polygon([(left, low), (left + CELL, low), (left + CELL, low + CELL), (left, low + CELL)], CELLS[0])
        kind = sum((word >> 8 * y + x & 1) << i for i, word in enumerate(bits))
        if kind > 0:
            outline = [(left + px * CELL, low + py * CELL) for px, py in [*OUTLINES[kind - 1], (0.3, 0.26), (0.2, 0.2)]]
            canvas.polygon(outline, PIECES[white >> 8 * y + x & 1])
            canvas.line([*outline, outline[0]], LINE, 1.5)
    return canvas.array()
