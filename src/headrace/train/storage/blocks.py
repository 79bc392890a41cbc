"""Rows of a step replay and whole rollouts as arrays that travel: taken from one memory, put into another.

A writer on another machine fills a small ring, or a slot, of its own. What is new there is copied out as a block, and
one process beside the learner puts it into the segment, or the slot, that the learner reads.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from headrace.pool.executors.processes.shared import Fence
from headrace.train.storage.layout import FIRST, LAST, StepLayout
from headrace.train.storage.rollout_slots import Slot
from headrace.train.storage.step_replay import MARGIN

ROWS = ("record", "flags", "version", "frame", "age")
"""arrays of a replay that travel; the others are counted where they arrive"""


@dataclass(frozen=True)
class Rows:
    """Rows of one segment, K of N environments: name → array [K, …], for those of `ROWS` that the layout has."""

    arrays: Mapping[str, np.ndarray]

    def __len__(self) -> int:
        return len(self.arrays["version"])

    @property
    def nbytes(self) -> int:
        """The size of all arrays in bytes."""
        return sum(array.nbytes for array in self.arrays.values())


@dataclass(frozen=True)
class Rollout:
    """One rollout: field of `Slot` → array; of ``final_observations`` and ``places`` only those that count."""

    arrays: Mapping[str, np.ndarray]

    @property
    def nbytes(self) -> int:
        """The size of all arrays in bytes."""
        return sum(array.nbytes for array in self.arrays.values())


def ring_of(layout: StepLayout) -> dict[str, np.ndarray]:
    """Returns the arrays of a replay in the memory of this process alone."""
    return {name: np.zeros(shape, dtype) for name, (shape, dtype) in layout.fields.items()}


def take_rows(arrays: Mapping[str, np.ndarray], low: int, high: int) -> Rows:
    """Returns copies of the rows [low, high) of segment 0 of a ring, in which all of them are still whole."""
    places = np.arange(low, high) % arrays["flags"].shape[0]
    return Rows({name: arrays[name][places, 0] for name in ROWS if name in arrays})


def append_rows(layout: StepLayout, arrays: Mapping[str, np.ndarray], segment: int, rows: Rows, fence: Fence) -> None:
    """Puts rows behind the newest of a segment, for the one process that writes it, and publishes them to readers.

    Readers count the oldest rows as gone before these are written over, a part of the ring at a time.
    """
    most = max(1, layout.steps // (2 * MARGIN))
    for low in range(0, len(rows), most):
        part = {name: array[low : low + most] for name, array in rows.arrays.items()}
        _append(layout, arrays, segment, part, fence)


def _append(
    layout: StepLayout, arrays: Mapping[str, np.ndarray], segment: int, part: Mapping[str, np.ndarray], fence: Fence
) -> None:
    first, count = int(arrays["written"][segment]), len(part["version"])
    begin = arrays["begin"]
    begin[segment] = max(int(begin[segment]), first + count + 2 - layout.steps)
    fence()
    places = np.arange(first, first + count) % layout.steps
    for name, array in part.items():
        arrays[name][places, segment] = array
    before, so_far = (first - 1) % layout.steps, 0
    ends = part["flags"] & FIRST
    ends[1:] |= part["flags"][:-1] & LAST
    if first:
        ends[0] |= arrays["flags"][before, segment] & LAST
        so_far = int(arrays["gaps"][before, segment])
    else:
        ends[0] = 0
    arrays["gaps"][places, segment] = so_far + np.count_nonzero(ends, axis=1).cumsum()
    fence()
    arrays["written"][segment] = first + count
    fence()


def take_rollout(slot: Slot) -> Rollout:
    """Returns a copy of a slot that is filled."""
    ended = int(slot.ended)
    return Rollout(
        {
            name: (array[:ended] if name in ("final_observations", "places") else array).copy()
            for name, array in vars(slot).items()
        }
    )


def put_rollout(slot: Slot, rollout: Rollout) -> None:
    """Fills a slot with a rollout."""
    for name, array in rollout.arrays.items():
        into = getattr(slot, name)
        if name in ("final_observations", "places"):
            into[: len(array)] = array
        else:
            into[...] = array
