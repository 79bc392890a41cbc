"""What the agent observes: seven by seven cells ahead of it without those behind walls and doors, or the whole grid.

An observation is the package's dictionary, with the mission as numbers of words, or one array of zeros and ones.
"""

# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false
# pyright: reportInvalidTypeForm=false

from collections.abc import Callable
from typing import Any

import warp as wp

from headrace.envs.minigrid.world import AGENT, COLORS, NOT_NEGATIVE, WALL, State, ahead_x, ahead_y
from headrace.pool.executors.kernels.cpp import cpp

SIDE = 7  # cells of the view, across and ahead
BITS = 11 + COLORS + 3
"""numbers of a cell in one array: its kind, colour and state, one-hot"""
ALL = wp.constant((1 << SIDE) - 1)
MIDDLE = wp.constant(SIDE // 2)
LAST = wp.constant(SIDE - 1)
HIGH = wp.constant(11 + COLORS)
LOW = wp.constant(11)
STATES = wp.constant(3)
CELL_BITS = wp.constant(BITS)
BYTE, MIDDLE_BYTE = wp.constant(wp.uint64(8)), wp.constant(wp.uint64(8 * (SIDE // 2)))
DIRECTIONS = wp.constant(4)
# Of seven bytes at once: `EVERY_BYTE` is a 1 in each. Bits times `SPREAD` are bits in bytes, and those times `GATHER`
# are bits, in the highest byte. Kinds that are opaque have two bits.
EVERY_BYTE, SPREAD, GATHER, OPAQUE_BYTES, OPAQUE_BITS, WALLS = (
    wp.constant(wp.uint64(bits))
    for bits in (
        0x01010101010101,
        0x02040810204081,
        0x0102040810204000,
        0x8C8C8C8C8C8C8C,
        0x0C0C0C0C0C0C0C,
        0x01010101010101 * int(WALL),
    )
)

Frame = wp.types.vector(6, wp.int32)
"""the agent's cell, the steps to the next cell ahead and to the right, how many cells are ahead of it in the grid, and
the first and last column of the view that are in the grid"""

Rows = wp.types.vector(SIDE, wp.uint64)
"""the cells of each row of the view from the agent's on, a byte each from the left"""


@wp.struct
class View:
    """The dictionary: image uint8[rows, …], direction int64[rows] and mission uint8[rows, words].

    An image is [x, y, 3], or a picture [3, height, width].
    """

    obs_image: wp.array4d[wp.uint8]
    obs_direction: wp.array[wp.int64]
    obs_mission: wp.array2d[wp.uint8]


@wp.struct
class FlatView:
    """One array of zeros and ones: uint8[rows, columns]."""

    obs: wp.array2d[wp.uint8]


@wp.func
def room_in(state: State, env: int, direction: int) -> int:
    """Returns how many cells of the grid are beyond the agent's in a direction."""
    if direction == 0:
        return state.width - 1 - state.x[env]
    if direction == 1:
        return state.height - 1 - state.y[env]
    return wp.where(direction == 2, state.x[env], state.y[env])


@wp.func
def framed(state: State, env: int) -> Frame:
    direction = state.direction[env]
    right = (direction + 1) & 3
    return Frame(
        state.y[env] * state.width + state.x[env],
        ahead_y(direction) * state.width + ahead_x(direction),
        ahead_y(right) * state.width + ahead_x(right),
        room_in(state, env, direction),
        wp.max(MIDDLE - room_in(state, env, (direction + 3) & 3), 0),
        wp.min(MIDDLE + room_in(state, env, right), LAST),
    )


@wp.func
def bytes_of(bits: int) -> wp.uint64:
    """Returns a byte of ones for each of seven bits that is 1."""
    return ((wp.uint64(bits) * SPREAD) & EVERY_BYTE) * wp.uint64(255)


@wp.func
def row_ahead(state: State, env: int, frame: Frame, inside: wp.uint64, ahead: int, lit: int):
    """Returns the cells of a row of the view, a byte each from the left, and where light falls in the next row.

    Light from ``lit``, bits from the left, spreads sideways through what is transparent, and from there to the next
    row, straight on and diagonally. ``inside`` has ones in the bytes of columns that are in the grid.
    """
    cells = WALLS
    if ahead <= frame[3]:
        cells = WALLS & ~inside
        first = frame[0] + ahead * frame[1] - MIDDLE * frame[2]
        across = int(0)
        row = wp.uint64(0)
        while across < SIDE:
            at = first + wp.clamp(across, frame[4], frame[5]) * frame[2]
            row |= wp.uint64(state.cells[env, at & NOT_NEGATIVE]) << (wp.uint64(across) * BYTE)
            across += 1
        cells |= row & inside
    if ahead == 0:  # what the agent carries is where it stands
        cells = (cells & ~(wp.uint64(255) << MIDDLE_BYTE)) | (wp.uint64(state.carrying[env]) << MIDDLE_BYTE)
    if state.see_through:
        return cells, ALL
    # in what is opaque, two bits are 1 and three are 0
    odd = (cells & OPAQUE_BYTES) ^ OPAQUE_BITS
    odd |= odd >> wp.uint64(4)
    odd |= odd >> wp.uint64(2)
    clear = int((((odd | (odd >> wp.uint64(1))) & EVERY_BYTE) * GATHER) >> wp.uint64(56))
    further = int(state.spread[(((clear & ALL) << SIDE) | lit) & NOT_NEGATIVE])
    return cells & bytes_of(lit | further), further


@wp.func
def put_image(image: wp.array3d[wp.uint8], x: int, y: int, height: int, look: int):
    image[x, y, 0] = wp.uint8(look)
    image[x, y, 1] = wp.uint8(look >> 8)
    image[x, y, 2] = wp.uint8(look >> 16)


@wp.func
def put_bits(bits: wp.array[wp.uint8], x: int, y: int, height: int, look: int):
    first = (x * height + y) * CELL_BITS
    kind = look & 255
    color = LOW + ((look >> 8) & 255)
    state = HIGH + ((look >> 16) & 255) % STATES  # also of an agent, whose state is one of four directions
    i = int(0)
    while i < CELL_BITS:
        bits[first + i] = wp.uint8(0)
        i += 1
    bits[first + kind] = wp.uint8(1)
    bits[first + color] = wp.uint8(1)
    bits[first + state] = wp.uint8(1)


@wp.func
def in_view(state: State, env: int) -> Rows:
    """Returns the cells that the agent sees; 0 for those that it doesn't."""
    frame = framed(state, env)
    inside = bytes_of((2 << frame[5]) - (1 << frame[4]))
    rows = Rows()
    ahead, lit = int(0), int(1 << MIDDLE)
    while ahead < SIDE:
        cells, lit = row_ahead(state, env, frame, inside, ahead, lit)
        rows[ahead] = cells
        ahead += 1
    return rows


@wp.func
def look_of(looks: wp.array[wp.int32], rows: Rows, x: int, y: int) -> int:
    """Returns what is seen in a column and row of the view, of which the agent's row is the last."""
    return int(looks[int((rows[LAST - y] >> (wp.uint64(x) * BYTE)) & wp.uint64(255)) & NOT_NEGATIVE])


@wp.func
def show_rows(image: wp.array3d[wp.uint8], rows: Rows, looks: wp.array[wp.int32]):
    """Writes the view as an image."""
    for x in range(SIDE):
        for y in range(SIDE):
            put_image(image, x, y, SIDE, look_of(looks, rows, x, y))


@wp.func_native(cpp(__file__, "on_cpu"))
def on_cpu() -> bool:
    """Returns whether this is compiled for a CPU."""
    return True


@wp.func_native(cpp(__file__, "show_view"))
def show_view(state: State, env: int, image: wp.array3d[wp.uint8]):
    show_rows(image, in_view(state, env), state.looks)


@wp.func
def seen_as_image(state: State, env: int, image: wp.array3d[wp.uint8]):
    """Writes the view as an image."""
    if on_cpu():
        show_view(state, env, image)
    else:
        show_rows(image, in_view(state, env), state.looks)


@wp.func
def seen_as_bits(state: State, env: int, bits: wp.array[wp.uint8]):
    """Writes the view as zeros and ones."""
    rows = in_view(state, env)
    i = int(0)
    while i < SIDE * SIDE:
        put_bits(bits, i / SIDE, i % SIDE, SIDE, look_of(state.looks, rows, i / SIDE, i % SIDE))
        i += 1


def looking(full: bool, put: Callable[..., Any], partial: Callable[..., Any]) -> Any:
    """Returns a function that writes the whole grid into an array with ``put``; or else ``partial``, for the view."""

    @wp.func
    def whole(state: State, env: int, into: Any):
        at, x, y = int(0), int(0), int(0)
        agent = state.y[env] * state.width + state.x[env]
        while at < state.width * state.height:
            cell = int(state.cells[env, at])
            if at == agent:
                cell = AGENT | (state.direction[env] << 4)
            put(into, x, y, state.height, state.looks[cell])
            at += 1
            x += 1
            if x == state.width:
                x = 0
                y += 1

    return whole if full else partial


def observing(look: Callable[..., Any], words: int) -> Any:
    """Returns the environment function ``observe`` of the dictionary.

    Args:
        look: ``(state, env, image)``: writes the image.
        words: number of words of the mission.
    """

    @wp.func
    def observe(state: State, env: int, view: View, row: int):
        look(state, env, view.obs_image[row])
        view.obs_direction[row] = wp.int64(state.direction[env])
        shown, mission = view.obs_mission[row], state.mission[env]
        for i in range(words):
            shown[i] = mission[i]

    return observe


def telling(words: int) -> Any:
    """Returns a function that writes the direction, and each word of the mission as one of ``words``, or 0."""

    @wp.func
    def tell(state: State, env: int, bits: wp.array[wp.uint8], first: int):
        for i in range(DIRECTIONS):
            bits[first + i] = wp.uint8(wp.where(i == state.direction[env], 1, 0))
        if words > 0:
            for i in range(state.mission.shape[1]):
                for word in range(words):
                    at = first + DIRECTIONS + i * words + word
                    bits[at] = wp.uint8(wp.where(int(state.mission[env, i]) == word, 1, 0))

    return tell


def observing_flat(full: bool, words: int) -> Any:
    """Returns the function ``observe`` of one array, in which each word of the mission is one of ``words``, or 0."""
    look, tell = looking(full, put_bits, seen_as_bits), telling(words)

    @wp.func
    def observe(state: State, env: int, view: FlatView, row: int):
        bits = view.obs[row]
        look(state, env, bits)
        tell(state, env, bits, bits.shape[0] - DIRECTIONS - words * state.mission.shape[1])

    return observe
