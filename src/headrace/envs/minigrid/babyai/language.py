"""The levels of BabyAI that ask for anything its language can say: one to four tasks, and descriptions by place."""

# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false
# pyright: reportInvalidTypeForm=false

import warp as wp

from headrace.envs.minigrid.babyai.instructions import (
    AFTER,
    BEFORE,
    BEHIND,
    DESCRIPTIONS,
    GO_TO,
    MEANT,
    NOWHERE,
    OPEN_IT,
    ORDER,
    PICK_UP_IT,
    PUT_NEXT,
    ask,
    described,
    in_room,
    is_meant,
)
from headrace.envs.minigrid.babyai.things import (
    EVERYWHERE,
    add_locked_door,
    add_things,
    any_room,
    any_room_but,
    place,
    place_agent_in,
    reject,
    reject_blocked,
)
from headrace.envs.minigrid.layouts import ALL_COLORS
from headrace.envs.minigrid.room_grid import NO_COLOR, TO_ABOVE, begin_rooms, connect_all, neighbour
from headrace.envs.minigrid.world import BOX, KEY, OPEN, State
from headrace.pool.executors.kernels import Streams, integers

SINGLE, PLACES, UNBLOCKING, NOT_BEHIND_LOCK = (wp.constant(8 << bit) for bit in range(4))
"""bits of ``variant`` beside the only task there is, if not all four are: one task only, descriptions by place, things
that may have to be moved out of the way, and none that are only in the locked room"""
QUARTERS = wp.constant(7)
"""bit of ``variant`` from which on it tells how many of four levels have a locked room"""
DESCRIBING_TRIES = wp.constant(101)
NO_ROOM = wp.constant(-1)


@wp.func
def is_anywhere(state: State, env: int, description: int, locked: int) -> bool:
    """Returns whether a description means anything outside the locked room."""
    for at in range(state.width * state.height):
        if is_meant(state, env, description, at):  # noqa: SIM102  # not in all cells
            if locked == NO_ROOM or not in_room(state, locked, at):
                return True
    return False


@wp.func
def any_description(state: State, env: int, streams: Streams, first: int, last: int, locked: int) -> int:
    """Returns a description of something of one of the kinds from ``first`` to ``last``."""
    tries, found, description = int(0), bool(False), int(0)
    while not found and tries < DESCRIBING_TRIES:
        color = integers(streams, env, 0, ALL_COLORS + 1) - 1
        where = int(NOWHERE)
        if (state.variant & PLACES) != 0 and integers(streams, env, 0, 2) == 0:
            where = BEHIND + integers(streams, env, 0, 4)
        description = described(integers(streams, env, first, last + 1), color, where)
        found = is_anywhere(state, env, description, locked)
        tries += 1
    if not found:
        reject(state, env)
    return description


@wp.func
def ask_any(state: State, env: int, streams: Streams, i: int, locked: int):
    task = state.variant & 7
    if task == 0:
        task = integers(streams, env, GO_TO, PUT_NEXT + 1)
    first, last = int(OPEN), int(BOX)
    if task == OPEN_IT:
        last = int(OPEN)
    if task == PICK_UP_IT or task == PUT_NEXT:  # noqa: SIM109
        first = int(KEY)
    what = any_description(state, env, streams, first, last, locked)
    beside = int(0)
    if task == PUT_NEXT:
        beside = any_description(state, env, streams, OPEN, BOX, locked)
    ask(state, env, i, task, what, beside)


@wp.func
def ask_group(state: State, env: int, streams: Streams, first: int, locked: int, number: int):
    for i in range(number):
        ask_any(state, env, streams, first + i, locked)


@wp.func
def ask_anything(state: State, env: int, streams: Streams, locked: int):
    """Asks for one task, for two in any order, or for one or two after one or two."""
    form = wp.where((state.variant & SINGLE) != 0, 0, integers(streams, env, 0, 3))
    number = wp.where(form == 2, integers(streams, env, 1, 3), form + 1)
    ask_group(state, env, streams, 0, locked, number)
    if form == 2:
        ask_group(state, env, streams, 2, locked, integers(streams, env, 1, 3))
        state.notes[env, ORDER] = integers(streams, env, BEFORE, AFTER + 1)


@wp.func
def lockable_room(state: State, env: int, streams: Streams) -> wp.vec2i:
    """Returns a room and one of its sides where there is another."""
    room, side = int(0), int(TO_ABOVE)  # where there is none
    while neighbour(state, room, side) < 0:
        room = any_room(state, env, streams)
        side = integers(streams, env, 0, 4)
    return wp.vec2i(room, side)


@wp.func
def language(state: State, env: int, streams: Streams):
    """``count`` things, and by chance a locked room; as in the package, no key of its door is to be used otherwise."""
    begin_rooms(state, env, streams)
    locked, color = int(NO_ROOM), int(NO_COLOR)
    if integers(streams, env, 0, 4) < (state.variant >> QUARTERS):
        chosen = lockable_room(state, env, streams)
        locked = chosen[0]
        color = add_locked_door(state, env, streams, locked, chosen[1])
        place(state, env, streams, any_room_but(state, env, streams, locked), KEY | (color << 4))
    connect_all(state, env, streams, NO_COLOR)
    add_things(state, env, streams, EVERYWHERE, state.count, False, NO_COLOR)
    place_agent_in(state, env, streams, any_room_but(state, env, streams, locked))
    if (state.variant & UNBLOCKING) == 0:
        reject_blocked(state, env)
    ask_anything(state, env, streams, wp.where((state.variant & NOT_BEHIND_LOCK) != 0, locked, NO_ROOM))
    if (state.variant & UNBLOCKING) != 0 and locked != NO_ROOM:
        for i in range(DESCRIPTIONS):
            if (state.notes[env, MEANT + i] & 0xFF) == (KEY | ((color + 1) << 4)):
                reject(state, env)
