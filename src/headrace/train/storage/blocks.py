"""Blocks of rows of a step replay, and rollouts, as arrays that are sent to another machine.

A sampler on another machine fills its own small ring, or a slot. New rows, or the rollout, are copied as a block. A
process on the learner's machine copies the block into the segment, or the slot, that the learner reads.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from headrace.pool.shared import Fence
from headrace.train.storage.layout import FIRST, LAST, StepLayout
from headrace.train.storage.rollout_slots import Slot
from headrace.train.storage.step_replay import MARGIN

ROWS = ("record", "flags", "version", "frame", "age")
"""the arrays of a replay that are sent; the receiver computes the others"""
CUT = ("final_observations", "places")
"""the arrays of a slot of which only some elements are in use, and sent"""
Block = dict[str, np.ndarray]
"""rows of one segment, name of `ROWS` → [K, N, …] of N environments; or a rollout, field of `Slot` → array"""


def ring_of(layout: StepLayout) -> dict[str, np.ndarray]:
    """Returns new arrays of a replay, name → array, in memory that is not shared."""
    return {name: np.zeros(shape, dtype) for name, (shape, dtype) in layout.fields.items()}


def take_rows(arrays: Mapping[str, np.ndarray], low: int, high: int) -> Block:
    """Returns copies of rows [low, high) of segment 0 of a ring; the rows must not have been overwritten."""
    places = np.arange(low, high) % arrays["flags"].shape[0]
    return {name: arrays[name][places, 0] for name in ROWS if name in arrays}


def append_rows(layout: StepLayout, arrays: Mapping[str, np.ndarray], segment: int, rows: Block, fence: Fence) -> None:
    """Appends rows to a segment, for the one process that writes it, and publishes them to readers.

    A part of the ring at a time, the oldest rows are marked as overwritten before new rows replace them.
    """
    most = max(1, layout.steps // (2 * MARGIN))
    for low in range(0, len(rows["version"]), most):
        part = {name: array[low : low + most] for name, array in rows.items()}
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


def take_rollout(slot: Slot) -> Block:
    ended = int(slot.ended)
    return {name: (array[:ended] if name in CUT else array).copy() for name, array in vars(slot).items()}


def put_rollout(slot: Slot, rollout: Block) -> None:
    for name, array in rollout.items():
        getattr(slot, name)[slice(len(array)) if name in CUT else ...] = array
