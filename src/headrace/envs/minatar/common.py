"""What MinAtar's games share: a 10 × 10 screen of channels, six actions, sticky actions, and colours.

A row of the screen is kept as the ten lowest bits of an integer, bit x for column x, so that moving
and colliding whole formations is a handful of integer operations. Rows count from the top.
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

SIZE = 10  # cells on a side
LAST = wp.constant(SIZE - 1)

# MinAtar's numbers; UP and DOWN do nothing in either game
NONE = wp.constant(0)
LEFT = wp.constant(1)
RIGHT = wp.constant(3)
FIRE = wp.constant(5)
ALL_ACTIONS = (0, 1, 2, 3, 4, 5)

BACKGROUND: Color = (13, 13, 18)
GRID: Color = (28, 28, 36)
CELL, GAP = 32, 2  # pixels of a frame for one cell, and how many of them separate it from the next


@wp.struct
class View:
    """A screen [rows, channels, 10, 10]."""

    obs: wp.array4d[wp.uint8]


@wp.func
def action_taken(state: Any, env: int, actions: wp.array[wp.int64], row: int, streams: Streams) -> int:
    """MinAtar's number of the action that is done: the one given, or with some probability the last one once more."""
    action = state.action_set[int(actions[row])]
    if state.sticky_action_prob > wp.float64(0.0):
        chance = uniform(streams, env, wp.float64(0.0), wp.float64(1.0))
        action = wp.where(chance < state.sticky_action_prob, state.last_action[env], action)
    state.last_action[env] = action
    return action


@wp.func
def moved(x: int, action: int) -> int:
    """The column of the player after an action."""
    if action == LEFT:
        return wp.max(x - 1, 0)
    if action == RIGHT:
        return wp.min(x + 1, LAST)
    return x


@wp.func
def cell(place: wp.vec2i, y: int) -> int:
    """Row y of a screen where only this place (column, row) is set."""
    return wp.where(place[1] == y, 1 << place[0], 0)


@wp.func
def show_row(screen: wp.array3d[wp.uint8], channel: int, y: int, bits: int):
    """Write row y of one channel of a screen [channels, 10, 10]."""
    for x in range(SIZE):
        screen[channel, y, x] = wp.uint8((bits >> x) & 1)


def versions(game: str, env: KernelEnv, channels: int, useful: Sequence[int], **options: Any) -> dict[str, KernelTask]:
    """The tasks of a game: v0 takes MinAtar's six actions, v1 the ``useful`` ones, numbered from 0.

    Args:
        env: the game, but for its table ``action_set``.
        channels: of the screen.
        options: those that the other game has not.
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
    """The cells bool[10, 10] of ten rows of bits."""
    return (np.asarray(rows, np.int64)[:, None] >> np.arange(SIZE) & 1).astype(bool)


def at(column: int, row: int) -> np.ndarray:
    """The cells bool[10, 10] where only one place is set."""
    cells = np.zeros((SIZE, SIZE), bool)
    cells[row, column] = True
    return cells


def draw(*layers: tuple[np.ndarray, Color]) -> np.ndarray:
    """A frame uint8[320, 320, 3] of layers (cells bool[10, 10], color), later ones over earlier ones."""
    cells = np.full((SIZE, SIZE, 3), BACKGROUND, np.uint8)
    for mask, color in layers:
        cells[mask] = color
    frame = cells.repeat(CELL, 0).repeat(CELL, 1)
    at_edge = np.arange(SIZE * CELL) % CELL < GAP
    frame[at_edge] = frame[:, at_edge] = GRID
    return frame
