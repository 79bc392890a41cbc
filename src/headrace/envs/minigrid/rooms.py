"""Tasks in grids of rooms with doors between them: to open a door, to find a thing behind locked ones, to pass all.

In grids of equal rooms, the first eighteen notes are the cells for doors, of the walls to the right of and below each
of up to nine rooms. Nine more have a bit for each side of a room that has a door or an opening, in the order of
directions, and `SHUT` if the last door that was added to it is locked.
"""

# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false
# pyright: reportInvalidTypeForm=false

import warp as wp

from headrace.envs.minigrid.layouts import (
    begin,
    colored,
    fill,
    free_cell,
    outline,
    place_agent,
    say_color,
    shuffle,
)
from headrace.envs.minigrid.level import Level
from headrace.envs.minigrid.world import (
    BALL,
    BLUE,
    BOX,
    CLOSED,
    COLORS,
    EMPTY,
    FILLED,
    GOAL,
    GREEN,
    GREY,
    KEY,
    LOCKED,
    OPEN,
    PICK_UP,
    TOGGLE,
    WALL,
    WON,
    State,
    ahead_x,
    ahead_y,
    front,
    stepping,
)
from headrace.pool.executors.kernels import Streams, integers

BELOW, LINKS, COLOR_NOTES = wp.constant(9), wp.constant(18), wp.constant(27)
NOTES = 27 + COLORS
SHUT = wp.constant(16)
TO_RIGHT, TO_BELOW, TO_LEFT, TO_ABOVE = (wp.constant(side) for side in range(4))
BLUE_BALL, GREEN_BALL = wp.constant(int(BALL) | BLUE << 4), wp.constant(int(BALL) | GREEN << 4)
GREY_BOX_WITH_KEY = wp.constant(int(FILLED) | GREY << 3)
ALL_COLORS = wp.constant(COLORS)


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
def connect_all(state: State, env: int, streams: Streams):
    """Adds doors that are not locked, to rooms that are not, until there are ways to all rooms."""
    while not all_reached(state, env):
        room = integers(streams, env, 0, state.room_rows * state.room_columns)
        side = integers(streams, env, 0, 4)
        other = neighbour(state, room, side)
        if other >= 0:
            links = state.notes[env, LINKS + room]
            if (links & ((1 << side) | SHUT)) == 0 and (state.notes[env, LINKS + other] & SHUT) == 0:
                add_door(state, env, room, side, colored(streams, env, CLOSED))


@wp.func
def key_corridor(state: State, env: int, streams: Streams):
    """A hallway with rooms at both sides: a key to the left, and behind a locked door to the right a ball."""
    begin_rooms(state, env, streams)
    size = state.room_size - 1
    for row in range(1, state.room_rows):
        fill(state, env, size + 1, row * size, size - 1, 1, EMPTY)
        link(state, env, 3 * row + 1, TO_ABOVE)
    room = 3 * integers(streams, env, 0, state.room_rows) + 2
    door = colored(streams, env, LOCKED)
    add_door(state, env, room, TO_LEFT, door)
    ball = colored(streams, env, BALL)
    put_in_room(state, env, streams, room, ball)
    put_in_room(state, env, streams, 3 * integers(streams, env, 0, state.room_rows), door - LOCKED + KEY)
    agent_in_room(state, env, streams, 3 * (state.room_rows / 2) + 1)
    connect_all(state, env, streams)
    state.wanted[env] = ball
    say_color(state, env, 3, ball)


@wp.func
def unlock(state: State, env: int, streams: Streams):
    """Two rooms with a locked door between them and its key; by ``variant``, a box behind it and a ball before it."""
    begin_rooms(state, env, streams)
    if state.variant > 0:
        box = colored(streams, env, BOX)
        put_in_room(state, env, streams, 1, box)
        state.wanted[env] = box
        say_color(state, env, 3, box)
    door = colored(streams, env, LOCKED)
    at = add_door(state, env, 0, TO_RIGHT, door)
    state.target[env] = at
    if state.variant > 1:
        state.cells[env, at - 1] = wp.uint8(colored(streams, env, BALL))
    put_in_room(state, env, streams, 0, door - LOCKED + KEY)
    agent_in_room(state, env, streams, 0)


@wp.func
def is_unlocked(state: State, env: int, action: int, held: int, outcome: int) -> int:
    door = int(state.cells[env, state.target[env]])
    return wp.where(action == TOGGLE and (door & 15) == OPEN, WON, outcome)


@wp.func
def is_picked_up(state: State, env: int, action: int, held: int, outcome: int) -> int:
    return wp.where(action == PICK_UP and state.carrying[env] == state.wanted[env], WON, outcome)


IN_BOX, BLOCKED, KEYS_LAST, MIDDLE = (wp.constant(bit) for bit in (1, 2, 4, 8))
"""bits of ``variant`` of mazes: keys in boxes, balls in front of doors, keys after all balls, and where the agent is"""


@wp.func
def hide_key(state: State, env: int, streams: Streams, room: int, color: int):
    key = KEY | (color << 4)
    put_in_room(state, env, streams, room, wp.where((state.variant & IN_BOX) != 0, GREY_BOX_WITH_KEY | color, key))


@wp.func
def obstruct(state: State, env: int, room: int, side: int, color: int):
    """Adds a locked door, by ``variant`` with a ball in front of it."""
    at = add_door(state, env, room, side, LOCKED | (color << 4))
    if (state.variant & BLOCKED) != 0:
        before = at - ahead_y(side) * state.width - ahead_x(side)
        state.cells[env, before] = wp.uint8(GREEN_BALL)


@wp.func
def obstructed_maze(state: State, env: int, streams: Streams):
    """A blue ball behind locked doors: of two rooms, or in a corner of nine, with ``count`` quarters to search."""
    begin_rooms(state, env, streams)
    shuffle(state, env, streams, COLOR_NOTES, ALL_COLORS)
    ball_room = int(1)
    agent_room = int(0)
    if state.count == 0:
        obstruct(state, env, 0, TO_RIGHT, state.notes[env, COLOR_NOTES])
        hide_key(state, env, streams, 0, state.notes[env, COLOR_NOTES])
    for quarter in range(state.count):
        add_door(state, env, 4, quarter, CLOSED | (state.notes[env, COLOR_NOTES + quarter] << 4))
        room = neighbour(state, 4, quarter)
        for turn in range(2):
            side = (quarter + 3 + 2 * turn) & 3
            # the package takes one colour of six for the side -1
            color = state.notes[env, COLOR_NOTES + (quarter + 5 + 2 * turn) % 6]
            obstruct(state, env, room, side, color)
            if (state.variant & KEYS_LAST) == 0:
                hide_key(state, env, streams, room, color)
        if (state.variant & KEYS_LAST) != 0:
            for turn in range(2):
                color = state.notes[env, COLOR_NOTES + (quarter + 5 + 2 * turn) % 6]
                hide_key(state, env, streams, room, color)
    if state.count > 0:
        chosen = integers(streams, env, 0, state.count)
        ball_room = wp.where(chosen == 0, 2, wp.where(chosen == 1, 8, wp.where(chosen == 2, 6, 0)))
        agent_room = wp.where((state.variant & MIDDLE) != 0, 4, 5)
    put_in_room(state, env, streams, ball_room, BLUE_BALL)
    agent_in_room(state, env, streams, agent_room)
    state.wanted[env] = BLUE_BALL


X, Y, WIDTH, HEIGHT, DOOR, ROOM = (wp.constant(note) for note in (0, 1, 2, 3, 4, 5))
"""the notes of a room in a chain: its rectangle, and the cell of the door to it; and how many notes that are"""


@wp.func
def try_room(state: State, env: int, streams: Streams, room: int, side: int, x: int, y: int) -> bool:
    """Notes a room of random size whose wall at a side has a door at (x, y), if there is space for it."""
    width = integers(streams, env, 4, state.room_size + 1)
    height = integers(streams, env, 4, state.room_size + 1)
    left, top = x, y
    if room > 0:
        if side % 2 == 0:
            left = wp.where(side == 0, x - width + 1, x)
            top = integers(streams, env, y - height + 2, y)
        else:
            left = integers(streams, env, x - width + 2, x)
            top = wp.where(side == 1, y - height + 1, y)
    if left < 0 or top < 0 or left + width > state.width or top + height >= state.height:
        return False
    for i in range(room - 1):
        other = i * ROOM
        other_x, other_y = state.notes[env, other + X], state.notes[env, other + Y]
        beside = left + width < other_x or left >= other_x + state.notes[env, other + WIDTH]
        below = top + height < other_y or top >= other_y + state.notes[env, other + HEIGHT]
        if not (beside or below):
            return False
    note = room * ROOM
    state.notes[env, note + X] = left
    state.notes[env, note + Y] = top
    state.notes[env, note + WIDTH] = width
    state.notes[env, note + HEIGHT] = height
    state.notes[env, note + DOOR] = y * state.width + x
    return True


@wp.func
def chain(state: State, env: int, streams: Streams) -> int:
    """Notes rooms of a chain, each with eight attempts, and returns how many there are."""
    x = integers(streams, env, 0, state.width - 2)
    y = integers(streams, env, 0, state.width - 2)
    entry = int(TO_LEFT)  # the wall through which a room is entered
    rooms, attempts = int(0), int(0)
    if try_room(state, env, streams, 0, entry, x, y):
        rooms = int(1)
        while rooms < state.count and attempts < 8:
            note = (rooms - 1) * ROOM
            side = (entry + integers(streams, env, 1, 4)) & 3
            x = state.notes[env, note + X]
            y = state.notes[env, note + Y]
            if side % 2 == 0:
                x += wp.where(side == 0, state.notes[env, note + WIDTH] - 1, 0)
                y += integers(streams, env, 1, state.notes[env, note + HEIGHT] - 1)
            else:
                x += integers(streams, env, 1, state.notes[env, note + WIDTH] - 1)
                y += wp.where(side == 1, state.notes[env, note + HEIGHT] - 1, 0)
            attempts += 1
            if try_room(state, env, streams, rooms, (side + 2) & 3, x, y):
                entry = (side + 2) & 3
                rooms += 1
                attempts = int(0)
    return rooms


@wp.func
def multi_room(state: State, env: int, streams: Streams):
    """A chain of rooms of up to ``room_size`` cells, with doors between them and a goal in the last."""
    begin(state, env)
    while chain(state, env, streams) < state.count:
        pass
    color = int(0)
    for room in range(state.count):
        note = room * ROOM
        x, y = state.notes[env, note + X], state.notes[env, note + Y]
        outline(state, env, x, y, state.notes[env, note + WIDTH], state.notes[env, note + HEIGHT])
        if room == 1:
            color = integers(streams, env, 0, ALL_COLORS)
        if room > 1:
            color = (color + integers(streams, env, 1, ALL_COLORS)) % ALL_COLORS
        if room > 0:
            state.cells[env, state.notes[env, note + DOOR]] = wp.uint8(CLOSED | (color << 4))
    place_agent(
        state, env, streams, state.notes[env, X], state.notes[env, Y], state.notes[env, WIDTH], state.notes[env, HEIGHT]
    )
    last = (state.count - 1) * ROOM
    at = free_cell(
        state,
        env,
        streams,
        state.notes[env, last + X],
        state.notes[env, last + Y],
        state.notes[env, last + WIDTH],
        state.notes[env, last + HEIGHT],
    )
    state.cells[env, at] = wp.uint8(GOAL)


picking_up = stepping(is_picked_up)
KEY_CORRIDOR = Level("KeyCorridor", key_corridor, picking_up, "pick up the {} ball", notes=NOTES)
UNLOCK = Level("Unlock", unlock, stepping(is_unlocked), "open the door", notes=NOTES)
UNLOCK_PICK_UP = Level("UnlockPickup", unlock, picking_up, "pick up the {} box", notes=NOTES)
MAZE = Level("ObstructedMaze", obstructed_maze, picking_up, "pick up the blue ball", notes=NOTES)
MULTI_ROOM = Level("MultiRoom", multi_room, stepping(), "traverse the rooms to get to the goal", notes=6 * int(ROOM))


def rooms_of(level: Level, size: int, rows: int, columns: int, max_steps: int, **parameters: int):
    """Returns the task of a grid of equal rooms, ``size`` cells wide and high with their walls."""
    width, height = columns * (size - 1) + 1, rows * (size - 1) + 1
    return level.task(width, height, max_steps, room_size=size, room_rows=rows, room_columns=columns, **parameters)


ONE_DOOR = {"1Dl": 0, "1Dlh": IN_BOX, "1Dlhb": IN_BOX | BLOCKED}
QUARTERS = {  # name → quarters, rooms whose visits are counted, variant
    "2Dl-v0": (1, 4, 0),
    "2Dlh-v0": (1, 4, IN_BOX),
    "2Dlhb-v0": (1, 4, IN_BOX | BLOCKED),
    "1Q-v0": (1, 5, IN_BOX | BLOCKED | MIDDLE),
    "2Q-v0": (2, 11, IN_BOX | BLOCKED),
    "Full-v0": (4, 25, IN_BOX | BLOCKED | MIDDLE),
}
QUARTERS |= {f"{n[:-1]}1": (q, v, how | KEYS_LAST) for n, (q, v, how) in QUARTERS.items() if how & BLOCKED}
TASKS = {
    **{
        f"KeyCorridorS{size}R{rows}-v0": rooms_of(KEY_CORRIDOR, size, rows, 3, 30 * size**2)
        for size, rows in ((3, 1), (3, 2), (3, 3), (4, 3), (5, 3), (6, 3))
    },
    "Unlock-v0": rooms_of(UNLOCK, 6, 1, 2, 288),
    "UnlockPickup-v0": rooms_of(UNLOCK_PICK_UP, 6, 1, 2, 288, variant=1),
    "BlockedUnlockPickup-v0": rooms_of(UNLOCK_PICK_UP, 6, 1, 2, 576, variant=2),
    **{f"ObstructedMaze-{n}-v0": rooms_of(MAZE, 6, 1, 2, 288, variant=int(how)) for n, how in ONE_DOOR.items()},
    **{
        f"ObstructedMaze-{n}": rooms_of(MAZE, 6, 3, 3, 144 * visits, count=quarters, variant=int(how))
        for n, (quarters, visits, how) in QUARTERS.items()
    },
    **{
        f"MultiRoom-{n}": MULTI_ROOM.square(25, 20 * count, count=count, room_size=size)
        for n, count, size in (("N2-S4-v0", 2, 4), ("N4-S5-v0", 6, 5), ("N4-S5-v1", 4, 5), ("N6-v0", 6, 10))
    },
}
TASKS = {f"MiniGrid-{name}": task for name, task in TASKS.items()}
