"""Tasks in grids of rooms with doors between them: to open a door, to find a thing behind locked ones, to pass all."""

# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false
# pyright: reportInvalidTypeForm=false

import warp as wp

from headrace.envs.minigrid.layouts import (
    ALL_COLORS,
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
from headrace.envs.minigrid.room_grid import (
    COLOR_NOTES,
    NO_COLOR,
    NOTES,
    TO_ABOVE,
    TO_LEFT,
    TO_RIGHT,
    add_door,
    agent_in_room,
    begin_rooms,
    connect_all,
    link,
    neighbour,
    put_in_room,
    rooms_of,
)
from headrace.envs.minigrid.world import (
    BALL,
    BLUE,
    BOX,
    CLOSED,
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
    WON,
    State,
    ahead_x,
    ahead_y,
    stepping,
)
from headrace.pool.executors.kernels import Streams, integers

BLUE_BALL, GREEN_BALL = wp.constant(int(BALL) | BLUE << 4), wp.constant(int(BALL) | GREEN << 4)
GREY_BOX_WITH_KEY = wp.constant(int(FILLED) | GREY << 3)


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
    connect_all(state, env, streams, NO_COLOR)
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
