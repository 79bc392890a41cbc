"""Hex on 11 × 11 cells: the first player connects top and bottom, the second one left and right; there is no draw.

An action is a cell, row by row from the top; each row is half a cell further to the right than the one above. A
player's stones are eleven rows of bits.
"""

# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false
# pyright: reportInvalidTypeForm=false

from collections.abc import Mapping
from typing import Any

import numpy as np
import warp as wp

from headrace.envs.boards.common import PIECES, PLAYERS, WOOD, View, begin, end, planes, show_turn, two_player_task
from headrace.envs.drawing import Canvas
from headrace.pool.executors.kernels import AgentStreams

SIZE = 11
LAST = wp.constant(SIZE - 1)
LAST_COLUMN = wp.constant(1 << (SIZE - 1))
ALL_COLUMNS = wp.constant((1 << SIZE) - 1)
CELLS = SIZE * SIZE
PITCH = 36  # pixels

Rows = wp.types.vector(SIZE, wp.int32)


@wp.struct
class State:
    """The state of a game: each player's stones; ``mover`` is the player whose turn it is."""

    stones: wp.array2d[Rows]
    result: wp.array2d[wp.float32]
    mover: wp.array[wp.int32]
    illegal: wp.array[wp.bool]
    finished: wp.array[wp.bool]


@wp.func
def connects(stones: Rows, player: int) -> wp.bool:
    """Returns whether a player's stones connect its two sides: those that are reached from the first side grow."""
    columns, rows = int(0), int(0)
    for y in range(SIZE):
        columns = columns | stones[y]
        rows = rows + wp.where(stones[y] != 0, 1, 0)
    if (player == 0 and rows < SIZE) or (player != 0 and columns != ALL_COLUMNS):
        return wp.bool(False)  # nobody connects without a stone in each row, or column
    reached = Rows()
    for y in range(SIZE):
        reached[y] = stones[y] & 1
    if player == 0:
        reached = Rows()
        reached[0] = stones[0]
    grows = wp.bool(True)
    while grows:
        grows = False
        for y in range(SIZE):
            here = reached[y]
            near = here | (here << 1) | (here >> 1)
            if y > 0:
                near = near | reached[y - 1] | (reached[y - 1] >> 1)
            if y < LAST:
                near = near | reached[y + 1] | (reached[y + 1] << 1)
            near = near & stones[y]
            grows = grows or near != here
            reached[y] = near
    far = int(0)
    for y in range(SIZE):
        far = far | reached[y]
    return wp.where(player == 0, reached[LAST] != 0, (far & LAST_COLUMN) != 0)


@wp.func
def clear(state: State, env: int, agent: int, streams: AgentStreams):
    state.stones[env, agent] = Rows()
    begin(state, env, agent)


@wp.func
def place(state: State, env: int, agent: int, actions: wp.array2d[wp.int64], row: int, streams: AgentStreams):
    if agent == state.mover[env]:
        action = int(actions[row, agent])
        y = action / SIZE
        bit = 1 << (action % SIZE)
        mine = state.stones[env, agent]
        state.illegal[env] = ((mine[y] | state.stones[env, 1 - agent][y]) & bit) != 0
        mine[y] = mine[y] | bit
        state.stones[env, agent] = mine


@wp.func
def judge(state: State, env: int, agent: int, actions: wp.array2d[wp.int64], row: int, streams: AgentStreams):
    mover = state.mover[env]
    end(state, env, agent, connects(state.stones[env, mover], mover), 1.0)


@wp.func
def observe(state: State, env: int, agent: int, view: View, row: int):
    mine, theirs = state.stones[env, agent], state.stones[env, 1 - agent]
    moves = state.mover[env] == agent and not state.finished[env]
    y = int(0)
    while y < SIZE:
        own, others = mine[y], theirs[y]
        for x in range(SIZE):
            cell = y * SIZE + x
            view.obs[row, agent, 0, cell] = wp.uint8((own >> x) & 1)
            view.obs[row, agent, 1, cell] = wp.uint8((others >> x) & 1)
            view.obs[row, agent, 2, cell] = wp.uint8(agent)  # which sides are its own
            free = (((own | others) >> x) & 1) == 0
            view.action_mask[row, agent, cell] = wp.where(moves, free, cell == 0)
        y += 1
    show_turn(state, env, agent, view, row, 3)


def render(state: Mapping[str, Any]) -> np.ndarray:
    width, height = round((1.5 * SIZE + 0.5) * PITCH), (SIZE + 1) * PITCH
    canvas = Canvas(width, height, WOOD)
    angles = np.pi / 6 + np.arange(6) * np.pi / 3
    corners = PITCH / np.sqrt(3) * np.stack([np.cos(angles), np.sin(angles)], 1)
    for y, x in np.ndindex(SIZE, SIZE):
        centre = np.array(((x + 0.5 * y + 0.75) * PITCH, height - (0.87 * y + 1.2) * PITCH))
        outline = [(px, py) for px, py in np.vstack([centre + corners, centre + corners[:1]])]
        canvas.line(outline, (150, 120, 80))
        for player, stones in enumerate(state["stones"]):
            if int(stones[y]) >> x & 1:
                canvas.circle((centre[0], centre[1]), 0.4 * PITCH, PIECES[player])
    return canvas.array()


TASKS = {
    "Hex-v0": two_player_task(
        "Hex",
        State,
        place,
        {"reset": (clear,), "judge": judge, "observe": observe, "render": render},
        planes(4, SIZE, SIZE),
        CELLS,
        shapes=dict.fromkeys(("stones", "result"), (PLAYERS,)),
        bounds={"stones": (0, (1 << SIZE) - 1), "result": (-1, 1), "mover": (0, 1)},
    )
}
