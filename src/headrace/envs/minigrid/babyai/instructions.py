"""What a level of BabyAI asks for: up to four tasks, in two groups of which the second comes after the first.

A task is to go to something, to open it, to pick it up or to put it next to something else. What is meant is any thing
of a kind, a colour and a place beside the agent, each of which may be left out. Things are told apart by marks of their
cells: bit i for those that description i means, where they are, and bit 8 + i for where they are known to be, which
changes only when the agent drops something, as the package has it. The marks of what the agent carries are ``wanted``.
"""

# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false
# pyright: reportInvalidTypeForm=false

import warp as wp

from headrace.envs.minigrid.layouts import TO_COLOR_WORD, TO_KIND_WORD, say
from headrace.envs.minigrid.room_grid import NOTES as ROOM_NOTES
from headrace.envs.minigrid.room_grid import corner
from headrace.envs.minigrid.words import NUMBERS
from headrace.envs.minigrid.world import CLOSED, EMPTY, OPEN, State, ahead_x, ahead_y

TASKS, MEANT, LIMIT, FINISHED, ORDER, REJECTED, THINGS = (
    wp.constant(ROOM_NOTES + note) for note in (0, 4, 12, 13, 14, 15, 16)
)
"""first notes of: four tasks, two descriptions for each of them, the limit of steps, a bit for each task that is done,
how the groups are told, whether the level cannot be used, and the number of things, which follow"""
MOST_THINGS = 28
NOTES = int(THINGS) + 1 + MOST_THINGS

GO_TO, OPEN_IT, PICK_UP_IT, PUT_NEXT = (wp.constant(task) for task in (1, 2, 3, 4))
STRICT = wp.constant(8)
"""bit of a task that ends the episode if it is done to something else"""
ONE, BEFORE, AFTER = (wp.constant(order) for order in range(3))
ANY = wp.constant(-1)
NOWHERE, BEHIND, IN_FRONT, ON_LEFT, ON_RIGHT = (wp.constant(place) for place in range(5))
SEVERAL = wp.constant(1 << 12)
"""bit of a description that means more than one thing"""
DESCRIPTIONS = wp.constant(8)
BOTH = wp.constant(0x101)
FIRST_OF_TASKS = wp.constant(0x55)
"""bits of the first descriptions of all tasks"""


@wp.func
def described(kind: int, color: int, place: int) -> int:
    """Returns a description: of things of a kind, of which 0 is any, a colour or `ANY`, and a place or `NOWHERE`."""
    return kind | ((color + 1) << 4) | (place << 8)


@wp.func
def like(thing: int) -> int:
    """Returns the description of things of the same kind and colour."""
    kind = thing & 15
    return described(wp.where(kind >= CLOSED, OPEN, kind), (thing >> 4) & 7, NOWHERE)


@wp.func
def ask(state: State, env: int, i: int, task: int, what: int, beside: int):
    """Notes task i, which is to do something to what is described, next to what else is, or 0; 2 and 3 come later."""
    state.notes[env, TASKS + i] = task
    state.notes[env, MEANT + 2 * i] = what
    state.notes[env, MEANT + 2 * i + 1] = beside


@wp.func
def in_room(state: State, room: int, at: int) -> bool:
    """Returns whether a cell is in a room or one of its walls."""
    first = corner(state, room)
    x = at % state.width - first[0]
    y = at / state.width - first[1]
    return x >= 0 and y >= 0 and x < state.room_size and y < state.room_size


@wp.func
def agents_room(state: State, env: int) -> int:
    size = state.room_size - 1
    return state.y[env] / size * state.room_columns + state.x[env] / size


@wp.func
def is_meant(state: State, env: int, description: int, at: int) -> bool:
    """Returns whether a description means what is in a cell; places are those in the room where the agent is."""
    look = state.looks[int(state.cells[env, at])]
    kind, color = description & 15, (description >> 4) & 15
    found = look & 255
    if found == EMPTY or (kind != 0 and kind != found) or (color != 0 and color != ((look >> 8) & 255) + 1):
        return False
    place = (description >> 8) & 15
    if place == NOWHERE:
        return True
    if not in_room(state, agents_room(state, env), at):
        return False
    direction = state.direction[env]
    if place >= ON_LEFT:
        direction = (direction + 1) & 3
    x = (at % state.width - state.x[env]) * ahead_x(direction)
    along = x + (at / state.width - state.y[env]) * ahead_y(direction)
    return wp.where(place % 2 == 0, along, -along) > 0


@wp.func
def mark(state: State, env: int):
    """Marks the things that are meant, and notes which descriptions mean several."""
    cells = state.width * state.height
    for at in range(cells):
        state.marks[env, at] = wp.uint16(0)
    for i in range(DESCRIPTIONS):
        description = state.notes[env, MEANT + i]
        number = int(0)
        if description != 0:
            for at in range(cells):
                if is_meant(state, env, description, at):
                    state.marks[env, at] = wp.uint16(int(state.marks[env, at]) | (BOTH << i))
                    number += 1
        if number > 1:
            state.notes[env, MEANT + i] = description | SEVERAL


@wp.func
def is_around(state: State, env: int, at: int, bits: int) -> bool:
    """Returns whether one of the four cells around a cell, which is not at the grid's edge, has one of these marks."""
    found = int(0)
    last = state.width * state.height - 1
    for side in range(4):
        near = wp.clamp(at + ahead_y(side) * state.width + ahead_x(side), 0, last)  # of loaded states, too
        found |= int(state.marks[env, near])
    return (found & bits) != 0


@wp.func
def is_possible(state: State, env: int) -> bool:
    """Returns whether nothing that is to be put next to something is there already, or is meant by both."""
    puts = int(0)
    for i in range(4):
        puts |= wp.where(state.notes[env, TASKS + i] == PUT_NEXT, 1 << (2 * i), 0)
    if puts != 0:
        for at in range(state.width * state.height):
            marks = int(state.marks[env, at])
            moved = marks & puts & FIRST_OF_TASKS
            for i in range(4):
                bit = 1 << (2 * i)
                if (moved & bit) != 0 and ((marks & (bit << 1)) != 0 or is_around(state, env, at, bit << 1)):
                    return False
    return True


@wp.func
def begin_tasks(state: State, env: int):
    """Notes the limit of steps, in proportion to the tasks where it differs between episodes, and what is to do."""
    number, finished = int(0), int(0)
    for i in range(4):
        task = state.notes[env, TASKS + i] & 7
        number += wp.where(task == PUT_NEXT, 2, wp.min(task, 1))
        finished |= wp.where(task == 0, 1 << i, 0)
    limit = state.max_episode_steps
    if state.steps_per_task > 0:
        limit = number * state.steps_per_task
    state.notes[env, LIMIT] = limit
    state.notes[env, FINISHED] = finished


A, AFTER_WORD, AND, BEHIND_WORD, COMMA, FRONT, GO, IN, LEFT, NEXT, OBJECT, OF = (
    wp.constant(NUMBERS[word])
    for word in ("a", "after", "and", "behind", ",", "front", "go", "in", "left", "next", "object", "of")
)
ON, OPEN_WORD, PICK, PUT, RIGHT, THE, THEN, TO, UP, YOU, YOUR = (
    wp.constant(NUMBERS[word])
    for word in ("on", "open", "pick", "put", "right", "the", "then", "to", "up", "you", "your")
)


@wp.func
def said(state: State, env: int, at: int, word: int) -> int:
    """Sets a word of the mission, and returns where the next is."""
    say(state, env, at, word)
    return at + 1


@wp.func
def say_description(state: State, env: int, at: int, description: int) -> int:
    at = said(state, env, at, wp.where((description & SEVERAL) != 0, A, THE))
    kind, color = description & 15, (description >> 4) & 15
    if color != 0:
        at = said(state, env, at, color - 1 + TO_COLOR_WORD)
    at = said(state, env, at, wp.where(kind == 0, OBJECT, kind + TO_KIND_WORD))
    place = (description >> 8) & 15
    if place >= ON_LEFT:
        at = said(state, env, at, ON)
        at = said(state, env, at, YOUR)
        at = said(state, env, at, wp.where(place == ON_LEFT, LEFT, RIGHT))
    elif place != NOWHERE:
        if place == IN_FRONT:
            at = said(state, env, at, IN)
            at = said(state, env, at, FRONT)
        at = said(state, env, at, wp.where(place == IN_FRONT, OF, BEHIND_WORD))
        at = said(state, env, at, YOU)
    return at


@wp.func
def say_task(state: State, env: int, at: int, i: int) -> int:
    task = state.notes[env, TASKS + i] & 7
    if task == GO_TO:
        at = said(state, env, at, GO)
        at = said(state, env, at, TO)
    elif task == OPEN_IT:
        at = said(state, env, at, OPEN_WORD)
    elif task == PICK_UP_IT:
        at = said(state, env, at, PICK)
        at = said(state, env, at, UP)
    else:
        at = said(state, env, at, PUT)
    at = say_description(state, env, at, state.notes[env, MEANT + 2 * i])
    if task == PUT_NEXT:
        at = said(state, env, at, NEXT)
        at = said(state, env, at, TO)
        at = say_description(state, env, at, state.notes[env, MEANT + 2 * i + 1])
    return at


@wp.func
def say_group(state: State, env: int, at: int, first: int) -> int:
    at = say_task(state, env, at, first)
    if state.notes[env, TASKS + first + 1] != 0:
        at = said(state, env, at, AND)
        at = say_task(state, env, at, first + 1)
    return at


@wp.func
def say_mission(state: State, env: int):
    order = state.notes[env, ORDER]
    if order == AFTER:
        at = say_group(state, env, 0, 2)
        at = said(state, env, at, AFTER_WORD)
        at = said(state, env, at, YOU)
        say_group(state, env, at, 0)
    else:
        at = say_group(state, env, 0, 0)
        if order == BEFORE:
            at = said(state, env, at, COMMA)
            at = said(state, env, at, THEN)
            say_group(state, env, at, 2)
