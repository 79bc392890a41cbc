"""Tasks whose agent has to reach the green goal: past walls, lava and doors, and between obstacles that move."""

# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false
# pyright: reportInvalidTypeForm=false

import warp as wp

from headrace.envs.minigrid.layouts import (
    begin_walled,
    fill,
    free_cell,
    place_agent,
    put,
    say_color,
    scatter,
    scatter_agent,
    shuffle,
)
from headrace.envs.minigrid.level import Level
from headrace.envs.minigrid.world import (
    BALL,
    BLUE,
    CLOSED,
    EMPTY,
    FORWARD,
    GOAL,
    GOES_ON,
    KEY,
    LAVA,
    LOCKED,
    WALL,
    YELLOW,
    State,
    act,
    earned,
    front,
    stepping,
)
from headrace.pool.executors.kernels import Streams, integers

GREEN_GOAL = "get to the green goal square"
YELLOW_KEY = wp.constant(int(KEY) | YELLOW << 4)
YELLOW_DOOR = wp.constant(int(LOCKED) | YELLOW << 4)
OBSTACLE = wp.constant(int(BALL) | BLUE << 4)
step = stepping()


@wp.func
def begin_with_goal(state: State, env: int):
    """Begins with walls around, a goal in the last corner and the agent in the first, looking to the right."""
    begin_walled(state, env)
    put(state, env, state.width - 2, state.height - 2, GOAL)
    state.x[env] = 1
    state.y[env] = 1


@wp.func
def empty(state: State, env: int, streams: Streams):
    begin_with_goal(state, env)
    if state.variant == 1:
        scatter_agent(state, env, streams)


@wp.func
def door_key(state: State, env: int, streams: Streams):
    begin_with_goal(state, env)
    wall = integers(streams, env, 2, state.width - 2)
    fill(state, env, wall, 0, 1, state.height, WALL)
    place_agent(state, env, streams, 0, 0, wall, state.height)
    put(state, env, wall, integers(streams, env, 1, state.height - 2), YELLOW_DOOR)
    key = free_cell(state, env, streams, 0, 0, wall, state.height)
    state.cells[env, key] = wp.uint8(YELLOW_KEY)


@wp.func
def next_river(rivers: int, after: int, edge: int) -> int:
    """Returns the first river beyond a position, of bits for positions 2, 4, 6 …; the edge if there is none."""
    at = after + 1
    while at < edge and ((rivers >> (at / 2 - 1)) & 1) * (1 - at % 2) == 0:
        at += 1
    return at


@wp.func
def crossing(state: State, env: int, streams: Streams):
    """Rivers of ``variant``, across and down, with openings on one way through all of them."""
    begin_with_goal(state, env)
    edge = state.width - 1
    places = (edge - 2) / 2  # for rivers in each direction
    down, across, left_down, left_across = int(0), int(0), int(0), int(0)
    while left_down + left_across < state.count:
        i = integers(streams, env, 0, 2 * places)
        if i < places and ((down >> i) & 1) == 0:
            down |= 1 << i
            left_down += 1
            fill(state, env, 2 * i + 2, 1, 1, edge - 1, state.variant)
        i -= places
        if i >= 0 and ((across >> i) & 1) == 0:
            across |= 1 << i
            left_across += 1
            fill(state, env, 1, 2 * i + 2, edge - 1, 1, state.variant)
    x, y = int(0), int(0)
    while left_down + left_across > 0:
        next_x = next_river(down, x, edge)
        next_y = next_river(across, y, edge)
        if integers(streams, env, 0, left_down + left_across) < left_down:
            put(state, env, next_x, integers(streams, env, y + 1, next_y), EMPTY)
            left_down -= 1
            x = next_x
        else:
            put(state, env, integers(streams, env, x + 1, next_x), next_y, EMPTY)
            left_across -= 1
            y = next_y


@wp.func
def lava_gap(state: State, env: int, streams: Streams):
    begin_with_goal(state, env)
    x = integers(streams, env, 2, state.width - 2)
    fill(state, env, x, 1, 1, state.height - 2, LAVA)
    put(state, env, x, integers(streams, env, 1, state.height - 1), EMPTY)


@wp.func
def dist_shift(state: State, env: int, streams: Streams):
    """Two strips of lava, of which the second is in row ``variant``."""
    begin_walled(state, env)
    put(state, env, state.width - 2, 1, GOAL)
    fill(state, env, 3, 1, state.width - 6, 1, LAVA)
    fill(state, env, 3, state.variant, state.width - 6, 1, LAVA)
    state.x[env] = 1
    state.y[env] = 1


@wp.func
def four_rooms(state: State, env: int, streams: Streams):
    begin_walled(state, env)
    x = state.width / 2
    y = state.height / 2
    fill(state, env, x, 0, 1, state.height, WALL)
    fill(state, env, 0, y, state.width, 1, WALL)
    put(state, env, x, integers(streams, env, 1, y), EMPTY)
    put(state, env, x, integers(streams, env, y + 1, 2 * y), EMPTY)
    put(state, env, integers(streams, env, 1, x), y, EMPTY)
    put(state, env, integers(streams, env, x + 1, 2 * x), y, EMPTY)
    scatter_agent(state, env, streams)
    scatter(state, env, streams, GOAL)


@wp.func
def locked_room(state: State, env: int, streams: Streams):
    """Three rooms on each side of a hallway, one of them locked."""
    begin_walled(state, env)
    left = state.width / 2 - 2
    right = state.width / 2 + 2
    fill(state, env, left, 0, 1, state.height, WALL)
    fill(state, env, right, 0, 1, state.height, WALL)
    for row in range(1, 3):
        fill(state, env, 0, row * (state.height / 3), left, 1, WALL)
        fill(state, env, right, row * (state.height / 3), state.width - right, 1, WALL)
    shuffle(state, env, streams, 0, 6)
    locked = integers(streams, env, 0, 6)
    keeper = (locked + integers(streams, env, 1, 6)) % 6  # the room with the key
    for room in range(6):
        x = wp.where(room % 2 == 0, 0, right)
        y = room / 2 * (state.height / 3)
        color = state.notes[env, room] << 4
        put(state, env, wp.where(room % 2 == 0, left, right), y + 3, color | wp.where(room == locked, LOCKED, CLOSED))
        thing_x = x + integers(streams, env, 1, left)
        thing_y = y + integers(streams, env, 1, state.height / 3)
        if room == locked:
            put(state, env, thing_x, thing_y, GOAL)
            say_color(state, env, 2, color)
            say_color(state, env, 10, color)
        if room == keeper:
            put(state, env, thing_x, thing_y, KEY | (state.notes[env, locked] << 4))
            say_color(state, env, 6, color)
    place_agent(state, env, streams, left, 0, right - left, state.height)


@wp.func
def dynamic_obstacles(state: State, env: int, streams: Streams):
    empty(state, env, streams)
    for i in range(state.count):
        state.notes[env, i] = scatter(state, env, streams, OBSTACLE)


@wp.func
def drift(state: State, env: int, streams: Streams, i: int):
    """Moves an obstacle to a free cell around it, if there is one."""
    agent = state.y[env] * state.width + state.x[env]
    at = state.notes[env, i]
    free = int(0)
    for j in range(9):
        near = at + (j / 3 - 1) * state.width + j % 3 - 1
        if near != agent and int(state.cells[env, near]) == EMPTY:
            free += 1
    if free > 0:
        chosen = integers(streams, env, 0, free)
        to = at
        for j in range(9):
            near = at + (j / 3 - 1) * state.width + j % 3 - 1
            if near != agent and int(state.cells[env, near]) == EMPTY:
                if chosen == 0:
                    to = near
                chosen -= 1
        state.cells[env, at] = wp.uint8(EMPTY)
        state.cells[env, to] = wp.uint8(OBSTACLE)
        state.notes[env, i] = to


@wp.func
def step_among_obstacles(state: State, env: int, actions: wp.array[wp.int64], row: int, streams: Streams):
    """A step forward into what was no free cell costs 1 and ends the episode; obstacles move before the agent."""
    action = int(actions[row])
    before = int(state.cells[env, front(state, env)])
    for i in range(state.count):
        drift(state, env, streams, i)
    state.steps[env] = state.steps[env] + 1
    outcome = act(state, env, action)
    if action == FORWARD and before != EMPTY and before != GOAL:
        return wp.float32(-1.0), True
    return earned(state, env, outcome), outcome != GOES_ON


EMPTY_ROOM = Level("Empty", empty, step, GREEN_GOAL, see_through=True)
OBSTACLES = Level(
    "DynamicObstacles",
    dynamic_obstacles,
    step_among_obstacles,
    GREEN_GOAL,
    see_through=True,
    notes=8,
    actions=3,
    noted_cells=True,
)
DOOR_KEY = Level("DoorKey", door_key, step, "use the key to open the door and then get to the goal")
LAVA_CROSSING = Level("Crossing", crossing, step, "avoid the lava and get to the green goal square")
SIMPLE_CROSSING = Level("Crossing", crossing, step, "find the opening and get to the green goal square")
LAVA_GAP = Level("LavaGap", lava_gap, step, LAVA_CROSSING.mission)
DIST_SHIFT = Level("DistShift", dist_shift, step, GREEN_GOAL, see_through=True)
LOCKED_ROOM = Level(
    "LockedRoom",
    locked_room,
    step,
    "get the {} key from the {} room, unlock the {} door and go to the goal",
    notes=6,
)
FOUR_ROOMS = Level("FourRooms", four_rooms, step, "reach the goal")

TASKS = {
    **{f"Empty-{n}x{n}": EMPTY_ROOM.square(n, 4 * n * n) for n in (5, 6, 8, 16)},
    **{f"Empty-Random-{n}x{n}": EMPTY_ROOM.square(n, 4 * n * n, variant=1) for n in (5, 6)},
    **{f"DoorKey-{n}x{n}": DOOR_KEY.square(n, 10 * n * n) for n in (5, 6, 8, 16)},
    **{f"LavaGapS{n}": LAVA_GAP.square(n, 4 * n * n) for n in (5, 6, 7)},
    **{f"DistShift{i}": DIST_SHIFT.task(9, 7, 252, variant=row) for i, row in ((1, 2), (2, 5))},
    **{
        f"{name}CrossingS{n}N{count}": level.square(n, 4 * n * n, count=count, variant=int(river))
        for name, level, river in (("Lava", LAVA_CROSSING, LAVA), ("Simple", SIMPLE_CROSSING, WALL))
        for n, count in ((9, 1), (9, 2), (9, 3), (11, 5))
    },
    **{
        f"Dynamic-Obstacles-{n}x{n}": OBSTACLES.square(n, 4 * n * n, count=count)
        for n, count in ((5, 2), (6, 3), (8, 4), (16, 8))
    },
    **{
        f"Dynamic-Obstacles-Random-{n}x{n}": OBSTACLES.square(n, 4 * n * n, count=count, variant=1)
        for n, count in ((5, 2), (6, 3))
    },
    "FourRooms": FOUR_ROOMS.square(19, 100),
    "LockedRoom": LOCKED_ROOM.square(19, 190),
}
TASKS = {f"MiniGrid-{name}-v0": task for name, task in TASKS.items()}
