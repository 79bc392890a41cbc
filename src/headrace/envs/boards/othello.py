"""Othello: pieces between a new one and another of the same player are turned over; who has more at the end wins.

An action is a cell, row by row from the top, or 64 to pass, which is allowed only where no cell is. The game ends when
neither player can move. A board's cells are the bits of an integer.
"""

# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false

from collections.abc import Mapping
from typing import Any

import numpy as np
import warp as wp

from headrace.envs.boards.common import GREEN, PLAYERS, View, begin, draw_board, end, planes, show_turn, two_player_task
from headrace.pool.executors.kernels import AgentStreams

SIZE = 8
CELLS = wp.constant(SIZE * SIZE)
PASS = CELLS
NOTHING = wp.constant(wp.uint64(0))
ONE = wp.constant(wp.uint64(1))
NOT_FIRST_COLUMN = wp.constant(wp.uint64(0xFEFEFEFEFEFEFEFE))
NOT_LAST_COLUMN = wp.constant(wp.uint64(0x7F7F7F7F7F7F7F7F))
FIRST_START = wp.constant(wp.uint64(1 << 28 | 1 << 35))
SECOND_START = wp.constant(wp.uint64(1 << 27 | 1 << 36))
DIRECTIONS = wp.constant(8)
LONGEST = wp.constant(6)  # pieces between two others


@wp.struct
class State:
    """The state of a game: the bits of each player's pieces; ``mover`` is the player whose turn it is."""

    pieces: wp.array2d[wp.uint64]
    result: wp.array2d[wp.float32]
    mover: wp.array[wp.int32]
    illegal: wp.array[wp.bool]
    finished: wp.array[wp.bool]


@wp.func
def moved(cells: wp.uint64, direction: int) -> wp.uint64:
    """Returns the cells next to these in one of eight directions."""
    sideways = direction % 3 - 1  # of directions without 4, the middle
    if direction >= 4:
        sideways = (direction + 1) % 3 - 1
    if sideways > 0:
        cells = (cells & NOT_LAST_COLUMN) << ONE
    elif sideways < 0:
        cells = (cells & NOT_FIRST_COLUMN) >> ONE
    if direction < 3:
        return cells >> wp.uint64(SIZE)
    if direction > 4:
        return cells << wp.uint64(SIZE)
    return cells


@wp.func
def between(start: wp.uint64, theirs: wp.uint64, direction: int) -> wp.uint64:
    """Returns the other's pieces that follow these cells in a direction without a gap."""
    run = moved(start, direction) & theirs
    for _i in range(1, LONGEST):
        run = run | (moved(run, direction) & theirs)
    return run


@wp.func
def allowed_moves(mine: wp.uint64, theirs: wp.uint64) -> wp.uint64:
    moves = wp.uint64(0)
    direction = int(0)
    while direction < DIRECTIONS:
        moves = moves | moved(between(mine, theirs, direction), direction)
        direction += 1
    return moves & ~(mine | theirs)


@wp.func
def turned(bit: wp.uint64, mine: wp.uint64, theirs: wp.uint64) -> wp.uint64:
    """Returns the other's pieces that a new piece turns over."""
    pieces = wp.uint64(0)
    direction = int(0)
    while direction < DIRECTIONS:
        run = between(bit, theirs, direction)
        if (moved(run, direction) & mine) != NOTHING:
            pieces = pieces | run
        direction += 1
    return pieces


@wp.func
def set_up(state: State, env: int, agent: int, streams: AgentStreams):
    state.pieces[env, agent] = wp.where(agent == 0, FIRST_START, SECOND_START)
    begin(state, env, agent)


@wp.func
def place(state: State, env: int, agent: int, actions: wp.array2d[wp.int64], row: int, streams: AgentStreams):
    if agent == state.mover[env]:
        mine, theirs = state.pieces[env, agent], state.pieces[env, 1 - agent]
        moves = allowed_moves(mine, theirs)
        action = int(actions[row, agent])
        if action == PASS:
            state.illegal[env] = moves != NOTHING
        else:
            bit = ONE << wp.uint64(action)
            state.illegal[env] = (moves & bit) == NOTHING
            if not state.illegal[env]:
                over = turned(bit, mine, theirs)
                state.pieces[env, agent] = mine | bit | over
                state.pieces[env, 1 - agent] = theirs & ~over


@wp.func
def judge(state: State, env: int, agent: int, actions: wp.array2d[wp.int64], row: int, streams: AgentStreams):
    mine, theirs = state.pieces[env, state.mover[env]], state.pieces[env, 1 - state.mover[env]]
    stuck = allowed_moves(mine, theirs) == NOTHING and allowed_moves(theirs, mine) == NOTHING
    more = wp.bit_count(mine) - wp.bit_count(theirs)
    end(state, env, agent, stuck, wp.where(more > 0, 1.0, wp.where(more < 0, -1.0, 0.0)))


@wp.func
def observe(state: State, env: int, agent: int, view: View, row: int):
    mine, theirs = state.pieces[env, agent], state.pieces[env, 1 - agent]
    moves = wp.uint64(0)
    if state.mover[env] == agent and not state.finished[env]:
        moves = allowed_moves(mine, theirs)
    cell = int(0)
    while cell < CELLS:
        shift = wp.uint64(cell)
        view.obs[row, agent, 0, cell] = wp.uint8((mine >> shift) & ONE)
        view.obs[row, agent, 1, cell] = wp.uint8((theirs >> shift) & ONE)
        view.action_mask[row, agent, cell] = ((moves >> shift) & ONE) != NOTHING
        cell += 1
    view.action_mask[row, agent, PASS] = moves == NOTHING
    show_turn(state, env, agent, view, row, 2)


def render(state: Mapping[str, Any]) -> np.ndarray:
    first, second = ((int(bits) >> np.arange(64, dtype=object) & 1).astype(bool) for bits in state["pieces"])
    return draw_board(np.where(first, 0, np.where(second, 1, -1)).reshape(SIZE, SIZE), GREEN)


TASKS = {
    "Othello-v0": two_player_task(
        "Othello",
        State,
        place,
        {"reset": (set_up,), "judge": judge, "observe": observe, "render": render},
        planes(3, SIZE, SIZE),
        SIZE * SIZE + 1,
        shapes=dict.fromkeys(("pieces", "result"), (PLAYERS,)),
        bounds={"result": (-1, 1), "mover": (0, 1)},
    )
}
