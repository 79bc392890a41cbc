"""Rendering of the games of tag: the field, the agents as discs, and their earlier positions as fading trails."""

from __future__ import annotations

import math

import numpy as np

from headrace.envs.drawing import Canvas, Color, box

SIZE = 480  # pixels, side of a frame
MOST_LINES = 60  # largest number of cells a side for which grid lines are drawn
FIELD, LINES, EDGE = (250, 250, 247), (230, 230, 224), (120, 120, 115)
TAGGER, RUNNER, GONE = (214, 69, 65), (38, 115, 190), (205, 205, 200)


def picture(
    x: np.ndarray,
    y: np.ndarray,
    is_runner: np.ndarray,
    alive: np.ndarray,
    trail: np.ndarray,
    cells: int = 0,
    heading: np.ndarray | None = None,
) -> np.ndarray:
    """Returns a frame of the game, uint8[480, 480, 3].

    Args:
        x, y: float[agents], positions in [0, 1].
        is_runner, alive: bool[agents], whether an agent is a runner, and whether it is in the game.
        trail: float[steps, 2, agents], earlier positions in [0, 1], oldest first.
        cells: number of cells a side, for grid lines; 0 for no lines.
        heading: float[agents], directions of the agents (rad); None to draw no directions.
    """
    canvas = Canvas(SIZE, SIZE, FIELD)
    pitches = cells if cells <= MOST_LINES else 0
    for i in range(1, pitches):
        at = i * SIZE / pitches
        canvas.line([(at, 0), (at, SIZE)], LINES)
        canvas.line([(0, at), (SIZE, at)], LINES)
    radius = SIZE * min(0.4 / pitches if pitches else 1.0, 0.05 / math.sqrt(len(x)) + 0.004)
    path = np.concatenate([trail, np.stack([x, y])[None]]) * SIZE
    colors = [(RUNNER if runs else TAGGER) if lives else GONE for runs, lives in zip(is_runner, alive, strict=True)]
    order = np.lexsort((is_runner, alive))  # runners, and agents in the game, are drawn over the others
    for agent in order:
        _draw_trail(canvas, path[:, :, agent], colors[agent], radius)
    for agent in order:
        at = (float(path[-1, 0, agent]), float(path[-1, 1, agent]))
        canvas.circle(at, radius, colors[agent])
        if heading is not None and alive[agent]:
            canvas.polygon(box(0, 2 * radius, -radius / 3, radius / 3, float(heading[agent]), at), colors[agent])
    canvas.line([(0, 0), (0, SIZE), (SIZE, SIZE), (SIZE, 0), (0, 0)], EDGE, 3)
    return canvas.array()


def _draw_trail(canvas: Canvas, path: np.ndarray, color: Color, radius: float) -> None:
    steps = len(path) - 1
    for i in range(steps):
        strength = 0.15 + 0.5 * (i + 1) / steps
        red, green, blue = (round(f + (c - f) * strength) for f, c in zip(FIELD, color, strict=True))
        width = max(1.0, radius * strength)
        canvas.line([tuple(point) for point in path[i : i + 2].tolist()], (red, green, blue), width)
