"""The levels of BabyAI that ask for one or two tasks of given kinds, by how their rooms are filled."""

# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false
# pyright: reportInvalidTypeForm=false

import warp as wp

from headrace.envs.minigrid.babyai.instructions import (
    ANY,
    BEFORE,
    BEHIND,
    GO_TO,
    NOWHERE,
    OPEN_IT,
    ORDER,
    PICK_UP_IT,
    PUT_NEXT,
    STRICT,
    THINGS,
    ask,
    described,
    like,
)
from headrace.envs.minigrid.babyai.things import (
    EVERYWHERE,
    add_locked_door,
    add_things,
    all_in_reach,
    any_door,
    any_noted,
    any_room,
    any_room_but,
    any_side,
    is_door,
    note_thing,
    noted,
    place,
    place_agent_in,
    reject,
    reject_blocked,
)
from headrace.envs.minigrid.layouts import ALL_COLORS, any_thing, colored, fill, shuffle
from headrace.envs.minigrid.room_grid import (
    COLOR_NOTES,
    NO_COLOR,
    TO_ABOVE,
    TO_LEFT,
    TO_RIGHT,
    add_door,
    begin_rooms,
    connect_all,
)
from headrace.envs.minigrid.rooms import key_corridor
from headrace.envs.minigrid.world import BALL, BLUE, BOX, CLOSED, EMPTY, FILLED, GREY, KEY, LOCKED, OPEN, RED, State
from headrace.pool.executors.kernels import Streams, integers

UNIQUE, OPENED, GREYED, RED_BALL, RED_OR_BLUE, BLOCKED = (wp.constant(8 << bit) for bit in range(6))
"""bits of ``variant`` beside a task: of things that all differ, open doors, grey things, a red ball, a ball of one of
two colours, and things in the way of others"""
A_RED_BALL, A_RED_DOOR = wp.constant(int(BALL) | RED << 4), wp.constant(int(CLOSED) | RED << 4)
BLUE_TO_RED = wp.constant((BLUE - RED) << 4)
GREY_COLOR = wp.constant(GREY)
MIDDLE = wp.constant(4)
"""the room in the middle of nine"""


@wp.func
def search(state: State, env: int, streams: Streams):
    """Things everywhere, of which one is meant, or a door of all doors."""
    begin_rooms(state, env, streams)
    place_agent_in(state, env, streams, any_room(state, env, streams))
    connect_all(state, env, streams, NO_COLOR)
    wanted = int(A_RED_BALL)
    if (state.variant & RED_BALL) != 0:
        place(state, env, streams, 0, wanted)
    color = wp.where((state.variant & GREYED) != 0, GREY_COLOR, NO_COLOR)
    add_things(state, env, streams, EVERYWHERE, state.count, (state.variant & UNIQUE) != 0, color)
    if (state.variant & RED_OR_BLUE) != 0:
        for i in range(state.count):
            if noted(state, env, i) == A_RED_BALL or noted(state, env, i) == A_RED_BALL + BLUE_TO_RED:
                reject(state, env)
        wanted += integers(streams, env, 0, 2) * BLUE_TO_RED
        place(state, env, streams, 0, wanted)
    if all_in_reach(state, env) == ((state.variant & BLOCKED) != 0):
        reject(state, env)
    task = state.variant & 7
    first = integers(streams, env, 0, wp.max(state.count, 1))
    if task == OPEN_IT:
        wanted = any_door(state, env, streams)
    elif (state.variant & (RED_BALL | RED_OR_BLUE)) == 0:
        wanted = noted(state, env, first)
    ask(state, env, 0, task, like(wanted), 0)
    if task == PUT_NEXT:
        second = (first + integers(streams, env, 1, state.count)) % state.count
        ask(state, env, 0, task, like(wanted), like(noted(state, env, second)))
    if (state.variant & OPENED) != 0:
        for at in range(state.width * state.height):
            cell = int(state.cells[env, at])
            if is_door(state, cell):
                state.cells[env, at] = wp.uint8((cell & ~15) | OPEN)


TO_A_DOOR, TO_ANYTHING, ANY_TASK = (wp.constant(variant) for variant in range(3))


@wp.func
def in_the_middle(state: State, env: int, streams: Streams):
    """A room with a door in each wall, and things by ``variant``."""
    begin_rooms(state, env, streams)
    if state.variant == TO_ANYTHING:
        place_agent_in(state, env, streams, MIDDLE)
    add_things(state, env, streams, MIDDLE, state.count, state.variant == ANY_TASK, NO_COLOR)
    for _ in range(4):
        side = any_side(state, env, streams, MIDDLE)
        locked = state.variant != ANY_TASK and integers(streams, env, 0, 2) == 0
        door = colored(streams, env, wp.where(locked, LOCKED, CLOSED))
        add_door(state, env, MIDDLE, side, door)
        note_thing(state, env, door)
    if state.variant == TO_ANYTHING:
        reject_blocked(state, env)
    else:
        place_agent_in(state, env, streams, MIDDLE)
    wanted = any_noted(state, env, streams)
    task = int(GO_TO)
    if state.variant == ANY_TASK and integers(streams, env, 0, 2) == 0:
        task = wp.where(is_door(state, wanted), OPEN_IT, PICK_UP_IT)
    ask(state, env, 0, task, like(wanted), 0)


RED_DOOR, BY_COLOR, BY_PLACE, BY_EITHER, TWO, RED_THEN_BLUE, IN_ORDER = (wp.constant(variant) for variant in range(7))
STRICTLY = wp.constant(int(STRICT))


@wp.func
def add_colored_door(state: State, env: int, side: int, color: int) -> int:
    """Adds a door to the room in the middle, and returns its description."""
    door = CLOSED | (color << 4)
    add_door(state, env, MIDDLE, side, door)
    return like(door)


@wp.func
def open_in_order(state: State, env: int, streams: Streams, strict: int):
    """``count`` doors of different colours, of which one or two are meant."""
    for i in range(state.count):
        add_colored_door(state, env, any_side(state, env, streams, MIDDLE), state.notes[env, COLOR_NOTES + i])
    first = integers(streams, env, 0, state.count)
    second = (first + integers(streams, env, 1, state.count)) % state.count
    order = integers(streams, env, 0, 3)
    ask(state, env, 0, OPEN_IT | strict, described(OPEN, state.notes[env, COLOR_NOTES + first], NOWHERE), 0)
    if order != 0:
        ask(state, env, 2, OPEN_IT | strict, described(OPEN, state.notes[env, COLOR_NOTES + second], NOWHERE), 0)
    state.notes[env, ORDER] = order


@wp.func
def doors(state: State, env: int, streams: Streams):
    """Doors of a room without things, one or two of which are to be opened."""
    begin_rooms(state, env, streams)
    shuffle(state, env, streams, COLOR_NOTES, ALL_COLORS)
    strict = state.variant & STRICTLY
    how = state.variant & 7
    if how == RED_DOOR:
        add_door(state, env, 0, TO_RIGHT, A_RED_DOOR)
        place_agent_in(state, env, streams, 0)
        ask(state, env, 0, OPEN_IT, like(A_RED_DOOR), 0)
    elif how <= BY_EITHER:
        what = int(0)
        for side in range(4):
            door = add_colored_door(state, env, side, state.notes[env, COLOR_NOTES + side])
            what = wp.where(side == 0, door, what)
        if how == BY_PLACE or (how == BY_EITHER and integers(streams, env, 0, 2) == 0):
            what = described(OPEN, ANY, BEHIND + integers(streams, env, 0, 4))
        place_agent_in(state, env, streams, MIDDLE)
        ask(state, env, 0, OPEN_IT | strict, what, 0)
    elif how == IN_ORDER:
        open_in_order(state, env, streams, strict)
        place_agent_in(state, env, streams, MIDDLE)
    else:
        first = add_colored_door(state, env, TO_LEFT, wp.where(how == TWO, state.notes[env, COLOR_NOTES], RED_COLOR))
        second = add_colored_door(
            state, env, TO_RIGHT, wp.where(how == TWO, state.notes[env, COLOR_NOTES + 1], BLUE_COLOR)
        )
        place_agent_in(state, env, streams, MIDDLE)
        ask(state, env, 0, OPEN_IT | strict, first, 0)
        ask(state, env, 2, OPEN_IT, second, 0)
        state.notes[env, ORDER] = BEFORE


RED_COLOR, BLUE_COLOR = wp.constant(RED), wp.constant(BLUE)
DIFFERENT, A_BALL, ABOVE, SOMEWHERE, CORRIDOR = (wp.constant(variant) for variant in range(5))


@wp.func
def pick_up(state: State, env: int, streams: Streams):
    """Something to find in a room or behind doors, and to pick up."""
    how = state.variant & 7
    if how == CORRIDOR:
        key_corridor(state, env, streams)
    else:
        begin_rooms(state, env, streams)
    what = described(BALL, ANY, NOWHERE)
    if how == DIFFERENT:
        add_things(state, env, streams, 0, state.count, True, NO_COLOR)
        place_agent_in(state, env, streams, 0)
        what = like(any_noted(state, env, streams))
        by = integers(streams, env, 0, 3)
        if by == 0:
            what = described(what & 15, ANY, NOWHERE)
        if by == 1:
            what = what & ~15
    elif how == A_BALL:
        place(state, env, streams, 0, colored(streams, env, BALL))
        place_agent_in(state, env, streams, 0)
    elif how != CORRIDOR:
        thing = any_thing(streams, env)
        what = like(thing)
        if how == ABOVE:
            place(state, env, streams, 1, thing)
            add_door(state, env, MIDDLE, TO_ABOVE, colored(streams, env, CLOSED))
        else:
            place(state, env, streams, any_room(state, env, streams), thing)
            what = described(what & 15, ANY, NOWHERE)
        place_agent_in(state, env, streams, MIDDLE)
        connect_all(state, env, streams, NO_COLOR)
    ask(state, env, 0, PICK_UP_IT | (state.variant & STRICTLY), what, 0)


ONE_PAIR, TWO_PAIRS = wp.constant(0), wp.constant(1)


@wp.func
def put_next(state: State, env: int, streams: Streams):
    """``count`` things in each of two rooms, of which some are to be carried to the other room."""
    begin_rooms(state, env, streams)
    place_agent_in(state, env, streams, 0)
    add_things(state, env, streams, 0, state.count, True, NO_COLOR)
    add_things(state, env, streams, 1, state.count, True, NO_COLOR)
    fill(state, env, state.room_size - 1, 1, 1, state.room_size - 2, EMPTY)
    left = integers(streams, env, 0, state.count)
    right = integers(streams, env, 0, state.count)
    first = like(noted(state, env, left))
    second = like(noted(state, env, state.count + right))
    if (state.variant & TWO_PAIRS) != 0:
        left = (left + integers(streams, env, 1, state.count)) % state.count
        right = (right + integers(streams, env, 1, state.count)) % state.count
        ask(state, env, 0, PUT_NEXT, first, second)
        third = like(noted(state, env, state.count + right))
        ask(state, env, 2, PUT_NEXT, third, like(noted(state, env, left)))
        state.notes[env, ORDER] = BEFORE
    elif integers(streams, env, 0, 2) == 0:
        ask(state, env, 0, PUT_NEXT, second, first)
    else:
        ask(state, env, 0, PUT_NEXT, first, second)


HERE, IN_BOX, BOX_BEHIND, BLOCKED_BOX, BETWEEN = (wp.constant(variant) for variant in range(5))


@wp.func
def unlocking(state: State, env: int, streams: Streams):
    """A locked door whose key is in the agent's room, to be opened or with something behind it."""
    begin_rooms(state, env, streams)
    shuffle(state, env, streams, COLOR_NOTES, ALL_COLORS)
    how = state.variant
    if how <= IN_BOX:
        color = add_locked_door(state, env, streams, MIDDLE, any_side(state, env, streams, MIDDLE))
        key = KEY | (color << 4)
        if how == IN_BOX:
            key = FILLED | color | (integers(streams, env, 0, ALL_COLORS) << 3)
        place(state, env, streams, MIDDLE, key)
        add_things(state, env, streams, MIDDLE, state.count, True, NO_COLOR)
        place_agent_in(state, env, streams, MIDDLE)
        ask(state, env, 0, OPEN_IT, described(OPEN, ANY, NOWHERE), 0)
    elif how == BETWEEN:
        for i in range(2):
            color = state.notes[env, COLOR_NOTES + i]
            add_door(state, env, i, TO_RIGHT, LOCKED | (color << 4))
            place(state, env, streams, 2 - i, KEY | (color << 4))
        place(state, env, streams, 0, colored(streams, env, BALL))
        place_agent_in(state, env, streams, 1)
        ask(state, env, 0, PICK_UP_IT, described(BALL, ANY, NOWHERE), 0)
    else:
        box = colored(streams, env, BOX)
        place(state, env, streams, 1, box)
        color = add_locked_door(state, env, streams, 0, TO_RIGHT)
        if how == BLOCKED_BOX:
            state.cells[env, state.notes[env, 0] - 1] = wp.uint8(colored(streams, env, BALL))
        place(state, env, streams, 0, KEY | (color << 4))
        add_things(state, env, streams, EVERYWHERE, state.count, True, NO_COLOR)
        place_agent_in(state, env, streams, 0)
        what = wp.where(how == BLOCKED_BOX, described(BOX, ANY, NOWHERE), like(box))
        ask(state, env, 0, PICK_UP_IT, what, 0)


@wp.func
def behind_lock(state: State, env: int, streams: Streams):
    """Nine rooms, one of them locked, with ``count`` things in each; the door or what is behind it is meant.

    The key may be in the locked room itself: the package compares numbers by identity, so that it excludes no room.
    """
    begin_rooms(state, env, streams)
    locked = any_room(state, env, streams)
    color = add_locked_door(state, env, streams, locked, any_side(state, env, streams, locked))
    place(state, env, streams, any_room(state, env, streams), KEY | (color << 4))
    avoided = int(NO_COLOR)
    if state.variant == OPEN_IT and integers(streams, env, 0, 2) == 0:
        avoided = color
    connect_all(state, env, streams, avoided)
    for room in range(state.room_rows * state.room_columns):
        add_things(state, env, streams, room, state.count, False, NO_COLOR)
    place_agent_in(state, env, streams, any_room_but(state, env, streams, locked))
    reject_blocked(state, env)
    what = described(OPEN, color, NOWHERE)
    if state.variant == GO_TO:
        add_things(state, env, streams, locked, 1, False, NO_COLOR)
        what = like(noted(state, env, state.notes[env, THINGS] - 1))
    ask(state, env, 0, state.variant, what, 0)
