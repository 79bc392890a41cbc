"""A launch whose rows count up numbers, for tests of the threads that share it."""

# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false, reportInvalidTypeForm=false

import numpy as np
import warp as wp

from headrace.pool.executors.kernels.launch import Call, load, record


@wp.kernel(enable_backward=False, module="unique")
def count_up(turns: int, counts: wp.array(dtype=wp.int64), first: int, share: int):
    """Adds one to numbers of the array, each after so many turns of some nanoseconds each."""
    for number in range(first, first + share):
        turn = int(0)
        x = float(1.0)
        while turn < turns:
            turn += 1
            x = x * 0.5 + 1.0  # which no compiler can leave out
        counts[number] = counts[number] + wp.where(x > 0.0, wp.int64(1), wp.int64(2))


class Counters:
    """Numbers that the rows of launches count up."""

    def __init__(self, rows: int):
        self.values = np.zeros(rows, np.int64)
        self._view = wp.array(self.values, dtype=wp.int64, device="cpu", copy=False)
        load(count_up, "cpu", 1, "a test")

    def launch(self, turns: int, rows: int) -> Call:
        call = record(count_up, 1, [turns, self._view, 0, rows], "cpu", 1)
        assert isinstance(call, Call)
        return call
