"""A canvas of square tiles, for the problems that take place on a grid."""

from headrace.envs.drawing import BLACK, Canvas, Color, Point, box

LARGEST = 64  # pixels, largest side of a tile
WIDEST = 768  # pixels, longer side of a frame, unless tiles would be smaller than SMALLEST
SMALLEST = 4  # pixels
COAT, SKIN, EYE = (46, 96, 168), (245, 208, 172), BLACK


class Grid:
    """A canvas of ``rows`` × ``columns`` tiles, row 0 at the top, with a margin of ``margin`` pixels.

    Attributes:
        side: the side of a tile (pixels).
        canvas: the canvas, for other shapes.
    """

    def __init__(self, rows: int, columns: int, background: Color, margin: int = 0):
        self.side = min(LARGEST, max(SMALLEST, WIDEST // max(rows, columns)))
        self.canvas = Canvas(columns * self.side + 2 * margin, rows * self.side + 2 * margin, background)
        self._rows, self._margin = rows, margin

    def center(self, row: float, column: float) -> Point:
        """Returns the center of a tile (pixels); ``row`` and ``column`` may be fractional."""
        return self._margin + (column + 0.5) * self.side, self._margin + (self._rows - row - 0.5) * self.side

    def tile(self, row: int, column: int, color: Color, scale: float = 0.94) -> None:
        """Fills a tile; ``scale`` is the side of the filled square relative to the tile's."""
        half = scale * self.side / 2
        self.canvas.polygon(box(-half, half, -half, half, at=self.center(row, column)), color)

    def figure(self, row: float, column: float, scale: float = 1.0) -> None:
        """Draws the agent as a small person, at a place as for `center`."""
        x, y = self.center(row, column)
        unit = scale * self.side
        self.canvas.polygon(
            [(x + dx * unit, y + dy * unit) for dx, dy in ((-0.24, -0.34), (0.24, -0.34), (0.1, 0.12), (-0.1, 0.12))],
            COAT,
        )
        self.canvas.circle((x, y + 0.17 * unit), 0.15 * unit, SKIN)
        for dx in (-0.055, 0.055):
            self.canvas.circle((x + dx * unit, y + 0.19 * unit), 0.025 * unit, EYE)
