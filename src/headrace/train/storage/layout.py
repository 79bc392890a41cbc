"""The memory layout of a step replay for its writers and readers.

Row t of a segment holds the observations of its N environments at time t and their actions. The rows t of all segments
are adjacent, so that environment n of segment s at time t has the number ``(t · S + s) · N + n``, which increases
without bound. Modulo the size of the ring it is the index into every array, and the number of the environment's next
row is greater by S · N.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import gymnasium as gym
import numpy as np

from headrace.errors import OptionError
from headrace.pool.shared import Fields

TERMINATED, TRUNCATED = 1, 2
"""flags of a row from which the step ended an episode"""
LAST = 4
"""flag of a row with an episode's last observation, from which no transition starts"""
FIRST = 8
"""flag of a row with which an episode begins"""

OLDEST = 255  # the maximum age, in rows since a game's first
WORDS = 4  # the number of words of a record is a multiple of this number, 16 bytes


@dataclass(frozen=True)
class StepLayout:
    """The shape of a step replay.

    Attributes:
        observation, action: spaces of one environment: `Box` or `Discrete`.
        segments: number of writers, S.
        steps: rows of each segment, T.
        envs: environments of each segment, N.
        frame_stack: number of newest images in an input; each image is stored once.
        masks: elements of an action mask, K; 0 without masks.
        wide: whether observations are stored as float64, in two words for each number.
    """

    observation: gym.Space
    action: gym.Space
    segments: int
    steps: int
    envs: int
    frame_stack: int = 1
    masks: int = 0
    wide: bool = False

    def __post_init__(self) -> None:
        for space in (self.observation, self.action):
            if not isinstance(space, gym.spaces.Box | gym.spaces.Discrete):
                raise OptionError(f"a replay of steps holds Box and Discrete spaces, not {space}")
        for name in ("segments", "steps", "envs"):
            if getattr(self, name) < 1:
                raise OptionError(f"{name} must be at least 1, not {getattr(self, name)}")
        if not 1 <= self.frame_stack <= OLDEST:
            raise OptionError(f"frame_stack must be 1 to {OLDEST}, not {self.frame_stack}")
        if self.frame_stack > 1 and not self.images:
            raise OptionError(f"frame_stack={self.frame_stack} is for images, uint8[C, H, W], not {self.observation}")

    @cached_property
    def images(self) -> bool:
        """Whether observations are stored as uint8[C, H, W] rather than as words of records."""
        return self.observation.dtype == np.uint8 and len(self.observation.shape or ()) == 3

    @property
    def nbytes(self) -> int:
        """The number of bytes that a replay of this layout takes."""
        return sum(math.prod(shape) * dtype.itemsize for shape, dtype in self.fields.values())

    @cached_property
    def stride(self) -> int:
        """The distance between an environment's consecutive rows: S · N."""
        return self.segments * self.envs

    @cached_property
    def size(self) -> int:
        """The total number of rows: T · S · N."""
        return self.steps * self.stride

    @cached_property
    def inputs(self) -> int:
        """The number of words of a record that hold the observation; 0 for an image."""
        return 0 if self.images else max(1, math.prod(self.observation.shape or ())) * (2 if self.wide else 1)

    @cached_property
    def actions(self) -> int:
        return max(1, math.prod(self.action.shape or ()))

    @cached_property
    def mask_words(self) -> slice:
        """The words of a record that hold the action mask, as bytes, of which the first K are used."""
        first = self.inputs + self.actions + 2
        return slice(first, first + -(-self.masks // 4))

    @cached_property
    def fields(self) -> Fields:
        """The arrays: name → (shape, dtype).

        ``record``: observation, action, reward, 1 − terminated and the observation's action mask, words of 4 bytes in
        this order, so that a transition is two gathers; elements of a mask are bytes. ``frame``: images; ``flags``;
        ``age``: rows since the game's first; ``version`` of the weights that chose the actions; ``gaps``: number of
        earlier rows, of all environments since the beginning, from which no transition starts; ``written``: rows that
        each segment has published; ``begin``: the first row of each segment, 0 unless only a part was restored.
        """
        rows = (self.steps, self.segments)
        words = -(-self.mask_words.stop // WORDS) * WORDS
        fields = {
            "record": ((*rows, self.envs, words), np.dtype(np.float32)),
            "flags": ((*rows, self.envs), np.dtype(np.uint8)),
            "version": (rows, np.dtype(np.int32)),
            "gaps": (rows, np.dtype(np.int64)),
            "written": ((self.segments,), np.dtype(np.int64)),
            "begin": ((self.segments,), np.dtype(np.int64)),
        }
        if self.images:
            fields["frame"] = ((*rows, self.envs, *(self.observation.shape or ())), np.dtype(np.uint8))
            fields["age"] = ((*rows, self.envs), np.dtype(np.uint8))
        return fields
