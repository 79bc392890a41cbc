"""A level of MiniGrid as a task: the maker of its grids, its rule and its mission, with what can be observed."""

from __future__ import annotations

import functools
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import gymnasium as gym
import numpy as np

from headrace.envs.minigrid import pixels
from headrace.envs.minigrid.picture import render
from headrace.envs.minigrid.sight import (
    BITS,
    DIRECTIONS,
    SIDE,
    FlatView,
    View,
    looking,
    observing,
    observing_flat,
    put_image,
    seen_as_image,
)
from headrace.envs.minigrid.words import WORDS, numbers
from headrace.envs.minigrid.world import VALID, State, looks, spread
from headrace.errors import OptionError
from headrace.pool.executors.kernels import KernelEnv, KernelTask
from headrace.pool.flat_observation import PICTURES, Joined, flat_option
from headrace.pool.options import Option, Options

MOST_STEPS = 1 << 30
FLAT, FULL, PIXELS, TILE_SIZE = "flat_observation", "full_observation", "from_pixels", "tile_size"
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
            options={
                FLAT: flat_option(),
                FULL: False,
                PIXELS: False,
                TILE_SIZE: Option(8, 2, pixels.LARGEST),
            },
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
        flat, pictured = options[FLAT], options[PIXELS]
        if flat and pictured != (flat == PICTURES):
            what = f"no pixels: {FLAT}=True" if flat == PICTURES else f"pixels: {FLAT}={PICTURES!r}"
            raise OptionError(f"{PIXELS}={pictured} and {FLAT}={flat!r} cannot be combined: for one array with {what}")
        width, height = (self.width, self.height) if options[FULL] else (SIDE, SIDE)
        words, side = len(self.words), options[TILE_SIZE]
        if flat and not pictured:
            return gym.spaces.Box(0, 1, (BITS * width * height + DIRECTIONS + words * self.told,), np.uint8)
        shape = (3, height * side, width * side) if pictured else (width, height, 3)
        parts: OrderedDict[str, gym.Space] = OrderedDict(
            image=gym.spaces.Box(0, 255, shape, np.uint8),
            direction=gym.spaces.Discrete(DIRECTIONS),
            mission=gym.spaces.Box(0, len(WORDS) - 1, (words,), np.uint8),
        )
        if not flat:
            return gym.spaces.Dict(parts)
        if not self.told:
            return parts["image"]
        parts["mission"] = gym.spaces.MultiDiscrete([self.told] * words)  # so that words are one-hot
        return Joined(gym.spaces.Dict(parts), keep=True, dtype=np.uint8)

    def environment(self, options: Options) -> KernelEnv:
        limited = options["max_episode_steps"] != self.max_steps
        side = options[TILE_SIZE] if options[PIXELS] else 0
        return self._environment(bool(options[FLAT]), bool(options[FULL]), limited, side)

    @functools.cache  # noqa: B019  # a task's grids live as long as the program
    def _environment(self, flat: bool, full: bool, limited: bool, side: int) -> KernelEnv:
        """Returns the environment.

        Args:
            limited: whether the limit of steps is given, so that it is the same for all episodes.
            side: pixels of a tile's side; 0 for no pictures.
        """
        level, cells = self.level, self.width * self.height
        view, observe = self._observe(flat, full, side > 0)
        return KernelEnv(
            f"MiniGrid{level.name}{'Flat' * flat}{'Full' * full}{'Pixels' * (side > 0)}",
            State,
            view,
            level.reset,
            level.step,
            observe,
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
            tables={
                "looks": looks(),
                "spread": spread(),
                "words": np.array(self.words, np.uint8),
                "tiles": pixels.tiles(side) if side else pixels.NO_TILES,
            },
            bounds=self._bounds(cells),
            truncates=level.truncates,
        )

    def _observe(self, flat: bool, full: bool, pictured: bool) -> tuple[Any, Any]:
        """Returns the struct of observations, and the function that writes them."""
        words = len(self.words)
        if not pictured and flat:
            return FlatView, observing_flat(full, self.told)
        if not pictured:
            return View, observing(looking(full, put_image, seen_as_image), words)
        if not flat:
            return View, pixels.observing_parts(full, words)
        if self.told:
            return FlatView, pixels.observing_row(full, self.told)
        return pixels.PictureView, pixels.observing_picture(full)

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
