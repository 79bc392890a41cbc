"""Curves of Braille dots, with marks on them, in the characters of a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

Points = Sequence[tuple[int, float]]
BRAILLE = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))  # dot bits by row and column
MARK = "◆"
LABEL = 9  # characters of the labels at the left edge
CURVE_STYLE, MARK_STYLE = "green", "bold yellow"


def draw_curve(points: Points, width: int, height: int, marks: Points = ()) -> list[Text]:
    """Returns the lines of a curve in Braille dots (2 x 4 per character), with its extreme values at the left edge.

    Args:
        points: the curve's points (x, y), with increasing x.
        width, height: size of the drawing in characters, without the labels.
        marks: single points (x, y), each drawn as a character over the curve.
    """
    both = [*points, *marks]
    first, last = min((x for x, _ in both), default=0), max((x for x, _ in both), default=0)
    if len(points) < 2 or points[-1][0] == points[0][0]:
        return [Text(" " * (width + LABEL))] * height
    low, high = min(y for _, y in both), max(y for _, y in both)
    rows, columns = 4 * height, 2 * width
    span, length = (high - low) or 1.0, last - first

    def row_of(y: float) -> int:
        return round((high - y) / span * (rows - 1))

    cells = [[0] * width for _ in range(height)]
    position, previous = 0, None
    for column in range(columns):
        x = first + length * column / (columns - 1)
        if not points[0][0] <= x <= points[-1][0]:
            previous = None
            continue
        while position < len(points) - 2 and points[position + 1][0] <= x:
            position += 1
        (x0, y0), (x1, y1) = points[position], points[position + 1]
        row = row_of(y0 + (y1 - y0) * min(1.0, (x - x0) / ((x1 - x0) or 1)))
        start, end = sorted((row, row if previous is None else previous))
        for r in range(start, end + 1):
            cells[r // 4][column // 2] |= BRAILLE[r % 4][column % 2]
        previous = row
    marked = {(row_of(y) // 4, round((x - first) / length * (columns - 1)) // 2) for x, y in marks}
    labels = {0: high, height - 1: low}
    return [_line(labels.get(i), cells[i], {column for row, column in marked if row == i}) for i in range(height)]


def _line(label: float | None, cells: list[int], marked: set[int]) -> Text:
    """Returns one line of the drawing: a label, and the characters of the cells."""
    text = Text(" " * LABEL if label is None else f"{label:8.1f} ", style=CURVE_STYLE)
    for column, dots in enumerate(cells):
        if column in marked:
            text.append(MARK, MARK_STYLE)
        else:
            text.append(chr(0x2800 + dots) if dots else " ")
    return text
