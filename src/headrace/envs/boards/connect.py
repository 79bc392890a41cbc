"""Tic-tac-toe and Connect Four: who first has three, or four, pieces in a line wins.

In tic-tac-toe an action is a cell, row by row from the top; in Connect Four it is a column, in which a piece falls. A
board's cells are the bits of an integer, column by column from the bottom, with an empty row above, so that no line
goes on in the next column.
"""

# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false

from collections.abc import Mapping
from typing import Any

import numpy as np
import warp as wp

from headrace.envs.boards.common import PLAYERS, View, begin, draw_board, end, planes, show_turn, two_player_task
from headrace.pool.executors.kernels import AgentStreams

ONE = wp.constant(wp.int64(1))
NOTHING = wp.constant(wp.int64(0))
BLUE, RED, YELLOW = (40, 80, 170), (220, 60, 56), (250, 210, 70)


@wp.struct
class State:
    """The state of a game: the bits of each player's stones; ``mover`` is the player whose turn it is."""

    stones: wp.array2d[wp.int64]
    result: wp.array2d[wp.float32]
    mover: wp.array[wp.int32]
    illegal: wp.array[wp.bool]
    finished: wp.array[wp.bool]
    width: int
    height: int
    in_a_row: int
    falls: wp.bool
    board: wp.int64  # all cells


@wp.func
def place_of(state: State, taken: wp.int64, action: int) -> wp.int64:
    """Returns the bit of the cell that an action takes, or 0 if it is not allowed."""
    stride = state.height + 1
    if state.falls:
        bottom = ONE << wp.int64(action * stride)
        free = taken + bottom  # carries over the column's pieces, to the first cell above them or to the empty row
        return free & ~taken & (((ONE << wp.int64(state.height)) - ONE) * bottom)
    x = action % state.width
    y = state.height - 1 - action / state.width
    bit = ONE << wp.int64(x * stride + y)
    return wp.where((taken & bit) == NOTHING, bit, NOTHING)


@wp.func
def along(stones: wp.int64, shift: int, in_a_row: int) -> wp.bool:
    """Returns whether so many stones are in a line whose cells are ``shift`` bits apart."""
    line = stones
    for i in range(1, in_a_row):
        line = line & (stones >> wp.int64(i * shift))
    return line != NOTHING


@wp.func
def has_won(stones: wp.int64, height: int, in_a_row: int) -> wp.bool:
    return (
        along(stones, 1, in_a_row)
        or along(stones, height, in_a_row)
        or along(stones, height + 1, in_a_row)
        or along(stones, height + 2, in_a_row)
    )


@wp.func
def clear(state: State, env: int, agent: int, streams: AgentStreams):
    state.stones[env, agent] = NOTHING
    begin(state, env, agent)


@wp.func
def place(state: State, env: int, agent: int, actions: wp.array2d[wp.int64], row: int, streams: AgentStreams):
    if agent == state.mover[env]:
        bit = place_of(state, state.stones[env, 0] | state.stones[env, 1], int(actions[row, agent]))
        state.stones[env, agent] = state.stones[env, agent] | bit
        state.illegal[env] = bit == NOTHING


@wp.func
def judge(state: State, env: int, agent: int, actions: wp.array2d[wp.int64], row: int, streams: AgentStreams):
    mover = state.mover[env]
    won = has_won(state.stones[env, mover], state.height, state.in_a_row)
    taken = state.stones[env, 0] | state.stones[env, 1]
    full = taken == state.board
    end(state, env, agent, won or full, wp.where(won, 1.0, 0.0))


@wp.func
def observe(state: State, env: int, agent: int, view: View, row: int):
    mine, theirs = state.stones[env, agent], state.stones[env, 1 - agent]
    for y in range(state.height):
        shift = wp.int64(state.height - 1 - y)
        own, others = mine >> shift, theirs >> shift
        for x in range(state.width):
            cell = y * state.width + x
            view.obs[row, agent, 0, cell] = wp.uint8(own & ONE)
            view.obs[row, agent, 1, cell] = wp.uint8(others & ONE)
            own = own >> wp.int64(state.height + 1)
            others = others >> wp.int64(state.height + 1)
    show_turn(state, env, agent, view, row, 2)
    moves = state.mover[env] == agent and not state.finished[env]
    for action in range(view.action_mask.shape[2]):
        allowed = action == 0
        if moves:
            allowed = place_of(state, mine | theirs, action) != NOTHING
        view.action_mask[row, agent, action] = allowed


def render(state: Mapping[str, Any]) -> np.ndarray:
    width, height = state["width"], state["height"]
    owner = np.full((height, width), -1)
    for player, stones in enumerate(state["stones"]):
        for y, x in np.ndindex(height, width):
            if int(stones) >> x * (height + 1) + height - 1 - y & 1:
                owner[y, x] = player
    return draw_board(owner, BLUE, (RED, YELLOW)) if state["falls"] else draw_board(owner)


def _task(name: str, width: int, height: int, in_a_row: int, falls: bool) -> Any:
    board = sum(1 << x * (height + 1) + y for x in range(width) for y in range(height))
    rules = {"width": width, "height": height, "in_a_row": in_a_row, "falls": falls, "board": board}
    return two_player_task(
        name,
        State,
        place,
        {"reset": (clear,), "judge": judge, "observe": observe, "render": render},
        planes(3, height, width),
        width if falls else width * height,
        shapes=dict.fromkeys(("stones", "result"), (PLAYERS,)),
        constants=rules,
        bounds={"stones": (0, board), "result": (-1, 1), "mover": (0, 1)},
    )


TASKS = {
    "TicTacToe-v0": _task("TicTacToe", 3, 3, 3, falls=False),
    "ConnectFour-v0": _task("ConnectFour", 7, 6, 4, falls=True),
}
