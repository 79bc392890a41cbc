"""Assembly of transitions from the arrays of a step replay, on the arrays' device.

It uses few operations, whose results are written to tensors that are reused, as at a thousand minibatches a second the
overhead of operations dominates.
"""

from __future__ import annotations

import gymnasium as gym
import torch
from torch import Tensor

from headrace.train.storage.layout import FIRST, TERMINATED, StepLayout
from headrace.train.storage.transitions import Transitions


class StepReader:
    """A reader of transitions of n steps.

    Args:
        arrays: the fields named in `NEEDED`, as tensors on one device.
    """

    NEEDED = ("record", "flags", "frame", "age")

    def __init__(self, layout: StepLayout, arrays: dict[str, Tensor], n_step: int, gamma: float):
        self.layout, self.n_step, self.gamma = layout, n_step, gamma
        self._records = arrays["record"].flatten(0, 2)
        self._flags = arrays["flags"].flatten()
        device = self._flags.device
        if layout.images:
            self._frames, self._ages = arrays["frame"].flatten(0, 2), arrays["age"].flatten()
        self._ahead = torch.arange(n_step + 1, device=device).unsqueeze(1) * layout.stride
        self._discounts = gamma ** torch.arange(n_step + 1, device=device)
        self._lags = torch.arange(layout.frame_stack - 1, -1, -1, device=device) * layout.stride
        self._buffers: dict[int, _Buffers] = {}

    def __call__(self, numbers: Tensor) -> Transitions:
        """Returns transitions as `StepReplay.read`, for numbers on the arrays' device; also for overwritten rows."""
        to = self._buffers.get(len(numbers))
        if to is None:
            with torch.inference_mode(False):  # as the buffers may also be used outside inference mode
                to = self._buffers[len(numbers)] = _Buffers(self.layout, self.n_step, len(numbers), numbers.device)
        torch.add(numbers, self._ahead, out=to.rows).remainder_(self.layout.size)
        if self.n_step > 1:
            self._span(to)
        if self.layout.images:
            self._stack(to)
        if self.layout.images and not self.layout.masks:
            torch.index_select(self._records, 0, to.ends[0], out=to.records[0])
        else:
            torch.index_select(self._records, 0, to.ends.view(-1), out=to.records.view(-1, to.records.shape[2]))
        if self.n_step == 1:
            torch.mul(to.continues, self.gamma, out=to.discounts)
        return to.transitions()

    def _span(self, to: _Buffers) -> None:
        """Accumulates rewards and discounts over n steps, and finds the rows of the following observations."""
        flags = self._flags.index_select(0, to.rows.view(-1)).view_as(to.rows)
        # no transition starts in a row before an episode's first: it is the last of an episode, or of a killed writer
        taken = (flags[1:] & FIRST == 0).to(torch.int64).cumprod(0)
        width, reward = self._records.shape[1], self.layout.inputs + self.layout.actions
        rewards = self._records.view(-1).take(to.rows[:-1] * width + reward)
        torch.sum(rewards.mul_(taken).mul_(self._discounts[:-1].unsqueeze(1)), 0, out=to.rewards)
        count = taken.sum(0)
        terminated = (taken.mul_(flags[:-1] & TERMINATED)).any(0)
        torch.mul(self._discounts.index_select(0, count), ~terminated, out=to.discounts)
        to.ends[0] = to.rows[0]
        torch.gather(to.rows, 0, count.unsqueeze(0), out=to.ends[1:])

    def _stack(self, to: _Buffers) -> None:
        """Gathers stacked images; frames before a game's first are copies of the first."""
        if self.n_step == 1:  # the following stack is one image later: common images are gathered once
            self._lag(to.ends[0], to.images[:, :-1])
            to.images[:, -1] = to.ends[1]
        else:
            self._lag(to.ends[0], to.images[:, : len(self._lags)])
            self._lag(to.ends[1], to.images[:, len(self._lags) :])
        torch.index_select(self._frames, 0, to.images.view(-1), out=to.frames.flatten(0, 1))

    def _lag(self, rows: Tensor, into: Tensor) -> None:
        """Writes the places of the images in the stacks of some rows into ``into``, int64[B, k]."""
        ages = self._ages.index_select(0, rows).to(torch.int64).mul_(self.layout.stride)
        into.copy_(rows.unsqueeze(1) - torch.minimum(self._lags, ages.unsqueeze(1)))
        into.remainder_(self.layout.size)


class _Buffers:
    """The buffers for reading B transitions: rows [n + 1, B], first and last rows, records, and images."""

    def __init__(self, layout: StepLayout, n_step: int, batch: int, device: torch.device):
        self.layout = layout
        words = layout.fields["record"][0][-1]
        self.rows = torch.zeros(n_step + 1, batch, dtype=torch.int64, device=device)
        self.ends = self.rows if n_step == 1 else torch.zeros(2, batch, dtype=torch.int64, device=device)
        self.records = torch.zeros(2, batch, words, device=device)
        actions, rewards = layout.inputs, layout.inputs + layout.actions
        self._actions = self.records[0, :, actions:rewards]
        self._seen = self.records[:, :, : layout.inputs]
        self.continues = self.records[0, :, rewards + 1]
        self.rewards = self.records[0, :, rewards] if n_step == 1 else torch.zeros(batch, device=device)
        self.discounts = torch.zeros(batch, device=device)
        self._masks = (
            self.records[1, :, layout.mask_words].view(torch.uint8)[:, : layout.masks] if layout.masks else None
        )
        if layout.images:
            stack, shape = layout.frame_stack, layout.observation.shape or ()
            images = stack + 1 if n_step == 1 else 2 * stack
            self.images = torch.zeros(batch, images, dtype=torch.int64, device=device)
            self.frames = torch.zeros(batch, images, *shape, dtype=torch.uint8, device=device)
            self._inputs, self._following = self.frames[:, :stack].flatten(1, 2), self.frames[:, -stack:].flatten(1, 2)

    def transitions(self) -> Transitions:
        """Returns the transitions as views of the buffers; only discrete values are copied."""
        layout = self.layout
        if layout.images:
            inputs, following = self._inputs, self._following
        else:
            inputs, following = (observed(layout, seen) for seen in self._seen)
        actions = _as(layout.action, self._actions)
        return Transitions(inputs, actions, self.rewards, self.discounts, following, masks=self._masks)


def observed(layout: StepLayout, words: Tensor) -> Tensor:
    """Returns the observations in words of records [B, words]: [B, D], or int64[B] of a `Discrete` space."""
    return words.view(torch.float64) if layout.wide else _as(layout.observation, words)


def _as(space: gym.Space, words: Tensor) -> Tensor:
    """Returns words of records as inputs of networks: float32[B, D], or int64[B] for a `Discrete` space."""
    return words[:, 0].view(torch.int32).to(torch.int64) if isinstance(space, gym.spaces.Discrete) else words
