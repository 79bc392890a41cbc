"""A step in a level of BabyAI: what the agent does, and what of the level's tasks it has done with it."""

# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false
# pyright: reportInvalidTypeForm=false

import warp as wp

from headrace.envs.minigrid.babyai.instructions import (
    FINISHED,
    GO_TO,
    LIMIT,
    OPEN_IT,
    PICK_UP_IT,
    PUT_NEXT,
    STRICT,
    TASKS,
    is_around,
)
from headrace.envs.minigrid.world import (
    BOX,
    DROP,
    EMPTY,
    GOES_ON,
    LOST,
    OPEN,
    PICK_UP,
    TOGGLE,
    WON,
    State,
    act,
    earned_within,
    front,
)
from headrace.pool.executors.kernels import Streams

KNOWN = wp.constant(8)
"""the bit of a cell's marks from which on they tell where things are known to be"""
HERE = wp.constant(0xFF)


@wp.func
def move_marks(state: State, env: int, action: int, at: int, cell: int, held: int):
    """Moves the marks of what the agent picked up from, or dropped to, a cell that had been ``cell``."""
    marks = int(state.marks[env, at])
    if action == PICK_UP and held == EMPTY and state.carrying[env] != EMPTY:
        state.wanted[env] = marks & HERE
        state.marks[env, at] = wp.uint16(marks & ~HERE)
    elif action == TOGGLE and (state.looks[cell] & HERE) == BOX:
        state.marks[env, at] = wp.uint16(marks & ~HERE)
    elif action == DROP:
        if held != EMPTY and state.carrying[env] == EMPTY:
            state.marks[env, at] = wp.uint16(marks | state.wanted[env])
            state.wanted[env] = 0
        for i in range(state.width * state.height):
            marks = int(state.marks[env, i]) & HERE
            state.marks[env, i] = wp.uint16(marks | (marks << KNOWN))


@wp.func
def verified(state: State, env: int, i: int, action: int, held: int, held_marks: int) -> int:
    """Returns what came of task i, where the agent had carried ``held``, so far as the task has seen it."""
    asked = state.notes[env, TASKS + i]
    task, strict = asked & 7, (asked & STRICT) != 0
    what = 1 << (2 * i)
    at = front(state, env)
    carrying = state.carrying[env]
    outcome = int(GOES_ON)
    if task == GO_TO and ((int(state.marks[env, at]) >> KNOWN) & what) != 0:
        outcome = WON
    elif task == OPEN_IT and action == TOGGLE:
        cell = int(state.cells[env, at])
        if (cell & 15) == OPEN and (int(state.marks[env, at]) & what) != 0:
            outcome = WON
        elif strict and (state.looks[cell] & HERE) == OPEN:
            outcome = LOST
    elif task == PICK_UP_IT and action == PICK_UP and carrying != EMPTY:
        if held == EMPTY and (state.wanted[env] & what) != 0:
            outcome = WON
        elif strict:
            outcome = LOST
    elif task == PUT_NEXT and action == DROP and carrying == EMPTY and held != EMPTY:
        moved = (held_marks & what) != 0
        outcome = wp.where(moved and is_around(state, env, at, what << (KNOWN + 1)), WON, GOES_ON)
    return outcome


@wp.func
def group_verified(state: State, env: int, first: int, action: int, held: int, held_marks: int) -> int:
    """Returns what came of the two tasks of a group."""
    lost = bool(False)
    for i in range(first, first + 2):
        if ((state.notes[env, FINISHED] >> i) & 1) == 0:
            outcome = verified(state, env, i, action, held, held_marks)
            if outcome == WON:
                state.notes[env, FINISHED] = state.notes[env, FINISHED] | (1 << i)
            lost = lost or outcome == LOST
    if ((state.notes[env, FINISHED] >> first) & 3) == 3:
        return WON
    return wp.where(lost, LOST, GOES_ON)


@wp.func
def step(state: State, env: int, actions: wp.array[wp.int64], row: int, streams: Streams):
    """As in the package, a task has not seen what was carried before the step in which it is first looked at."""
    action = int(actions[row])
    at = front(state, env)
    cell = int(state.cells[env, at])
    held = int(state.carrying[env])
    marks = int(state.wanted[env])
    state.steps[env] = state.steps[env] + 1
    act(state, env, action)
    move_marks(state, env, action, at, cell, held)
    outcome = int(WON)
    if (state.notes[env, FINISHED] & 3) != 3:
        outcome = group_verified(state, env, 0, action, wp.where(state.steps[env] == 1, EMPTY, held), marks)
        held = EMPTY
    if outcome == WON:
        outcome = group_verified(state, env, 2, action, held, marks)
    return earned_within(state, env, outcome, state.notes[env, LIMIT]), outcome != GOES_ON


@wp.func
def truncates(state: State, env: int) -> bool:
    limit = state.notes[env, LIMIT]
    return limit > 0 and state.steps[env] >= limit
