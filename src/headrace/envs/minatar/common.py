"""Code that MinAtar's games share: the 10 × 10 screen of channels, sticky actions, and rendering.

A row of the screen is stored in the ten lowest bits of an integer, bit x for column x, so that whole formations
move and collide in a few integer operations. Rows are numbered from the top.
"""

# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import gymnasium as gym
import numpy as np
import warp as wp

from headrace.envs.drawing import Color
from headrace.pool.executors.kernels import KernelEnv, KernelTask, Option, Streams, uniform
from headrace.pool.executors.kernels.cpp import cpp

SIZE = 10  # cells, the screen's width and height
LAST = wp.constant(SIZE - 1)

# MinAtar's action numbers
NONE = wp.constant(0)
LEFT = wp.constant(1)
UP = wp.constant(2)
RIGHT = wp.constant(3)
DOWN = wp.constant(4)
FIRE = wp.constant(5)
ALL_ACTIONS = (0, 1, 2, 3, 4, 5)
LAST_ACTIONS = (0, 5)  # bounds of ``last_action``

BACKGROUND: Color = (13, 13, 18)
GRID: Color = (28, 28, 36)
CELL, GAP = 32, 2  # pixels: the pitch of cells in a frame, and the width of the line between two cells


@wp.struct
class View:
    """The observation: ``obs`` uint8[rows, channels, 10, 10]."""

    obs: wp.array4d[wp.uint8]


@wp.func
def action_taken(state: Any, env: int, actions: wp.array[wp.int64], row: int, streams: Streams) -> int:
    """Returns MinAtar's number of the action taken: the given one or, if it is sticky, the last one."""
    action = state.action_set[int(actions[row])]
    if state.sticky_action_prob > wp.float64(0.0):
        chance = uniform(streams, env, wp.float64(0.0), wp.float64(1.0))
        action = wp.where(chance < state.sticky_action_prob, state.last_action[env], action)
    state.last_action[env] = action
    return action


@wp.func
def moved(x: int, action: int) -> int:
    """Returns the player's column after an action from column x."""
    if action == LEFT:
        return wp.max(x - 1, 0)
    if action == RIGHT:
        return wp.min(x + 1, LAST)
    return x


@wp.func
def cell(place: wp.vec2i, y: int) -> int:
    """Returns the bits of row y of a screen on which only ``place`` (column, row) is set."""
    return wp.where(place[1] == y, 1 << place[0], 0)


@wp.func_native(cpp(__file__, "show_row"))
def show_row(screen: wp.array3d[wp.uint8], channel: int, y: int, bits: int):
    """Writes the bits of row y into one channel of a screen [channels, 10, 10]."""
    for x in range(SIZE):
        screen[channel, y, x] = wp.uint8((bits >> x) & 1)


def versions(game: str, env: KernelEnv, channels: int, useful: Sequence[int], **options: Any) -> dict[str, KernelTask]:
    """Returns the tasks of a game, by name: v0 with MinAtar's six actions, v1 with the ``useful`` ones.

    Args:
        game: the game's name in the tasks' names.
        env: the game, without its table ``action_set``.
        channels: number of the screen's channels.
        useful: MinAtar's numbers of the actions that have an effect; in v1, they are numbered from 0.
        options: options of this game only.
    """
    observation = gym.spaces.Box(0, 1, (channels, SIZE, SIZE), np.uint8)
    all_options = {"sticky_action_prob": Option(0.1, 0.0, 1.0), **options}
    tasks = {}
    for version, actions in (("v0", ALL_ACTIONS), ("v1", useful)):
        playable = replace(env, tables={"action_set": np.array(actions, np.int32)})
        space = gym.spaces.Discrete(len(actions))
        tasks[f"MinAtar-{game}-{version}"] = KernelTask(
            playable, observation, space, options=all_options, render_fps=15
        )
    return tasks


def unpacked(rows: Sequence[int] | np.ndarray) -> np.ndarray:
    """Returns the cells, bool[10, 10], of ten rows of bits."""
    return (np.asarray(rows, np.int64)[:, None] >> np.arange(SIZE) & 1).astype(bool)


def at(column: int, row: int) -> np.ndarray:
    """Returns bool[10, 10] with only the cell at this column and row set; with none where there is no such cell."""
    cells = np.zeros((SIZE, SIZE), bool)
    cells[row : row + 1, max(column, 0) : max(column + 1, 0)] = True
    return cells


def draw(*layers: tuple[np.ndarray, Color]) -> np.ndarray:
    """Returns a frame, uint8[320, 320, 3], of layers (cells bool[10, 10], color); later layers cover earlier ones."""
    cells = np.full((SIZE, SIZE, 3), BACKGROUND, np.uint8)
    for mask, color in layers:
        cells[mask] = color
    frame = cells.repeat(CELL, 0).repeat(CELL, 1)
    at_edge = np.arange(SIZE * CELL) % CELL < GAP
    frame[at_edge] = frame[:, at_edge] = GRID
    return frame
