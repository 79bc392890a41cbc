"""The queue of requests sent to an asynchronous pool and not yet received, oldest first."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

import numpy as np


class RequestQueue:
    """A ring buffer of request rows. An environment is in flight at most once, so N rows always suffice.

    Pushes and pops are atomic with respect to exceptions from signal handlers.

    Args:
        columns: name → an array [N, …] with the row shape and dtype of the column.
    """

    def __init__(self, columns: Mapping[str, np.ndarray]):
        self._columns = {name: np.empty_like(column) for name, column in columns.items()}
        self._capacity = len(next(iter(columns.values())))
        self._pushed = self._popped = 0  # total rows
        self._ends: deque[int] = deque()  # end of each push, counted in total rows pushed

    @property
    def size(self) -> int:
        return self._pushed - self._popped

    @property
    def oldest(self) -> int:
        """The number of rows of the oldest push that have not been popped."""
        self._forget_popped()
        return self._ends[0] - self._popped

    def push(self, rows: int, values: Mapping[str, np.ndarray | int]) -> None:
        """Appends rows; ``values`` maps a column to an array [rows, …] or one value for all rows.

        Columns that are not given keep their previous contents.
        """
        start = self._pushed % self._capacity
        end = min(start + rows, self._capacity)
        around = start + rows - end  # rows that wrap around to the ring's beginning
        for name, value in values.items():
            column = self._columns[name]
            many = isinstance(value, np.ndarray)
            column[start:end] = value[: end - start] if many else value
            if around:
                column[:around] = value[end - start :] if many else value
        self._pushed += rows
        self._ends.append(self._pushed)

    def pop(self, rows: int, into: Mapping[str, np.ndarray]) -> None:
        """Moves the ``rows`` oldest rows into the first rows of the arrays [N, …] in ``into``."""
        start = self._popped % self._capacity
        end = min(start + rows, self._capacity)
        around = start + rows - end
        for name, column in self._columns.items():
            into[name][: rows - around] = column[start:end]
            if around:
                into[name][rows - around : rows] = column[:around]
        self._popped += rows
        self._forget_popped()

    def _forget_popped(self) -> None:
        while self._ends and self._ends[0] <= self._popped:
            self._ends.popleft()
