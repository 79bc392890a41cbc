"""A canvas on which environments draw their frames, as RGB arrays.

Coordinates are in pixels, with the origin at the lower left and y pointing up, as in Gymnasium's
drawing code for the classic environments. Shapes are drawn at twice the resolution and then
downsampled, which smooths their edges. Requires Pillow, which is imported when the first canvas is created.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

Point = tuple[float, float]
Color = tuple[int, int, int]

BLACK: Color = (0, 0, 0)
WHITE: Color = (255, 255, 255)
OVERSAMPLING = 2


class Canvas:
    """An image of ``width`` × ``height`` pixels. Colors are (red, green, blue), each 0 to 255."""

    def __init__(self, width: int, height: int, background: Color = WHITE):
        from PIL import Image, ImageDraw

        self._height = height
        self._image = Image.new("RGB", (width * OVERSAMPLING, height * OVERSAMPLING), background)
        self._draw = ImageDraw.Draw(self._image)

    def polygon(self, points: Sequence[Point], color: Color) -> None:
        """Draws a filled polygon with these corners."""
        self._draw.polygon([self._pixel(p) for p in points], fill=color)

    def circle(self, center: Point, radius: float, color: Color) -> None:
        """Draws a filled circle."""
        x, y = self._pixel(center)
        r = radius * OVERSAMPLING
        self._draw.ellipse((x - r, y - r, x + r, y + r), fill=color)

    def line(self, points: Sequence[Point], color: Color = BLACK, width: float = 1) -> None:
        """Draws a line through these points, ``width`` pixels wide."""
        self._draw.line([self._pixel(p) for p in points], fill=color, width=round(width * OVERSAMPLING), joint="curve")

    def text(self, center: Point, text: str, height: float, color: Color = BLACK) -> None:
        """Draws a text centered at a point, in a font of size ``height`` (pixels)."""
        from PIL import ImageFont

        font = ImageFont.load_default(height * OVERSAMPLING)
        self._draw.text(self._pixel(center), text, fill=color, font=font, anchor="mm")

    def array(self) -> np.ndarray:
        """Returns the image as uint8[height, width, 3]."""
        return np.asarray(self._image.reduce(OVERSAMPLING))

    def _pixel(self, point: Point) -> Point:
        return point[0] * OVERSAMPLING, (self._height - point[1]) * OVERSAMPLING


def box(
    left: float, right: float, bottom: float, top: float, angle: float = 0.0, at: Point = (0.0, 0.0)
) -> list[Point]:
    """Returns the corners of a rectangle, rotated about the origin by ``angle`` and then translated by ``at``.

    Angles are in radians, counterclockwise.
    """
    cos, sin = math.cos(angle), math.sin(angle)
    corners = ((left, bottom), (left, top), (right, top), (right, bottom))
    return [(at[0] + x * cos - y * sin, at[1] + x * sin + y * cos) for x, y in corners]
