"""A level of MiniGrid as a task: the maker of its grids, its rule and its mission, with what can be observed."""

from __future__ import annotations

import functools
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import gymnasium as gym
import numpy as np

from headrace.envs.minigrid.picture import render
from headrace.envs.minigrid.sight import BITS, DIRECTIONS, SIDE, FlatView, View, observing, observing_flat
from headrace.envs.minigrid.words import WORDS, numbers
from headrace.envs.minigrid.world import VALID, State, looks, spread
from headrace.pool.executors.kernels import KernelEnv, KernelTask
from headrace.pool.options import Options

MOST_STEPS = 1 << 30
FLAT, FULL = "flat_observation", "full_observation"
PARAMETERS = ("count", "variant", "room_size", "room_rows", "room_columns", "steps_per_task")
"""scalars of the state that makers of levels read"""


@dataclass(frozen=True)
class Level:
    """The tasks of one maker of levels, of any size.

    Attributes:
        name: the compiled kernel's name.
        reset, step: as in `KernelEnv`.
        mission: the mission, with ``{}`` for words that differ between episodes.
        see_through: whether the agent sees what is behind walls.
        notes: how many numbers the maker remembers.
        actions: how many actions there are.
        noted_cells: whether the notes are cells that a step looks at.
        marked: whether there are marks of cells.
        truncates: as in `KernelEnv`.
    """

    name: str
    reset: Any
    step: Any
    mission: str
    see_through: bool = False
    notes: int = 1
    actions: int = 7
    noted_cells: bool = False
    marked: bool = False
    truncates: Any = None

    def task(self, width: int, height: int, max_steps: int, **parameters: int) -> KernelTask:
        """Returns the task with grids of this size and with these `PARAMETERS`; others are 0."""
        return KernelTask(
            _Grids(self, width, height, max_steps, dict.fromkeys(PARAMETERS, 0) | parameters).environment,
            _Grids(self, width, height, max_steps).observation,
            gym.spaces.Discrete(self.actions),
            options={FLAT: False, FULL: False},
            max_episode_steps=max_steps,
            render_fps=10,
        )

    def square(self, size: int, max_steps: int, **parameters: int) -> KernelTask:
        """Returns the task with square grids."""
        return self.task(size, size, max_steps, **parameters)


@dataclass(frozen=True, eq=False)
class _Grids:
    """Grids of one size."""

    level: Level
    width: int
    height: int
    max_steps: int
    parameters: dict[str, int] = field(default_factory=dict)

    @property
    def words(self) -> list[int]:
        return numbers(self.level.mission) or [0]

    @property
    def told(self) -> int:
        """The number of words that one array tells apart: none if all episodes have one mission."""
        return len(WORDS) if "{}" in self.level.mission else 0

    def observation(self, options: Options) -> gym.Space:
        shape = (self.width, self.height) if options[FULL] else (SIDE, SIDE)
        words = len(self.words)
        if options[FLAT]:
            return gym.spaces.Box(0, 1, (BITS * shape[0] * shape[1] + DIRECTIONS + words * self.told,), np.uint8)
        parts = {
            "image": gym.spaces.Box(0, 255, (*shape, 3), np.uint8),
            "direction": gym.spaces.Discrete(DIRECTIONS),
            "mission": gym.spaces.Box(0, len(WORDS) - 1, (words,), np.uint8),
        }
        return gym.spaces.Dict(OrderedDict(parts))

    def environment(self, options: Options) -> KernelEnv:
        return self._environment(
            bool(options[FLAT]), bool(options[FULL]), options["max_episode_steps"] != self.max_steps
        )

    @functools.cache  # noqa: B019  # a task's grids live as long as the program
    def _environment(self, flat: bool, full: bool, limited: bool) -> KernelEnv:
        """``limited``: whether the limit of steps is given, so that it is the same for all episodes."""
        level, cells = self.level, self.width * self.height
        return KernelEnv(
            f"MiniGrid{level.name}{'Flat' * flat}{'Full' * full}",
            State,
            FlatView if flat else View,
            level.reset,
            level.step,
            observing_flat(full, self.told) if flat else observing(full, len(self.words)),
            render,
            shapes={
                "cells": (cells,),
                "marks": (cells if level.marked else 1,),
                "notes": (level.notes,),
                "mission": (len(self.words),),
            },
            constants={
                "width": self.width,
                "height": self.height,
                "see_through": level.see_through,
                **(self.parameters | {"steps_per_task": 0} if limited else self.parameters),
            },
            tables={"looks": looks(), "spread": spread(), "words": np.array(self.words, np.uint8)},
            bounds=self._bounds(cells),
            truncates=level.truncates,
        )

    def _bounds(self, cells: int) -> Mapping[str, Any]:
        places = ("target", "second", *(["notes"] if self.level.noted_cells else []))
        return {
            "x": (0, self.width - 1),
            "y": (0, self.height - 1),
            "direction": (0, DIRECTIONS - 1),
            "cells": VALID,
            "carrying": VALID,
            "mission": (0, len(WORDS) - 1),
            **dict.fromkeys(places, (0, cells - 1)),
            "steps": (0, MOST_STEPS),
        }
