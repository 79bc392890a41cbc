"""Taxi: pick up a passenger at one of four stands and drop them off at another.

The problem is from Dietterich, "Hierarchical reinforcement learning with the MAXQ value function
decomposition" (JAIR 13, 2000), with the rules of Gymnasium's ``taxi.py``. Actions 0 to 5 move south, north,
east and west, pick up and drop off. Each step costs 1, an invalid pick-up or drop-off 10; delivering the
passenger earns 20 and ends the episode. Observations are
``((row · 5 + column) · 5 + passenger) · 4 + destination`` as int32, where ``passenger`` is the number of a
stand, or 4 in the taxi. ``info["prob"]`` is the probability of the last transition (1 after a reset).
``info["action_mask"]``, int8[6], is 1 for each action that changes the state.

Taxi-v4 has Gymnasium's options. With ``is_rainy``, a move goes in the chosen direction with probability
``rainy_probability``, and otherwise in a perpendicular one. With ``fickle_passenger``, the passenger changes
the destination on the first move after the first pick-up, with probability ``fickle_probability``. Taxi-v3 has
neither, as in EnvPool.
"""

# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false

import functools
from collections.abc import Mapping
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
import warp as wp

from headrace.envs.drawing import BLACK, WHITE, Color, Point, box
from headrace.envs.toy_text import tabular, tiles
from headrace.envs.toy_text.tabular import Outcome
from headrace.pool.executors.kernels import KernelEnv, KernelTask, Option, Streams, integers, uniform
from headrace.pool.spec import Field

SIDE = 5
STATES, ACTIONS = SIDE * SIDE * 5 * 4, 6
STANDS = ((0, 0), (0, 4), (4, 0), (4, 3))
WALLS_EAST_OF = {(0, 1), (1, 1), (3, 0), (3, 2), (4, 0), (4, 2)}
IN_TAXI = 4
SOUTH, NORTH, EAST, WEST, PICK_UP, SET_DOWN = range(ACTIONS)
MOVES = {SOUTH: (1, 0), NORTH: (-1, 0), EAST: (0, 1), WEST: (0, -1)}
LEFT_AND_RIGHT = {SOUTH: (EAST, WEST), NORTH: (WEST, EAST), EAST: (NORTH, SOUTH), WEST: (SOUTH, NORTH)}

INFO = (tabular.PROB, Field("action_mask", np.dtype(np.int8), (ACTIONS,)))
OPTIONS = {
    "is_rainy": False,
    "fickle_passenger": False,
    "rainy_probability": Option(0.8, 0.0, 1.0),
    "fickle_probability": Option(0.3, 0.0, 1.0),
}

Cell = tuple[int, int]


def encode(row: int, column: int, passenger: int, destination: int) -> int:
    """Returns the number of a state."""
    return ((row * SIDE + column) * 5 + passenger) * 4 + destination


def decode(state: int) -> tuple[int, int, int, int]:
    """Returns the (row, column, passenger, destination) of a state's number."""
    rest, destination = divmod(state, 4)
    rest, passenger = divmod(rest, 5)
    return *divmod(rest, SIDE), passenger, destination


def moved(cell: Cell, direction: int) -> Cell:
    """Returns the cell that a move leads to, which is ``cell`` itself if a wall blocks the move."""
    down, right = MOVES[direction]
    row, column = cell[0] + down, cell[1] + right
    if not (0 <= row < SIDE and 0 <= column < SIDE) or (right and (row, min(column, cell[1])) in WALLS_EAST_OF):
        return cell
    return row, column


def rules(rainy_probability: float | None, state: int, action: int) -> list[Outcome]:
    """Returns the possible outcomes of an action, as Gymnasium's ``P[state][action]``.

    ``rainy_probability`` is None if it does not rain.
    """
    *at, passenger, destination = decode(state)
    cell = (at[0], at[1])
    stand = STANDS.index(cell) if cell in STANDS else None
    if action == PICK_UP:
        if passenger != IN_TAXI and passenger == stand:
            return [Outcome(1.0, encode(*cell, IN_TAXI, destination), -1.0, False)]
        return [Outcome(1.0, state, -10.0, False)]
    if action == SET_DOWN:
        if passenger != IN_TAXI or stand is None:
            return [Outcome(1.0, state, -10.0, False)]
        arrived = stand == destination
        return [Outcome(1.0, encode(*cell, stand, destination), 20.0 if arrived else -1.0, arrived)]

    def going(direction: int, probability: float) -> Outcome:
        return Outcome(probability, encode(*moved(cell, direction), passenger, destination), -1.0, False)

    if rainy_probability is None:
        return [going(action, 1.0)]
    aside = (1.0 - rainy_probability) / 2.0
    # a taxi that is blocked ahead does not slip to the side either
    left, right = LEFT_AND_RIGHT[action] if moved(cell, action) != cell else (action, action)
    return [going(action, rainy_probability), going(left, aside), going(right, aside)]


def action_mask(state: int) -> list[bool]:
    """Returns whether each action changes the state."""
    row, column, passenger, _ = decode(state)
    cell = (row, column)
    can_move = [moved(cell, direction) != cell for direction in MOVES]
    pick_up = passenger != IN_TAXI and cell == STANDS[passenger]
    return [*can_move, pick_up, passenger == IN_TAXI and cell in STANDS]


@wp.struct
class State:
    """The fields of `tabular.State`, as Warp's structs have no inheritance, and those of the fickle passenger.

    ``fickle`` is whether the passenger is going to change the destination in this episode; ``mask`` int8[states, 6]
    is the action mask of every state.
    """

    s: wp.array[wp.int32]
    chance: wp.array[wp.float32]
    fickle: wp.array[wp.bool]

    next_state: wp.array[wp.int32]
    reward: wp.array[wp.float32]
    terminated: wp.array[wp.bool]
    prob: wp.array[wp.float32]
    until: wp.array[wp.float64]
    starts: wp.array[wp.int32]
    mask: wp.array2d[wp.int8]
    num_actions: wp.int32
    num_outcomes: wp.int32
    num_starts: wp.int32
    fickle_passenger: wp.bool
    fickle_probability: wp.float64


@wp.struct
class View:
    obs: wp.array[wp.int32]
    prob: wp.array[wp.float32]
    action_mask: wp.array2d[wp.int8]


@wp.func
def reset(state: State, env: int, streams: Streams):
    tabular.reset(state, env, streams)
    if state.fickle_passenger:
        chance = uniform(streams, env, wp.float64(0.0), wp.float64(1.0))
        state.fickle[env] = chance < state.fickle_probability


@wp.func
def step(state: State, env: int, actions: wp.array[wp.int64], row: int, streams: Streams):
    before = state.s[env]
    reward, terminated = tabular.step(state, env, actions, row, streams)
    if state.fickle_passenger and state.fickle[env]:
        after = state.s[env]
        if (before / 4) % 5 == IN_TAXI and before / 20 != after / 20:
            state.fickle[env] = False
            other = integers(streams, env, 1, 4)
            state.s[env] = after - after % 4 + (after + other) % 4
    return reward, terminated


@wp.func
def observe(state: State, env: int, view: View, row: int):
    tabular.observe(state, env, view, row)
    for action in range(ACTIONS):
        view.action_mask[row, action] = state.mask[state.s[env], action]


COLORS: tuple[Color, ...] = ((226, 92, 84), (104, 178, 100), (236, 200, 84), (92, 132, 214))
STREET, GROUND, WALL = (206, 206, 204), (244, 243, 238), (70, 70, 76)
CAB, WINDOW, PERSON = (250, 196, 36), (190, 222, 240), (60, 60, 66)


def render(state: Mapping[str, Any]) -> np.ndarray:
    """Returns a frame, uint8[344, 344, 3]: the passenger at a stand or in the taxi, and a house at the destination."""
    row, column, passenger, destination = decode(int(state["s"]))
    grid = tiles.Grid(SIDE, SIDE, GROUND, margin=12)
    for y in range(SIDE):
        for x in range(SIDE):
            grid.tile(y, x, STREET)
    for cell, color, letter in zip(STANDS, COLORS, "RGYB", strict=True):
        grid.tile(*cell, color)
        x, y = grid.center(*cell)
        grid.canvas.text((x - 22, y + 20), letter, 14, BLACK)
    _house(grid, STANDS[destination])
    _walls(grid)
    _cab(grid, grid.center(row, column))
    seat = (row, column) if passenger == IN_TAXI else STANDS[passenger]
    x, y = grid.center(*seat)
    _person(grid, (x, y + 6) if passenger == IN_TAXI else (x - 18, y - 12))
    return grid.canvas.array()


def _walls(grid: tiles.Grid) -> None:
    half = grid.side / 2
    for cell in WALLS_EAST_OF:
        x, y = grid.center(*cell)
        grid.canvas.line([(x + half, y - half), (x + half, y + half)], WALL, 5)
    (left, top), (right, bottom) = grid.center(-0.5, -0.5), grid.center(SIDE - 0.5, SIDE - 0.5)
    grid.canvas.line([(left, top), (right, top), (right, bottom), (left, bottom), (left, top)], WALL, 5)


def _house(grid: tiles.Grid, cell: Cell) -> None:
    x, y = grid.center(*cell)
    x, y = x + 14, y + 8
    grid.canvas.polygon(box(-11, 11, -10, 5, at=(x, y)), WHITE)
    grid.canvas.polygon([(x - 15, y + 5), (x + 15, y + 5), (x, y + 18)], WALL)
    grid.canvas.polygon(box(-3, 3, -10, 0, at=(x, y)), WALL)


def _cab(grid: tiles.Grid, at: Point) -> None:
    x, y = at
    grid.canvas.polygon(box(-24, 24, -14, 2, at=at), CAB)
    grid.canvas.polygon([(x - 16, y + 2), (x + 16, y + 2), (x + 11, y + 15), (x - 11, y + 15)], CAB)
    grid.canvas.polygon([(x - 12, y + 2), (x + 12, y + 2), (x + 9, y + 12), (x - 9, y + 12)], WINDOW)
    for i in range(6):
        grid.canvas.polygon(box(-24 + 8 * i, -20 + 8 * i, -4, 0, at=at), BLACK)
    for wheel in (-14, 14):
        grid.canvas.circle((x + wheel, y - 15), 6, BLACK)


def _person(grid: tiles.Grid, at: Point) -> None:
    x, y = at
    grid.canvas.polygon([(x - 7, y - 10), (x + 7, y - 10), (x + 3, y + 3), (x - 3, y + 3)], PERSON)
    grid.canvas.circle((x, y + 5), 5, tiles.SKIN)


@functools.lru_cache(maxsize=32)
def _environment(rainy_probability: float | None) -> KernelEnv:
    starts = [s for s in range(STATES) if decode(s)[2] not in (IN_TAXI, decode(s)[3])]
    problem = tabular.tabulate(STATES, ACTIONS, starts, partial(rules, rainy_probability))
    mask = np.array([action_mask(s) for s in range(STATES)], np.int8)
    constants = {**problem.constants, "fickle_passenger": False, "fickle_probability": 0.0}
    return KernelEnv(
        "Taxi",
        State,
        View,
        reset,
        step,
        observe,
        render,
        constants=constants,
        tables={**problem.tables, "mask": mask},
        bounds=problem.bounds,
    )


def environment(options: Mapping[str, Any]) -> KernelEnv:
    """Returns the environment for these options."""
    return _environment(options["rainy_probability"] if options.get("is_rainy") else None)


TASKS = {
    name: KernelTask(
        environment,
        gym.spaces.Discrete(STATES, dtype=np.int32),
        gym.spaces.Discrete(ACTIONS),
        INFO,
        options,
        max_episode_steps=200,
        render_fps=4,
    )
    for name, options in (("Taxi-v3", {}), ("Taxi-v4", OPTIONS))
}
