"""The writer of a step replay: one segment, filled by one process, row by row, in place.

A row is published by incrementing one number, the cursor, after the row is complete. A writer that is killed therefore
publishes nothing incomplete, and its successor continues at the cursor. The successor has new environments, so its
first row ends the episodes before it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor

from headrace.errors import OptionError, SequenceError
from headrace.pool.shared import Fence
from headrace.train.storage.layout import FIRST, LAST, OLDEST, TERMINATED, TRUNCATED, StepLayout

NEXT = np.zeros(256, np.uint8)  # flags of a row → initial flags of the next row
NEXT[[flags for flags in range(256) if flags & (TERMINATED | TRUNCATED)]] = LAST
NEXT[[flags for flags in range(256) if flags & LAST]] = FIRST


class Row(NamedTuple):
    """Views of a row of N environments, to be filled in place.

    Attributes:
        observation: float32[N, …], or float64 in a `wide` layout; int32[N] for a `Discrete`; uint8[N, C, H, W] for
            images.
        action: float32[N, A], or int32[N] for a `Discrete`.
        reward: reward of the step from this row, float32[N].
        mask: mask of the action, uint8[N, K]; K is 0 without masks.
    """

    observation: np.ndarray
    action: np.ndarray
    reward: np.ndarray
    mask: np.ndarray


class StepWriter:
    """The single writer of a segment.

    For each row, the observation and the action are written to `row`, the environments write the next observation to
    `following`, and `publish` is called. Pools run with ``autoreset="next_step"``: the step after an episode's end is a
    row whose action and reward are ignored.
    """

    def __init__(self, layout: StepLayout, arrays: Mapping[str, np.ndarray], index: int):
        if not 0 <= index < layout.segments:
            raise OptionError(f"there is no segment {index}: there are {layout.segments}")
        self.layout, self.index, self._fence = layout, index, Fence()
        self._arrays = arrays
        self._row_columns = _columns(layout, arrays)
        self._flags, self._continues = arrays["flags"], arrays["record"][..., layout.inputs + layout.actions + 1]
        self._first = np.full(layout.envs, FIRST, np.uint8), np.zeros(layout.envs, np.uint8)
        (self._next, self._ages), self._begun = self._first, False
        lags = torch.arange(layout.frame_stack - 1, -1, -1)
        self._lags, self._columns = lags, torch.arange(layout.envs).unsqueeze(1) + index * layout.envs
        if layout.images:
            self._frames = torch.from_numpy(arrays["frame"]).flatten(0, 2)
            images = layout.envs * layout.frame_stack
            self._stack = torch.zeros(images, *self._frames.shape[1:], dtype=torch.uint8)

    @property
    def written(self) -> int:
        """The number of rows published since the beginning, by this writer and its predecessors."""
        return int(self._arrays["written"][self.index])

    @property
    def row(self) -> Row:
        """Views of the row that the next `publish` publishes."""
        return self._at(self.written)

    @property
    def following(self) -> Row:
        """Views of the row after `row`, which receives a step's observations."""
        return self._at(self.written + 1)

    def _at(self, t: int) -> Row:
        where = t % self.layout.steps, self.index
        return Row(*(column[where] for column in self._row_columns))

    def begin(self) -> None:
        """Marks the observations of `row` as the first ones of new episodes in all environments.

        This is required before the first `publish` of this object, and after a reset of all environments.
        """
        (self._next, self._ages), self._begun = self._first, True

    def publish(
        self,
        terminated: np.ndarray,
        truncated: np.ndarray,
        version: int = 0,
        goes_on: np.ndarray | bool = False,
        lost: np.ndarray | None = None,
    ) -> None:
        """Makes `row` visible to readers, and advances to the next.

        Args:
            terminated, truncated: whether the step from this row terminated or truncated an episode, bool[N].
            version: version of the weights that chose the actions of the row.
            goes_on: whether an episode that begins with the next row continues the game of the one before, so that its
                stack has that one's last images, bool[N]; by default a new game begins, whose first image is repeated.
            lost: whether nothing is known of the step from this row, which ends an episode as the row of a killed
                writer does, bool[N]; None for no row. The next row only begins an episode, as after a truncation.

        Raises:
            SequenceError: `begin` was not called.
        """
        if not self._begun:
            raise SequenceError("begin() must come before the first publish()")
        t, arrays = self.written, self._arrays
        now, before = (t % self.layout.steps, self.index), ((t - 1) % self.layout.steps, self.index)
        if lost is not None:
            terminated, truncated = terminated & ~lost, truncated & ~lost
        flags, last = self._next, self._next & LAST > 0
        flags = flags | np.where(last, 0, terminated * np.uint8(TERMINATED) | truncated * np.uint8(TRUNCATED))
        self._flags[now], self._continues[now] = flags, ~(terminated | last)
        arrays["version"][now] = version
        no_transitions = np.count_nonzero((self._flags[before] & LAST) | (self._next & FIRST)) if t else 0
        arrays["gaps"][now] = arrays["gaps"][before] + no_transitions if t else 0
        if self.layout.images:
            arrays["age"][now] = self._ages
        self._fence()
        arrays["written"][self.index] = t + 1
        self._fence()  # before the oldest row is overwritten
        self._next = NEXT[flags] if lost is None else np.where(lost, FIRST | LAST, NEXT[flags]).astype(np.uint8)
        first = (self._next & FIRST > 0) & ~np.asarray(goes_on, np.bool_)
        self._ages = np.where(first, 0, np.minimum(self._ages, OLDEST - 1) + 1).astype(np.uint8)

    def state(self) -> dict[str, Tensor]:
        """Returns copies of the data that a writer needs to continue in the middle of episodes, beside published rows.

        They are the observations of `row`, [N, …], their masks, and flags and ages, uint8[N] each.
        """
        parts = {"observation": self.row.observation, "flags": self._next, "ages": self._ages}
        if self.layout.masks:
            parts["mask"] = self.row.mask
        return {name: torch.from_numpy(part.copy()) for name, part in parts.items()}

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Restores the tensors of `state`, in place of a call of `begin`, after the same published rows."""
        self.row.observation[...] = state["observation"].numpy()
        if self.layout.masks:
            self.row.mask[...] = state["mask"].numpy()
        self._next, self._ages = (state[name].numpy().copy() for name in ("flags", "ages"))
        self._begun = True

    def stack(self) -> Tensor:
        """Returns the stacked images of `row`, uint8[N, k · C, H, W], oldest frame first, as `read` returns them.

        The next call overwrites the tensor.
        """
        layout = self.layout
        lags = torch.minimum(self._lags, torch.from_numpy(self._ages).unsqueeze(1))
        places = (self.written - lags).remainder_(layout.steps).mul_(layout.stride).add_(self._columns)
        torch.index_select(self._frames, 0, places.flatten(), out=self._stack)
        return self._stack.view(layout.envs, -1, *self._stack.shape[2:])


def _columns(layout: StepLayout, arrays: Mapping[str, np.ndarray]) -> Row:
    """Returns views of observations, actions, rewards and masks of all rows, [T, S, N, …]."""
    record, end = arrays["record"], layout.inputs + layout.actions
    words = record[..., : layout.inputs].view(np.float64 if layout.wide else np.float32)
    seen = arrays["frame"] if layout.images else _as(layout.observation, words)
    mask = record[..., layout.mask_words].view(np.uint8)[..., : layout.masks]
    return Row(seen, _as(layout.action, record[..., layout.inputs : end]), record[..., end], mask)


def _as(space: gym.Space, words: np.ndarray) -> np.ndarray:
    """Returns words of records as values of a space: float32 in its shape, or int32 for a `Discrete` space."""
    if isinstance(space, gym.spaces.Discrete):
        return words[..., 0].view(np.int32)
    return words.reshape(*words.shape[:-1], *(space.shape or ()))
