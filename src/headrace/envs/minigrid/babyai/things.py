"""What makers of BabyAI's levels share: to put things, doors and the agent into rooms, or to reject the level.

The package gives up a level that it cannot fill within a thousand tries, or that does not do, and makes another.
"""

# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false
# pyright: reportInvalidTypeForm=false

from collections.abc import Callable
from typing import Any

import warp as wp

from headrace.envs.minigrid.babyai.instructions import (
    PUT_NEXT,
    REJECTED,
    TASKS,
    THINGS,
    begin_tasks,
    is_possible,
    mark,
    say_mission,
)
from headrace.envs.minigrid.layouts import any_thing, colored
from headrace.envs.minigrid.room_grid import LINKS, add_door, corner, neighbour
from headrace.envs.minigrid.world import EMPTY, LOCKED, OPEN, WALL, State, ahead_x, ahead_y, front
from headrace.pool.executors.kernels import Streams, integers

TRIES = wp.constant(1000)
MOST_LEVELS = wp.constant(10_000)
"""bound of how many levels are made until one is not rejected: some makers reject nine of ten"""
EVERYWHERE = wp.constant(-1)
"""any of all rooms"""
DOOR_CELLS = wp.constant(18)
UNSEEN, SEEN = wp.constant(wp.uint16(0)), wp.constant(wp.uint16(1))


@wp.func
def reject(state: State, env: int):
    state.notes[env, REJECTED] = 1


@wp.func
def any_room(state: State, env: int, streams: Streams) -> int:
    return integers(streams, env, 0, state.room_rows * state.room_columns)


@wp.func
def any_room_but(state: State, env: int, streams: Streams, other: int) -> int:
    room = other
    while room == other:
        room = any_room(state, env, streams)
    return room


@wp.func
def any_cell(state: State, env: int, streams: Streams, room: int) -> int:
    first = corner(state, room)
    x = first[0] + integers(streams, env, 0, state.room_size)
    return (first[1] + integers(streams, env, 0, state.room_size)) * state.width + x


@wp.func
def place(state: State, env: int, streams: Streams, room: int, thing: int):
    """Puts a thing into a room, not next to the agent."""
    tries, placed = int(0), bool(False)
    while not placed and tries < TRIES:
        at = any_cell(state, env, streams, room)
        away = wp.abs(at % state.width - state.x[env]) + wp.abs(at / state.width - state.y[env])
        if away >= 2 and int(state.cells[env, at]) == EMPTY:
            state.cells[env, at] = wp.uint8(thing)
            placed = True
        tries += 1
    if not placed:
        reject(state, env)


@wp.func
def place_agent_in(state: State, env: int, streams: Streams, room: int):
    """Puts the agent into a room, not in front of a thing or a door."""
    tries, placed = int(0), bool(False)
    while not placed and tries < TRIES:
        at = any_cell(state, env, streams, room)
        if int(state.cells[env, at]) == EMPTY:
            state.x[env] = at % state.width
            state.y[env] = at / state.width
            state.direction[env] = integers(streams, env, 0, 4)
            faced = int(state.cells[env, front(state, env)])
            placed = not (faced != EMPTY and faced != WALL)
        tries += 1
    if not placed:
        reject(state, env)


@wp.func
def note_thing(state: State, env: int, thing: int):
    number = state.notes[env, THINGS] + 1
    state.notes[env, THINGS] = number
    state.notes[env, THINGS + number] = thing


@wp.func
def noted(state: State, env: int, i: int) -> int:
    """Returns a thing that was noted, counted from 0."""
    return state.notes[env, THINGS + 1 + i]


@wp.func
def any_noted(state: State, env: int, streams: Streams) -> int:
    return noted(state, env, integers(streams, env, 0, state.notes[env, THINGS]))


@wp.func
def is_there(state: State, env: int, thing: int) -> bool:
    number = int(0)
    for at in range(state.width * state.height):
        number += wp.where(int(state.cells[env, at]) == thing, 1, 0)
    return number > 0


@wp.func
def add_things(state: State, env: int, streams: Streams, room: int, number: int, unique: bool, color: int):
    """Puts so many things into a room or `EVERYWHERE`, of random colours or of one, and notes them."""
    i = int(0)
    while i < number and state.notes[env, REJECTED] == 0:
        thing = any_thing(streams, env)
        if color >= 0:
            thing = (thing & 15) | (color << 4)
        if not (unique and is_there(state, env, thing)):
            into = room
            if room == EVERYWHERE:
                into = any_room(state, env, streams)
            place(state, env, streams, into, thing)
            note_thing(state, env, thing)
            i += 1


@wp.func
def any_side(state: State, env: int, streams: Streams, room: int) -> int:
    """Returns a side of a room that has a neighbour, but no door."""
    side = integers(streams, env, 0, 4)
    while neighbour(state, room, side) < 0 or ((state.notes[env, LINKS + room] >> side) & 1) != 0:
        side = integers(streams, env, 0, 4)
    return side


@wp.func
def add_locked_door(state: State, env: int, streams: Streams, room: int, side: int) -> int:
    """Adds a locked door, and returns its colour."""
    door = colored(streams, env, LOCKED)
    add_door(state, env, room, side, door)
    return (door >> 4) & 7


@wp.func
def is_door(state: State, cell: int) -> bool:
    return (state.looks[cell] & 255) == OPEN


@wp.func
def any_door(state: State, env: int, streams: Streams) -> int:
    """Returns one of the level's doors."""
    cell = int(WALL)
    while not is_door(state, cell):
        cell = int(state.cells[env, state.notes[env, integers(streams, env, 0, DOOR_CELLS)]])
    return cell


@wp.func
def see(state: State, env: int, at: int) -> int:
    """Marks the cells around one that is marked and can be passed, and returns how many had not been."""
    new = int(0)
    cell = int(state.cells[env, at])
    if state.marks[env, at] == SEEN and (cell == EMPTY or is_door(state, cell)):
        for side in range(4):
            near = at + ahead_y(side) * state.width + ahead_x(side)
            if state.marks[env, near] == UNSEEN:
                state.marks[env, near] = SEEN
                new += 1
    return new


@wp.func
def all_in_reach(state: State, env: int) -> bool:
    """Returns whether the agent can come next to all things without moving any, were it not for locks."""
    last = state.width * state.height - 1
    for at in range(last + 1):
        state.marks[env, at] = UNSEEN
    state.marks[env, state.y[env] * state.width + state.x[env]] = SEEN
    new = int(1)
    while new > 0:
        new = int(0)
        for i in range(last + 1):
            new += see(state, env, i)
        for i in range(last + 1):
            new += see(state, env, last - i)
    for at in range(last + 1):
        cell = int(state.cells[env, at])
        if cell != EMPTY and cell != WALL and state.marks[env, at] == UNSEEN:
            return False
    return True


@wp.func
def reject_blocked(state: State, env: int):
    """Rejects the level if a thing is in the way of another."""
    if not all_in_reach(state, env):
        reject(state, env)


CARRYING = wp.constant(1 << 16)
"""bit of ``variant`` of levels in which the agent has in hands what it is to put somewhere"""


@wp.func
def take_in_hand(state: State, env: int):
    for at in range(state.width * state.height):
        marks = int(state.marks[env, at])
        if (marks & 1) != 0:
            state.carrying[env] = int(state.cells[env, at])
            state.wanted[env] = marks & 255
            state.cells[env, at] = wp.uint8(EMPTY)
            state.marks[env, at] = wp.uint16(marks & ~255)


def making(maker: Callable[..., Any]) -> Any:
    """Returns the environment function ``reset`` of levels by a maker, which makes them until one is not rejected."""

    @wp.func
    def reset(state: State, env: int, streams: Streams):
        levels, rejected = int(0), int(1)
        while rejected != 0 and levels < MOST_LEVELS:
            maker(state, env, streams)
            rejected = state.notes[env, REJECTED]
            if rejected == 0:
                mark(state, env)
                rejected = wp.where(is_possible(state, env), 0, 1)
            levels += 1
        say_mission(state, env)
        begin_tasks(state, env)
        if (state.variant & CARRYING) != 0 and state.notes[env, TASKS] == PUT_NEXT:
            take_in_hand(state, env)

    return reset
