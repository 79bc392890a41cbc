"""A frame of a Crazyflie in flight: the craft three times its size, its shadow, and the target."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from headrace.envs.drawing import Canvas, Color, Point

SIZE = 480  # pixels, side of a frame
SCALE = 160.0  # pixels for a metre
ENLARGED = 4.0  # the craft, which is 9 cm across
ARM, RADIUS = 0.028, 0.023  # m, as the physics has it; of a rotor
FLOOR = -1.2  # m, where the shadow falls
SKY, GROUND, LINES = (236, 242, 248), (214, 220, 214), (196, 203, 197)
SHADOW, TARGET, CURVE, BODY = (176, 184, 178), (214, 69, 65), (226, 160, 158), (40, 44, 52)
FRONT, BACK = (38, 115, 190), (90, 96, 108)
ROTORS = ((1, -1, FRONT), (-1, -1, BACK), (-1, 1, BACK), (1, 1, FRONT))


def picture(
    place: np.ndarray, attitude: np.ndarray, rotors: np.ndarray, extents: Sequence[float] | None, phase: float
) -> np.ndarray:
    """Returns a frame, uint8[480, 480, 3], seen from behind and above: x is ahead, y to the left, z up.

    Args:
        place: m, float[3].
        attitude: the quaternion (w, x, y, z).
        rotors: speeds in [0, 1], float[4].
        extents: m, the curve's along x, y and z; None if the target is the origin.
        phase: of the target's way along the curve, [0, 1).
    """
    canvas = Canvas(SIZE, SIZE, SKY)
    edge = 1.6
    canvas.polygon(
        [_seen(x, y, FLOOR) for x, y in ((-edge, -edge), (-edge, edge), (edge, edge), (edge, -edge))], GROUND
    )
    for at in np.linspace(-edge, edge, 9):
        canvas.line([_seen(at, -edge, FLOOR), _seen(at, edge, FLOOR)], LINES)
        canvas.line([_seen(-edge, at, FLOOR), _seen(edge, at, FLOOR)], LINES)
    if extents is not None:
        canvas.line([_seen(*_on_curve(extents, t)) for t in np.linspace(0.0, 1.0, 97)], CURVE, 1.5)
    _draw_target(canvas, _on_curve(extents, phase) if extents is not None else (0.0, 0.0, 0.0))
    _draw_craft(canvas, np.asarray(place, float), _rotation(attitude), rotors)
    return canvas.array()


def _on_curve(extents: Sequence[float], phase: float) -> tuple[float, float, float]:
    angle = 2 * math.pi * phase
    return extents[0] * math.sin(2 * angle), extents[1] * math.sin(angle), extents[2] * math.sin(angle)


def _seen(x: float, y: float, z: float) -> Point:
    """Returns where a place is in the frame: an oblique view from behind."""
    return SIZE / 2 - SCALE * (0.84 * y - 0.3 * x), SIZE / 2 + SCALE * (0.86 * z + 0.34 * x + 0.12 * y) + 40


def _rotation(q: np.ndarray) -> np.ndarray:
    """Returns the matrix whose columns are the body's axes in the world, float[3, 3]."""
    w, x, y, z = (float(part) for part in q)
    return np.array(
        [
            [1 - 2 * y * y - 2 * z * z, 2 * x * y - 2 * w * z, 2 * x * z + 2 * w * y],
            [2 * x * y + 2 * w * z, 1 - 2 * x * x - 2 * z * z, 2 * y * z - 2 * w * x],
            [2 * x * z - 2 * w * y, 2 * y * z + 2 * w * x, 1 - 2 * x * x - 2 * y * y],
        ]
    )


def _draw_target(canvas: Canvas, at: tuple[float, float, float]) -> None:
    for axis in np.eye(3) * 0.07:
        canvas.line([_seen(*(np.array(at) - axis)), _seen(*(np.array(at) + axis))], TARGET, 2)


def _draw_craft(canvas: Canvas, place: np.ndarray, turn: np.ndarray, rotors: np.ndarray) -> None:
    arms = [place + turn @ np.array([x * ARM, y * ARM, 0.0]) * ENLARGED for x, y, _ in ROTORS]
    for arm in arms:
        canvas.polygon(_disc(np.array([arm[0], arm[1], FLOOR]), np.eye(3)), SHADOW)
    for a, b in ((0, 2), (1, 3)):
        canvas.line([_seen(*arms[a]), _seen(*arms[b])], BODY, 3)
    canvas.circle(_seen(*place), 4, BODY)
    for arm, speed, (_, _, color) in zip(arms, rotors, ROTORS, strict=True):
        canvas.polygon(_disc(arm, turn), _faded(color, float(speed)))
        canvas.line([_seen(*arm), _seen(*(arm + turn[:, 2] * 0.25 * float(speed) ** 2))], color, 1.5)


def _disc(center: np.ndarray, turn: np.ndarray) -> list[Point]:
    angles = np.linspace(0, 2 * math.pi, 20, endpoint=False)
    return [_seen(*(center + turn @ np.array([math.cos(a), math.sin(a), 0.0]) * RADIUS * ENLARGED)) for a in angles]


def _faded(color: Color, strength: float) -> Color:
    red, green, blue = (round(255 - (255 - part) * (0.3 + 0.6 * strength)) for part in color)
    return red, green, blue
