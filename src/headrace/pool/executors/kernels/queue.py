"""What has been sent to an asynchronous pool and not yet received, oldest first."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

import numpy as np


class RequestQueue:
    """A ring of request rows. An environment is in flight at most once, so N rows always suffice."""

    def __init__(self, columns: Mapping[str, np.ndarray]):
        """``columns`` gives each column's name and, by example, its row's shape and dtype; N is their length."""
        self._columns = {name: np.empty_like(column) for name, column in columns.items()}
        self._capacity = len(next(iter(columns.values())))
        self._first = 0
        self._pushes: deque[int] = deque()
        self.size = 0

    @property
    def oldest(self) -> int:
        """Rows left of the oldest push."""
        return self._pushes[0]

    def push(self, rows: int, values: Mapping[str, np.ndarray | int]) -> None:
        """Add rows at the end; columns not given keep whatever they held."""
        start = (self._first + self.size) % self._capacity
        end = min(start + rows, self._capacity)
        around = start + rows - end  # rows that go to the ring's beginning
        for name, value in values.items():
            column = self._columns[name]
            many = isinstance(value, np.ndarray)
            column[start:end] = value[: end - start] if many else value
            if around:
                column[:around] = value[end - start :] if many else value
        self.size += rows
        self._pushes.append(rows)

    def pop(self, rows: int, into: Mapping[str, np.ndarray]) -> None:
        """Move the oldest rows into the first rows of the given columns."""
        end = min(self._first + rows, self._capacity)
        around = self._first + rows - end
        for name, column in self._columns.items():
            into[name][: rows - around] = column[self._first : end]
            if around:
                into[name][rows - around : rows] = column[:around]
        self._first = (self._first + rows) % self._capacity
        self.size -= rows
        while rows:
            taken = min(rows, self._pushes[0])
            rows -= taken
            self._pushes[0] -= taken
            if not self._pushes[0]:
                self._pushes.popleft()
