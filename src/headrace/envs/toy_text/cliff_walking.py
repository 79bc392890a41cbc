"""CliffWalking: walk from one corner of a grid to another along a cliff, without falling off.

Example 6.6 of Sutton and Barto, "Reinforcement Learning: An Introduction", with the rules of Gymnasium's
``cliffwalking.py``. Each step costs 1. Falling off the cliff costs 100 and puts the agent back to the start;
only reaching the goal ends an episode. Observations are the cell's number, counted row by row, as int32.
``info["prob"]`` is the probability of the last transition (1 after a reset).

Option: with ``is_slippery``, a step goes in the chosen direction or in either perpendicular direction, with
probability 1/3 each.
"""

import functools
from collections.abc import Mapping
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np

from headrace.envs.toy_text import tabular, tiles
from headrace.envs.toy_text.tabular import Outcome
from headrace.pool.executors.kernels import KernelEnv, KernelTask

ROWS, COLUMNS = 4, 12
START, GOAL = (ROWS - 1) * COLUMNS, ROWS * COLUMNS - 1
CLIFF = range(START + 1, GOAL)
UP, RIGHT, DOWN, LEFT = range(4)
MOVES = {UP: (-1, 0), RIGHT: (0, 1), DOWN: (1, 0), LEFT: (0, -1)}

GRASS, RIM, PATH, EDGE = (141, 182, 105), (125, 166, 92), (222, 205, 160), (58, 44, 40)
ROCK, FLAG = (110, 88, 78), (214, 64, 69)


def rules(is_slippery: bool, state: int, action: int) -> list[Outcome]:
    """Returns the possible outcomes of an action, as Gymnasium's ``P[state][action]``."""
    directions = [(action + turn) % 4 for turn in (-1, 0, 1)] if is_slippery else [action]
    row, column = divmod(state, COLUMNS)
    outcomes = []
    for direction in directions:
        down, right = MOVES[direction]
        cell = min(max(row + down, 0), ROWS - 1) * COLUMNS + min(max(column + right, 0), COLUMNS - 1)
        fell = cell in CLIFF
        reward = -100.0 if fell else -1.0
        outcomes.append(Outcome(1.0 / len(directions), START if fell else cell, reward, cell == GOAL))
    return outcomes


@functools.cache
def _environment(is_slippery: bool) -> KernelEnv:
    problem = tabular.tabulate(ROWS * COLUMNS, 4, [START], partial(rules, is_slippery))
    return tabular.environment("CliffWalking", problem, render)


def render(state: Mapping[str, Any]) -> np.ndarray:
    grid = tiles.Grid(ROWS, COLUMNS, RIM)
    for cell in range(ROWS * COLUMNS):
        row, column = divmod(cell, COLUMNS)
        if cell in CLIFF:
            grid.tile(row, column, EDGE, scale=1.0)
            _rocks(grid, row, column)
        else:
            grid.tile(row, column, PATH if cell in (START, GOAL) else GRASS)
    x, y = grid.center(*divmod(GOAL, COLUMNS))
    grid.canvas.line([(x - 18, y - 24), (x - 18, y + 26)], EDGE, 3)
    grid.canvas.polygon([(x - 18, y + 26), (x + 16, y + 16), (x - 18, y + 6)], FLAG)
    grid.figure(*divmod(int(state["s"]), COLUMNS))
    return grid.canvas.array()


def _rocks(grid: tiles.Grid, row: int, column: int) -> None:
    """Draws the cliff's edge in a cell, and a rock below it."""
    x, y = grid.center(row, column)
    half = grid.side / 2
    rim = [(-1.0, 1.0), (-1.0, 0.7), (-0.5, 0.5), (0.0, 0.75), (0.45, 0.5), (1.0, 0.7), (1.0, 1.0)]
    grid.canvas.polygon([(x + dx * half, y + dy * half) for dx, dy in rim], ROCK)
    stone = [(-0.3, -0.6), (0.1, -0.7), (0.4, -0.4), (0.0, -0.2)]
    grid.canvas.polygon([(x + dx * half, y + dy * half) for dx, dy in stone], ROCK)


TASKS = {
    name: KernelTask(
        lambda options: _environment(options["is_slippery"]),
        gym.spaces.Discrete(ROWS * COLUMNS, dtype=np.int32),
        gym.spaces.Discrete(4),
        (tabular.PROB,),
        {"is_slippery": slippery},
        render_fps=4,
    )
    for name, slippery in (("CliffWalking-v0", False), ("CliffWalking-v1", False), ("CliffWalkingSlippery-v1", True))
}
