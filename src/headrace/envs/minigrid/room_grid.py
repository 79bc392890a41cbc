"""Grids of equal rooms with doors between them, as several tasks have them.

The first eighteen notes are the cells for doors, of the walls to the right of and below each of up to nine rooms. Nine
more have a bit for each side of a room that has a door or an opening, in the order of directions, and `SHUT` if the
last door that was added to it is locked.
"""

# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false
# pyright: reportInvalidTypeForm=false

import warp as wp

from headrace.envs.minigrid.layouts import ALL_COLORS, begin, fill, free_cell, place_agent
from headrace.envs.minigrid.level import Level
from headrace.envs.minigrid.world import CLOSED, COLORS, EMPTY, LOCKED, WALL, State, ahead_x, ahead_y, front
from headrace.pool.executors.kernels import Streams, integers

BELOW, LINKS, COLOR_NOTES = wp.constant(9), wp.constant(18), wp.constant(27)
NOTES = 27 + COLORS
SHUT = wp.constant(16)
NO_COLOR = wp.constant(-1)
TO_RIGHT, TO_BELOW, TO_LEFT, TO_ABOVE = (wp.constant(side) for side in range(4))


@wp.func
def begin_rooms(state: State, env: int, streams: Streams):
    """Begins with walls between rooms and the agent in the middle; where doors may be is random."""
    begin(state, env)
    size = state.room_size - 1
    columns, rows = state.room_columns, state.room_rows
    for i in range(columns + 1):
        fill(state, env, i * size, 0, 1, state.height, WALL)
    for j in range(rows + 1):
        fill(state, env, 0, j * size, state.width, 1, WALL)
    for j in range(rows):
        for i in range(columns):
            room = j * columns + i
            along = j * size + integers(streams, env, 1, size)
            state.notes[env, room] = along * state.width + (i + 1) * size
            along = i * size + integers(streams, env, 1, size)
            state.notes[env, BELOW + room] = (j + 1) * size * state.width + along
    state.x[env] = columns / 2 * size + state.room_size / 2
    state.y[env] = rows / 2 * size + state.room_size / 2


@wp.func
def neighbour(state: State, room: int, side: int) -> int:
    """Returns the room at a side of a room, -1 for none."""
    i = room % state.room_columns + ahead_x(side)
    j = room / state.room_columns + ahead_y(side)
    if i < 0 or j < 0 or i >= state.room_columns or j >= state.room_rows:
        return -1
    return j * state.room_columns + i


@wp.func
def link(state: State, env: int, room: int, side: int) -> int:
    """Notes that there is a way from a room to its neighbour, and returns the cell for a door."""
    other = neighbour(state, room, side)
    state.notes[env, LINKS + room] = state.notes[env, LINKS + room] | (1 << side)
    state.notes[env, LINKS + other] = state.notes[env, LINKS + other] | (1 << ((side + 2) & 3))
    first = wp.min(room, other)
    return state.notes[env, wp.where(side % 2 == 0, first, BELOW + first)]


@wp.func
def add_door(state: State, env: int, room: int, side: int, door: int) -> int:
    """Adds a door at a side of a room, and returns its cell."""
    at = link(state, env, room, side)
    state.cells[env, at] = wp.uint8(door)
    links = state.notes[env, LINKS + room] & ~SHUT
    state.notes[env, LINKS + room] = links | wp.where((door & 15) == LOCKED, SHUT, 0)
    return at


@wp.func
def corner(state: State, room: int) -> wp.vec2i:
    """Returns the column and row of a room's first cell, which is a wall."""
    size = state.room_size - 1
    return wp.vec2i(room % state.room_columns * size, room / state.room_columns * size)


@wp.func
def put_in_room(state: State, env: int, streams: Streams, room: int, thing: int) -> int:
    """Puts a thing into a room, not next to the agent, and returns its cell."""
    at = int(0)
    close = bool(True)
    first = corner(state, room)
    while close:
        at = free_cell(state, env, streams, first[0], first[1], state.room_size, state.room_size)
        x = wp.abs(at % state.width - state.x[env])
        close = x + wp.abs(at / state.width - state.y[env]) < 2
    state.cells[env, at] = wp.uint8(thing)
    return at


@wp.func
def agent_in_room(state: State, env: int, streams: Streams, room: int):
    """Puts the agent into a room, not in front of a thing or a door."""
    first = corner(state, room)
    faced = int(0)
    while faced != EMPTY and faced != WALL:
        place_agent(state, env, streams, first[0], first[1], state.room_size, state.room_size)
        faced = int(state.cells[env, front(state, env)])


@wp.func
def all_reached(state: State, env: int) -> bool:
    """Returns whether there are ways to all rooms from the agent's."""
    size = state.room_size - 1
    rooms = state.room_rows * state.room_columns
    reached = 1 << (state.y[env] / size * state.room_columns + state.x[env] / size)
    for _ in range(rooms):
        for room in range(rooms):
            if ((reached >> room) & 1) != 0:
                for side in range(4):
                    if ((state.notes[env, LINKS + room] >> side) & 1) != 0:
                        reached |= 1 << neighbour(state, room, side)
    return reached == (1 << rooms) - 1


@wp.func
def connect_all(state: State, env: int, streams: Streams, avoided: int):
    """Adds doors that are not locked, of other colours, to rooms that are not, until there are ways to all rooms."""
    while not all_reached(state, env):
        room = integers(streams, env, 0, state.room_rows * state.room_columns)
        side = integers(streams, env, 0, 4)
        other = neighbour(state, room, side)
        if other >= 0:
            links = state.notes[env, LINKS + room]
            if (links & ((1 << side) | SHUT)) == 0 and (state.notes[env, LINKS + other] & SHUT) == 0:
                color = integers(streams, env, 0, ALL_COLORS)
                while color == avoided:
                    color = integers(streams, env, 0, ALL_COLORS)
                add_door(state, env, room, side, CLOSED | (color << 4))


def rooms_of(level: Level, size: int, rows: int, columns: int, max_steps: int, **parameters: int):
    """Returns the task of a grid of equal rooms, ``size`` cells wide and high with their walls."""
    width, height = columns * (size - 1) + 1, rows * (size - 1) + 1
    return level.task(width, height, max_steps, room_size=size, room_rows=rows, room_columns=columns, **parameters)
