"""How the steps of many environments lie in the arrays of a step replay; what its writers and readers agree on.

Row t of a segment is what its N environments saw at time t and what they did then. All segments' rows t lie side
by side, so that an environment's place has one number, ``(t · S + s) · N + n``, which grows without end; modulo
the size of the ring it is the index into every array, and its next row is S · N further.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import gymnasium as gym
import numpy as np

from headrace.errors import OptionError
from headrace.pool.executors.processes.shared import Fields

TERMINATED, TRUNCATED = 1, 2
"""how the step from a row ended"""
LAST = 4
"""a row that holds an episode's last observation: no step goes on from here"""
FIRST = 8
"""a row with which an episode begins"""

OLDEST = 255  # rows since an episode's first are counted up to here
WORDS = 4  # records are multiples of so many words, 16 bytes


@dataclass(frozen=True)
class StepLayout:
    """The shape of a step replay.

    Attributes:
        observation, action: spaces of one environment: `Box` or `Discrete`.
        segments: writers, S.
        steps: rows of each, T.
        envs: environments of each, N.
        frame_stack: newest images of which an input consists; an image is stored once.
    """

    observation: gym.Space
    action: gym.Space
    segments: int
    steps: int
    envs: int
    frame_stack: int = 1

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
        """Whether observations are stored as uint8[C, H, W] and not as a row of float32."""
        return self.observation.dtype == np.uint8 and len(self.observation.shape or ()) == 3

    @cached_property
    def stride(self) -> int:
        """From an environment's row to its next: S · N."""
        return self.segments * self.envs

    @cached_property
    def size(self) -> int:
        """Rows of environments in all: T · S · N."""
        return self.steps * self.stride

    @cached_property
    def inputs(self) -> int:
        """Words of a record that hold the observation; none where it is an image."""
        return 0 if self.images else max(1, math.prod(self.observation.shape or ()))

    @cached_property
    def actions(self) -> int:
        """Words of a record that hold the action."""
        return max(1, math.prod(self.action.shape or ()))

    @cached_property
    def fields(self) -> Fields:
        """The arrays: name → (shape, dtype).

        ``record`` observation, action, reward and 1 − terminated, words of 4 bytes in this order, so that a transition
        is two gathers; ``frame`` images; ``flags``; ``age`` rows since the episode's first; ``version`` of the weights
        that acted; ``gaps`` rows before this one, of all environments since the beginning, from which no
        transition goes out; ``written`` rows that each segment has published, ``begin`` the first of these that there
        ever was here, 0 save where a part was restored.
        """
        rows = (self.steps, self.segments)
        words = -(-(self.inputs + self.actions + 2) // WORDS) * WORDS
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
