"""MiniGrid's world: cells with walls, doors and things, and an agent that turns, walks, carries and opens.

The rules are those of Chevalier-Boisvert et al., "Minigrid & Miniworld: Modular & customizable reinforcement learning
environments for goal-oriented tasks" (arXiv 2306.13831), as its package has them, version 3.2.0, in an independent
implementation. A cell is a byte: its kind in the four lowest bits, its colour in the next three; with the highest bit,
it is a box with a key inside. Kinds are numbered as in observations, but for those that are opaque, walls and doors
that are closed or locked, which have the numbers from 12 on.
"""

# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false
# pyright: reportInvalidTypeForm=false

from collections.abc import Callable
from typing import Any

import numpy as np
import warp as wp

from headrace.pool.executors.kernels import Streams

EMPTY, FLOOR, OPEN, KEY, BALL, BOX, GOAL_KIND, LAVA, AGENT, WALL_KIND, CLOSED, LOCKED = (
    wp.constant(kind) for kind in (1, 3, 4, 5, 6, 7, 8, 9, 10, 12, 13, 14)
)
RED, GREEN, BLUE, PURPLE, YELLOW, GREY = range(6)
COLORS = 6
FILLED = wp.constant(0x80)
"""bit of a box that has a key inside: bits 0 to 2 are then the key's colour, 3 to 5 the box's"""
WALL = wp.constant(int(WALL_KIND) | GREY << 4)
GOAL = wp.constant(int(GOAL_KIND) | GREEN << 4)

LEFT, RIGHT, FORWARD, PICK_UP, DROP, TOGGLE, DONE = (wp.constant(action) for action in range(7))
NOT_NEGATIVE = wp.constant(0x7FFFFFFF)  # tells the compiler so of an index
GOES_ON, WON, LOST = (wp.constant(outcome) for outcome in range(3))

PASSABLE, PORTABLE = wp.constant(1 << 24), wp.constant(1 << 25)
"""properties in the table ``looks``"""


def looks() -> np.ndarray:
    """Returns what is seen of every cell, int32[256]: bits 0 to 7 its kind, 8 to 15 its colour, 16 to 23 its state.

    The state of a door is 0 open, 1 closed or 2 locked, that of an agent its direction, which it has in place of a
    colour. Cells that are `PASSABLE` or `PORTABLE` have that bit, too. Byte 0 is a cell that is not seen.
    """
    table = np.zeros(256, np.int32)
    for cell in range(1, 256):
        kind, color, state = cell & 15, cell >> 4, 0
        if cell & FILLED:
            kind, color = int(BOX), cell >> 3 & 7
        elif kind == AGENT:
            color, state = RED, color
        passable = kind in (EMPTY, FLOOR, OPEN, GOAL_KIND, LAVA)
        portable = kind in (KEY, BALL, BOX)
        if kind in (CLOSED, LOCKED):
            kind, state = int(OPEN), kind - 12
        shown = 2 if kind == WALL_KIND else kind
        table[cell] = shown | color << 8 | state << 16 | passable << 24 | portable << 25
    return table


def is_valid(cell: int) -> bool:
    """Returns whether a byte is a cell: unseen, or a kind in one of the colours, or a box with a key in two of them."""
    if cell & FILLED:
        return (cell & 7) < COLORS and (cell >> 3 & 7) < COLORS
    kinds = (EMPTY, FLOOR, OPEN, KEY, BALL, BOX, GOAL_KIND, LAVA, WALL_KIND, CLOSED, LOCKED)
    return cell == 0 or ((cell & 15) in map(int, kinds) and cell >> 4 < COLORS)


VALID = frozenset(filter(is_valid, range(256)))
"""the bytes that cells and what is carried can have"""


def spread() -> np.ndarray:
    """Returns where light falls in the next row of seven cells, uint8[128 · 128].

    The index is (transparent cells · 128 + lit cells), each as bits; the value, too. Light spreads sideways through
    cells that are transparent, and from there straight on and diagonally.
    """
    clear, lit = np.divmod(np.arange(1 << 14), 1 << 7)
    through = lit & clear
    for _ in range(6):
        through |= (through << 1 | through >> 1) & clear
    return ((through | through << 1 | through >> 1) & 127).astype(np.uint8)


@wp.struct
class State:
    """The state of all tasks; cells are numbered row by row.

    ``carrying`` is the byte of what the agent carries, `EMPTY` for nothing. ``target`` and ``second`` are cells that a
    task's rule looks at, ``wanted`` the byte of a thing. ``notes`` are what the level's maker remembers, and ``marks``
    what it remembers of each cell. Beside tables, the scalars are the level's parameters, of which each task has some.
    """

    cells: wp.array2d[wp.uint8]
    x: wp.array[wp.int32]
    y: wp.array[wp.int32]
    direction: wp.array[wp.int32]
    carrying: wp.array[wp.int32]
    target: wp.array[wp.int32]
    second: wp.array[wp.int32]
    wanted: wp.array[wp.int32]
    marks: wp.array2d[wp.uint16]
    steps: wp.array[wp.int32]
    notes: wp.array2d[wp.int32]
    mission: wp.array2d[wp.uint8]
    looks: wp.array[wp.int32]
    spread: wp.array[wp.uint8]
    words: wp.array[wp.uint8]
    tiles: wp.array4d[wp.uint8]
    width: wp.int32
    height: wp.int32
    count: wp.int32
    variant: wp.int32
    room_size: wp.int32
    room_rows: wp.int32
    room_columns: wp.int32
    steps_per_task: wp.int32
    see_through: wp.bool
    max_episode_steps: wp.int32


@wp.func
def ahead_x(direction: int) -> int:
    """Returns the column of the cell in this direction, relative to the agent's: 0 right, 1 down, 2 left, 3 up."""
    return wp.where(direction == 0, 1, wp.where(direction == 2, -1, 0))


@wp.func
def ahead_y(direction: int) -> int:
    return wp.where(direction == 1, 1, wp.where(direction == 3, -1, 0))


@wp.func
def front(state: State, env: int) -> int:
    """Returns the cell in front of the agent, or a cell of the grid's edge where there is none."""
    direction = state.direction[env]
    x = wp.clamp(state.x[env] + ahead_x(direction), 0, state.width - 1)
    y = wp.clamp(state.y[env] + ahead_y(direction), 0, state.height - 1)
    return y * state.width + x


@wp.func
def toggled(cell: int, carrying: int) -> int:
    """Returns what a cell becomes that the agent toggles while it carries something."""
    kind = cell & 15
    fits = wp.where(kind == LOCKED, carrying == cell - LOCKED + KEY, kind == CLOSED)
    bare = wp.where(kind == BOX, EMPTY, wp.where(kind == OPEN, cell - OPEN + CLOSED, cell))
    return wp.where((cell & FILLED) != 0, KEY | ((cell & 7) << 4), wp.where(fits, cell - kind + OPEN, bare))


@wp.func
def act(state: State, env: int, action: int) -> int:
    """Does what an action says, and returns whether the agent has stepped on a goal (`WON`) or into lava (`LOST`).

    There are no branches, as nothing predicts which action is next.
    """
    direction = state.direction[env]
    x = wp.clamp(state.x[env] + ahead_x(direction), 0, state.width - 1)
    y = wp.clamp(state.y[env] + ahead_y(direction), 0, state.height - 1)
    at = (y * state.width + x) & NOT_NEGATIVE
    cell = int(state.cells[env, at])
    carrying = state.carrying[env]
    look = state.looks[cell & NOT_NEGATIVE]
    walks = wp.where(action == FORWARD, look & PASSABLE, 0) != 0
    takes = wp.where(action == PICK_UP, wp.where(carrying == EMPTY, look & PORTABLE, 0), 0) != 0
    drops = wp.where(action == DROP, cell, -1) == EMPTY

    state.direction[env] = (direction + wp.where(action == RIGHT, 1, wp.where(action == LEFT, 3, 0))) & 3
    state.x[env] = wp.where(walks, x, state.x[env])
    state.y[env] = wp.where(walks, y, state.y[env])
    state.carrying[env] = wp.where(takes, cell, wp.where(drops, EMPTY, carrying))
    left = wp.where(action == TOGGLE, toggled(cell, carrying), cell)
    left = wp.where(takes, EMPTY, wp.where(drops, carrying, left))
    state.cells[env, at] = wp.uint8(left)
    entered = wp.where(walks, cell, EMPTY)
    return wp.where(entered == GOAL, WON, wp.where(entered == LAVA, LOST, GOES_ON))


@wp.func
def earned_within(state: State, env: int, outcome: int, limit: int) -> wp.float32:
    """Returns the reward of an outcome: for `WON` the more, the fewer of a limit of steps it took."""
    if outcome != WON:
        return wp.float32(0.0)
    share = wp.float64(0.0)
    if limit > 0:
        share = wp.float64(state.steps[env]) / wp.float64(limit)
    return wp.float32(wp.float64(1.0) - wp.float64(0.9) * share)


@wp.func
def earned(state: State, env: int, outcome: int) -> wp.float32:
    return earned_within(state, env, outcome, state.max_episode_steps)


@wp.func
def by_world(state: State, env: int, action: int, held: int, outcome: int) -> int:
    """The rule of tasks that only the world decides: by goals and lava."""
    return outcome


def stepping(rule: Callable[..., Any] = by_world) -> Any:
    """Returns the environment function ``step`` of a task.

    Args:
        rule: ``(state, env, action, held, outcome) → outcome``: who has won after an action, where the agent carried
            ``held`` before, and the world says ``outcome``.
    """

    @wp.func
    def step(state: State, env: int, actions: wp.array[wp.int64], row: int, streams: Streams):
        action = int(actions[row])
        held = state.carrying[env]
        state.steps[env] = state.steps[env] + 1
        outcome = rule(state, env, action, held, act(state, env, action))
        return earned(state, env, outcome), outcome != GOES_ON

    return step
