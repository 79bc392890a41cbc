"""FrozenLake: cross a frozen lake from start to goal over slippery ice, without falling into a hole.

The rules are those of Gymnasium's ``frozen_lake.py``. Observations are the cell's number, counted row by
row, as int32. ``info["prob"]`` is the probability of the last transition (1 after a reset).

Options:
    size: EnvPool's choice of the map, 4 or 8.
    map_name: Gymnasium's choice of the map, "4x4" or "8x8"; takes precedence over ``size``.
    desc: a custom map, as rows of the letters S (start), F (frozen), H (hole) and G (goal); takes
        precedence over both.
    is_slippery: whether a step may go in a direction other than the chosen one.
    success_rate: the probability that a step on slippery ice goes in the chosen direction; otherwise it
        goes in either perpendicular direction, with equal probability.
    reward_schedule: the rewards for reaching the goal, a hole, and any other cell.
"""

import functools
import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np

from headrace.envs.drawing import Canvas, Point
from headrace.envs.toy_text import tabular, tiles
from headrace.envs.toy_text.tabular import Outcome
from headrace.pool.executors.kernels import KernelEnv, KernelTask, Option
from headrace.pool.options import Checked

MAPS = {
    "4x4": ("SFFF", "FHFH", "FFFH", "HFFG"),
    "8x8": ("SFFFFFFF", "FFFFFFFF", "FFFHFFFF", "FFFFFHFF", "FFFHFFFF", "FHHFFFHF", "FHFFHFHF", "FFFHFFFG"),
}
SIZES = {4: "4x4", 8: "8x8"}
LEFT, DOWN, RIGHT, UP = range(4)
MOVES = {LEFT: (0, -1), DOWN: (1, 0), RIGHT: (0, 1), UP: (-1, 0)}
MOST_CELLS = 1 << 14

ICE, SNOW, WATER = (205, 230, 245), (240, 248, 252), (38, 84, 124)
START, FLAG, POLE = (255, 214, 130), (214, 64, 69), (90, 90, 90)


def _size(value: Any) -> int:
    if isinstance(value, bool) or value not in SIZES:
        raise ValueError
    return int(value)


def _map_name(value: Any) -> str | None:
    if value is not None and value not in MAPS:
        raise ValueError
    return value


def _desc(value: Any) -> tuple[str, ...] | None:
    if value is None:
        return None
    desc = tuple("".join(row) for row in value)
    letters = "".join(desc)
    if len({len(row) for row in desc}) != 1 or not {"S"} <= set(letters) <= set("SFHG") or len(letters) > MOST_CELLS:
        raise ValueError
    return desc


def _rewards(value: Any) -> tuple[float, float, float]:
    goal, hole, other = (float(reward) for reward in value)
    if not math.isfinite(goal + hole + other):
        raise ValueError
    return goal, hole, other


def options(size: int) -> dict[str, Option]:
    """Returns the task's options, with ``size`` as the default of that name."""
    return {
        "size": Checked(size, check=_size, wanted="4 or 8"),
        "map_name": Checked(None, check=_map_name, wanted="'4x4', '8x8' or None"),
        "desc": Checked(
            None,
            check=_desc,
            wanted=f"rows of equal length of the letters S, F, H and G, with an S, at most {MOST_CELLS} cells",
        ),
        "is_slippery": Option(True),
        "success_rate": Option(1.0 / 3.0, 0.0, 1.0),
        "reward_schedule": Checked((1.0, 0.0, 0.0), check=_rewards, wanted="three finite numbers (goal, hole, other)"),
    }


def map_of(options: Mapping[str, Any]) -> tuple[str, ...]:
    """Returns the rows of the map that these options select."""
    return options["desc"] or MAPS[options["map_name"] or SIZES[options["size"]]]


def rules(desc: Sequence[str], options: Mapping[str, Any], state: int, action: int) -> list[Outcome]:
    """Returns the possible outcomes of an action, as Gymnasium's ``P[state][action]``."""
    rows, columns = len(desc), len(desc[0])
    row, column = divmod(state, columns)
    if desc[row][column] in "GH":
        return [Outcome(1.0, state, 0.0, True)]

    def moved(direction: int, probability: float) -> Outcome:
        down, right = MOVES[direction]
        y, x = min(max(row + down, 0), rows - 1), min(max(column + right, 0), columns - 1)
        letter = desc[y][x]
        goal, hole, other = options["reward_schedule"]
        return Outcome(probability, y * columns + x, {"G": goal, "H": hole}.get(letter, other), letter in "GH")

    if not options["is_slippery"]:
        return [moved(action, 1.0)]
    aside = (1.0 - options["success_rate"]) / 2.0
    ways = ((action - 1) % 4, aside), (action, options["success_rate"]), ((action + 1) % 4, aside)
    return [moved(direction, probability) for direction, probability in ways]


def environment(options: Mapping[str, Any]) -> KernelEnv:
    """Returns the environment for these options."""
    return _environment(map_of(options), options["is_slippery"], options["success_rate"], options["reward_schedule"])


@functools.lru_cache(maxsize=32)
def _environment(
    desc: tuple[str, ...], is_slippery: bool, success_rate: float, reward_schedule: tuple[float, ...]
) -> KernelEnv:
    chosen = {"is_slippery": is_slippery, "success_rate": success_rate, "reward_schedule": reward_schedule}
    starts = [cell for cell, letter in enumerate("".join(desc)) if letter == "S"]
    problem = tabular.tabulate(len(desc) * len(desc[0]), 4, starts, partial(rules, desc, chosen))
    return tabular.environment("FrozenLake", problem, render)


def render(state: Mapping[str, Any]) -> np.ndarray:
    desc = map_of(state)
    rows, columns = len(desc), len(desc[0])
    grid = tiles.Grid(rows, columns, SNOW)
    for row in range(rows):
        for column in range(columns):
            letter = desc[row][column]
            grid.tile(row, column, START if letter == "S" else ICE)
            if letter == "H":
                grid.canvas.circle(grid.center(row, column), 0.38 * grid.side, WATER)
            elif letter == "G":
                _flag(grid.canvas, grid.center(row, column), grid.side)
    row, column = divmod(int(state["s"]), columns)
    grid.figure(row, column, scale=0.6 if desc[row][column] == "H" else 1.0)
    return grid.canvas.array()


def _flag(canvas: Canvas, at: Point, side: float) -> None:
    x, y = at[0] - 0.3 * side, at[1]
    canvas.line([(x, y - 0.36 * side), (x, y + 0.4 * side)], POLE, 0.05 * side)
    canvas.polygon([(x, y + 0.4 * side), (x + 0.5 * side, y + 0.25 * side), (x, y + 0.1 * side)], FLAG)


TASKS = {
    name: KernelTask(
        environment,
        lambda chosen: gym.spaces.Discrete(sum(map(len, map_of(chosen))), dtype=np.int32),
        gym.spaces.Discrete(4),
        (tabular.PROB,),
        options(size),
        limit,
        render_fps=4,
    )
    for name, size, limit in (("FrozenLake-v1", 4, 100), ("FrozenLake8x8-v1", 8, 200))
}
