"""Tasks in one room with things and doors: to fetch, to go to, to move, to open and to remember; and a playground."""

# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false
# pyright: reportInvalidTypeForm=false

import warp as wp

from headrace.envs.minigrid.layouts import (
    any_thing,
    begin,
    begin_walled,
    colored,
    fill,
    free_cell,
    outline,
    place_agent,
    put,
    say,
    say_color,
    say_thing,
    scatter,
    scatter_agent,
    shuffle,
)
from headrace.envs.minigrid.level import Level
from headrace.envs.minigrid.words import NUMBERS
from headrace.envs.minigrid.world import (
    BALL,
    BLUE,
    CLOSED,
    DONE,
    DROP,
    EMPTY,
    GREEN,
    KEY,
    LOST,
    OPEN,
    PICK_UP,
    RED,
    TOGGLE,
    WALL,
    WON,
    State,
    act,
    earned,
    front,
    stepping,
)
from headrace.pool.executors.kernels import Streams, integers

A, FETCH, GET, GO, MUST, YOU = (wp.constant(NUMBERS[word]) for word in ("a", "fetch", "get", "go", "must", "you"))
RED_DOOR, BLUE_DOOR = wp.constant(int(CLOSED) | RED << 4), wp.constant(int(CLOSED) | BLUE << 4)
GREEN_KEY, GREEN_BALL = wp.constant(int(KEY) | GREEN << 4), wp.constant(int(BALL) | GREEN << 4)


@wp.func
def fetch(state: State, env: int, streams: Streams):
    begin_walled(state, env)
    wanted = integers(streams, env, 0, state.count)
    for i in range(state.count):
        thing = colored(streams, env, integers(streams, env, KEY, BALL + 1))
        scatter(state, env, streams, thing)
        if i == wanted:
            state.wanted[env] = thing
    scatter_agent(state, env, streams)
    syntax = integers(streams, env, 0, 5)
    at = int(0)
    if syntax == 4:
        say(state, env, 0, YOU)
        say(state, env, 1, MUST)
        at = 2
    elif syntax % 2 == 1:
        say(state, env, 0, GO)
        at = 1
    say(state, env, at, wp.where(syntax < 2, GET, FETCH))
    say(state, env, at + 1, A)
    say_thing(state, env, at + 2, state.wanted[env])


@wp.func
def has_fetched(state: State, env: int, action: int, held: int, outcome: int) -> int:
    carrying = state.carrying[env]
    if carrying == EMPTY:
        return outcome
    return wp.where(carrying == state.wanted[env], WON, LOST)


@wp.func
def go_to_door(state: State, env: int, streams: Streams):
    """A room of any size, with a door in each wall."""
    begin(state, env)
    width = integers(streams, env, 5, state.width + 1)
    height = integers(streams, env, 5, state.height + 1)
    outline(state, env, 0, 0, width, height)
    shuffle(state, env, streams, 0, 6)
    wanted = integers(streams, env, 0, 4)
    for i in range(4):
        x = wp.where(i == 2, 0, width - 1)
        y = wp.where(i == 0, 0, height - 1)
        if i < 2:
            x = integers(streams, env, 2, width - 2)
        else:
            y = integers(streams, env, 2, height - 2)
        door = CLOSED | (state.notes[env, i] << 4)
        put(state, env, x, y, door)
        if i == wanted:
            state.target[env] = y * state.width + x
            say_color(state, env, 3, door)
    place_agent(state, env, streams, 0, 0, width, height)


@wp.func
def new_thing(state: State, env: int, streams: Streams, before: int) -> int:
    """Returns a thing that is none of those in the first cells that are noted."""
    thing, alike = int(0), int(1)
    while alike > 0:
        thing = any_thing(streams, env)
        alike = int(0)
        for i in range(before):
            alike += wp.where(int(state.cells[env, state.notes[env, i]]) == thing, 1, 0)
    return thing


@wp.func
def go_to_object(state: State, env: int, streams: Streams):
    begin_walled(state, env)
    wanted = integers(streams, env, 0, state.count)
    for i in range(state.count):
        thing = new_thing(state, env, streams, i)
        state.notes[env, i] = scatter(state, env, streams, thing)
        if i == wanted:
            state.target[env] = state.notes[env, i]
            say_thing(state, env, 3, thing)
    scatter_agent(state, env, streams)


@wp.func
def is_there(state: State, env: int, action: int, held: int, outcome: int) -> int:
    """Who says it is done next to the target has won; to toggle anything is to lose."""
    target = state.target[env]
    x = wp.abs(state.x[env] - target % state.width)
    y = wp.abs(state.y[env] - target / state.width)
    if action == DONE:
        return wp.where(x + y == 1, WON, LOST)
    return wp.where(action == TOGGLE, LOST, outcome)


@wp.func
def near(state: State, a: int, b: int) -> bool:
    """Returns whether two cells are the same or neighbours, also diagonally."""
    x = wp.abs(a % state.width - b % state.width)
    return x <= 1 and wp.abs(a / state.width - b / state.width) <= 1


@wp.func
def put_near(state: State, env: int, streams: Streams):
    """Things that are not next to each other, one to be moved and one to be put near."""
    begin_walled(state, env)
    moved = integers(streams, env, 0, state.count)
    target = (moved + integers(streams, env, 1, state.count)) % state.count
    for i in range(state.count):
        thing = new_thing(state, env, streams, i)
        at, close = int(0), int(1)
        while close > 0:
            at = free_cell(state, env, streams, 0, 0, state.width, state.height)
            close = int(0)
            for j in range(i):
                close += wp.where(near(state, at, state.notes[env, j]), 1, 0)
        state.notes[env, i] = at
        state.cells[env, at] = wp.uint8(thing)
        if i == moved:
            state.wanted[env] = thing
            say_thing(state, env, 2, thing)
        if i == target:
            state.target[env] = at
            say_thing(state, env, 6, thing)
    scatter_agent(state, env, streams)


@wp.func
def is_near(state: State, env: int, action: int, held: int, outcome: int) -> int:
    carrying = state.carrying[env]
    if action == PICK_UP and carrying != EMPTY and carrying != state.wanted[env]:
        return LOST
    if action == DROP and held != EMPTY:
        return wp.where(carrying == EMPTY and near(state, front(state, env), state.target[env]), WON, LOST)
    return outcome


@wp.func
def red_blue_doors(state: State, env: int, streams: Streams):
    """A room in the middle, with a red door to the left and a blue one to the right."""
    begin_walled(state, env)
    left = state.height / 2
    right = left + state.height - 1
    outline(state, env, left, 0, state.height, state.height)
    place_agent(state, env, streams, left, 0, state.height, state.height)
    red = integers(streams, env, 1, state.height - 1)
    blue = integers(streams, env, 1, state.height - 1)
    put(state, env, left, red, RED_DOOR)
    put(state, env, right, blue, BLUE_DOOR)
    state.target[env] = red * state.width + left
    state.second[env] = blue * state.width + right


@wp.func
def is_open(state: State, env: int, at: int) -> bool:
    return (int(state.cells[env, at]) & 15) == OPEN


@wp.func
def red_then_blue(state: State, env: int, action: int, held: int, outcome: int) -> int:
    if is_open(state, env, state.second[env]):
        return wp.where(is_open(state, env, state.target[env]), WON, LOST)
    return outcome


@wp.func
def memory(state: State, env: int, streams: Streams):
    """A thing to see at the start, and two at the end of a hallway, one of them like it."""
    begin_walled(state, env)
    middle = state.height / 2
    end = state.width - 3
    if state.variant == 1:
        end = integers(streams, env, 4, state.width - 2)
    for side in range(2):
        out = 2 * side - 1
        fill(state, env, 1, middle + 2 * out, 4, 1, WALL)
        fill(state, env, 4, middle + out, wp.max(end - 4, 1), 1, WALL)
    fill(state, env, end, 0, 1, state.height, WALL)
    put(state, env, end, middle, EMPTY)
    fill(state, env, end + 2, 0, 1, state.height, WALL)
    state.x[env] = integers(streams, env, 1, end + 1)
    state.y[env] = middle
    shown = integers(streams, env, 0, 2)
    first = integers(streams, env, 0, 2)
    put(state, env, 1, middle - 1, wp.where(shown == 0, GREEN_KEY, GREEN_BALL))
    put(state, env, end + 1, middle - 2, wp.where(first == 0, GREEN_KEY, GREEN_BALL))
    put(state, env, end + 1, middle + 2, wp.where(first == 0, GREEN_BALL, GREEN_KEY))
    up = wp.where(shown == first, -1, 1)
    state.target[env] = (middle + up) * state.width + end + 1
    state.second[env] = (middle - up) * state.width + end + 1


@wp.func
def step_to_match(state: State, env: int, actions: wp.array[wp.int64], row: int, streams: Streams):
    """Nothing can be picked up; the place next to the thing that was shown wins, the other loses."""
    action = int(actions[row])
    state.steps[env] = state.steps[env] + 1
    if action != PICK_UP:
        act(state, env, action)
    at = state.y[env] * state.width + state.x[env]
    won = at == state.target[env]
    return earned(state, env, wp.where(won, WON, LOST)), won or at == state.second[env]


@wp.func
def playground(state: State, env: int, streams: Streams):
    """Nine rooms with doors between them, and twelve things."""
    begin_walled(state, env)
    size = state.width / 3
    for i in range(1, 3):
        fill(state, env, i * size, 0, 1, state.height, WALL)
        fill(state, env, 0, i * size, state.width, 1, WALL)
    for i in range(1, 3):
        for j in range(3):
            along = j * size + integers(streams, env, 1, size - 1)
            put(state, env, i * size, along, colored(streams, env, CLOSED))
            along = j * size + integers(streams, env, 1, size - 1)
            put(state, env, along, i * size, colored(streams, env, CLOSED))
    scatter_agent(state, env, streams)
    for _ in range(state.count):
        scatter(state, env, streams, any_thing(streams, env))


FETCH_IT = Level("Fetch", fetch, stepping(has_fetched), "{} {} {} {} {} {}", see_through=True)
GO_TO_DOOR = Level("GoToDoor", go_to_door, stepping(is_there), "go to the {} door", see_through=True, notes=6)
GO_TO_OBJECT = Level("GoToObject", go_to_object, stepping(is_there), "go to the {} {}", see_through=True, notes=2)
PUT_NEAR = Level("PutNear", put_near, stepping(is_near), "put the {} {} near the {} {}", see_through=True, notes=3)
DOORS = Level("RedBlueDoors", red_blue_doors, stepping(red_then_blue), "open the red door then the blue door")
MEMORY = Level("Memory", memory, step_to_match, "go to the matching object at the end of the hallway")
PLAYGROUND = Level("Playground", playground, stepping(), "")

TASKS = {
    **{f"Fetch-{n}x{n}-N{count}": FETCH_IT.square(n, 5 * n * n, count=count) for n, count in ((5, 2), (6, 2), (8, 3))},
    **{f"GoToDoor-{n}x{n}": GO_TO_DOOR.square(n, 4 * n * n) for n in (5, 6, 8)},
    **{f"GoToObject-{n}x{n}-N2": GO_TO_OBJECT.square(n, 5 * n * n, count=2) for n in (6, 8)},
    **{f"PutNear-{n}x{n}-N{count}": PUT_NEAR.square(n, 5 * n, count=count) for n, count in ((6, 2), (8, 3))},
    **{f"RedBlueDoors-{n}x{n}": DOORS.task(2 * n, n, 20 * n * n) for n in (6, 8)},
    **{f"MemoryS{n}": MEMORY.square(n, 5 * n * n) for n in (7, 9, 11, 13)},
    **{f"MemoryS{n}Random": MEMORY.square(n, 5 * n * n, variant=1) for n in (13, 17)},
    "Playground": PLAYGROUND.square(19, 100, count=12),
}
TASKS = {f"MiniGrid-{name}-v0": task for name, task in TASKS.items()}
