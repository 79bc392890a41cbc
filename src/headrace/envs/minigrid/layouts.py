"""What makers of levels share: to draw walls, and to put things and the agent at random places."""

# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false
# pyright: reportInvalidTypeForm=false

import warp as wp

from headrace.envs.minigrid.words import COLOR_WORD, KIND_WORD
from headrace.envs.minigrid.world import BOX, COLORS, EMPTY, KEY, WALL, State
from headrace.pool.executors.kernels import Streams, integers

ALL_COLORS = wp.constant(COLORS)
TO_COLOR_WORD, TO_KIND_WORD = wp.constant(COLOR_WORD), wp.constant(KIND_WORD)


@wp.func
def put(state: State, env: int, x: int, y: int, cell: int):
    state.cells[env, y * state.width + x] = wp.uint8(cell)


@wp.func
def fill(state: State, env: int, x: int, y: int, width: int, height: int, cell: int):
    """Fills a rectangle."""
    for j in range(y, y + height):
        for i in range(x, x + width):
            put(state, env, i, j, cell)


@wp.func
def outline(state: State, env: int, x: int, y: int, width: int, height: int):
    """Draws the walls of a rectangle's edge."""
    fill(state, env, x, y, width, 1, WALL)
    fill(state, env, x, y + height - 1, width, 1, WALL)
    fill(state, env, x, y, 1, height, WALL)
    fill(state, env, x + width - 1, y, 1, height, WALL)


@wp.func
def begin(state: State, env: int):
    """Begins an episode in an empty grid, with the words of the mission that are always the same."""
    for at in range(state.width * state.height):
        state.cells[env, at] = wp.uint8(EMPTY)
    for i in range(state.mission.shape[1]):
        state.mission[env, i] = state.words[i]
    for i in range(state.notes.shape[1]):
        state.notes[env, i] = 0
    state.x[env] = 0
    state.y[env] = 0
    state.direction[env] = 0
    state.carrying[env] = EMPTY
    state.target[env] = 0
    state.second[env] = 0
    state.wanted[env] = 0
    state.steps[env] = 0


@wp.func
def begin_walled(state: State, env: int):
    """As `begin`, with walls around the grid."""
    begin(state, env)
    outline(state, env, 0, 0, state.width, state.height)


@wp.func
def free_cell(state: State, env: int, streams: Streams, x: int, y: int, width: int, height: int) -> int:
    """Returns a random cell of a rectangle that is empty, and not where the agent is."""
    agent = state.y[env] * state.width + state.x[env]
    at = agent
    while at == agent or int(state.cells[env, at]) != EMPTY:
        i = integers(streams, env, x, wp.min(x + width, state.width))
        j = integers(streams, env, y, wp.min(y + height, state.height))
        at = j * state.width + i
    return at


@wp.func
def scatter(state: State, env: int, streams: Streams, cell: int) -> int:
    """Puts a thing anywhere, and returns where."""
    at = free_cell(state, env, streams, 0, 0, state.width, state.height)
    state.cells[env, at] = wp.uint8(cell)
    return at


@wp.func
def place_agent(state: State, env: int, streams: Streams, x: int, y: int, width: int, height: int):
    """Puts the agent on a free cell of a rectangle, in any direction."""
    state.x[env] = 0
    state.y[env] = 0
    at = free_cell(state, env, streams, x, y, width, height)
    state.x[env] = at % state.width
    state.y[env] = at / state.width
    state.direction[env] = integers(streams, env, 0, 4)


@wp.func
def scatter_agent(state: State, env: int, streams: Streams):
    place_agent(state, env, streams, 0, 0, state.width, state.height)


@wp.func
def colored(streams: Streams, env: int, kind: int) -> int:
    """Returns a thing of this kind and a random colour."""
    return kind | (integers(streams, env, 0, ALL_COLORS) << 4)


@wp.func
def any_thing(streams: Streams, env: int) -> int:
    """Returns a key, a ball or a box of a random colour."""
    return colored(streams, env, integers(streams, env, KEY, BOX + 1))


@wp.func
def shuffle(state: State, env: int, streams: Streams, first: int, number: int):
    """Notes the numbers below ``number`` in random order, from the note ``first`` on."""
    for i in range(number):
        state.notes[env, first + i] = i
    for i in range(number - 1):
        j = integers(streams, env, i, number)
        other = state.notes[env, first + j]
        state.notes[env, first + j] = state.notes[env, first + i]
        state.notes[env, first + i] = other


@wp.func
def say(state: State, env: int, at: int, word: int):
    """Sets a word of the mission, counted from 0."""
    state.mission[env, at] = wp.uint8(word)


@wp.func
def say_color(state: State, env: int, at: int, cell: int):
    """Sets a word of the mission to the colour of a thing."""
    say(state, env, at, (cell >> 4) + TO_COLOR_WORD)


@wp.func
def say_thing(state: State, env: int, at: int, cell: int):
    """Sets two words of the mission to the colour and the kind of a key, ball or box."""
    say_color(state, env, at, cell)
    say(state, env, at + 1, (cell & 15) + TO_KIND_WORD)
