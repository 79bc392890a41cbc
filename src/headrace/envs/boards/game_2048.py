"""2048: slide tiles on 4 × 4 cells; two of one number that meet become one of their sum, which is the reward.

Actions are 0 up, 1 right, 2 down, 3 left. After a move that changes the board, a tile appears in a free cell: 2 with
probability 0.9, else 4. Other moves are not allowed, and have no effect. The game ends when no move is allowed. An
observation has a plane for each number: the first for free cells, then 2, 4, 8 … 131072.
"""

# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false
# pyright: reportInvalidTypeForm=false

from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np
import warp as wp

from headrace.envs.drawing import Canvas, box
from headrace.pool.executors.kernels import KernelEnv, KernelTask, Streams, integers, uniform
from headrace.pool.spec import Field

SIZE = wp.constant(4)
CELLS = wp.constant(16)
MOST = wp.constant(17)  # 2¹⁷ is the largest number that can be reached
PLANES = wp.constant(18)
ACTIONS = wp.constant(4)

Board = wp.types.vector(16, wp.int32)
Line = wp.types.vector(4, wp.int32)


@wp.struct
class State:
    """The state of a game: the exponents of the tiles' numbers, row by row; 0 for free cells."""

    board: wp.array[Board]


@wp.struct
class View:
    """``obs`` uint8[rows, 18, 4, 4], and ``action_mask`` bool[rows, 4]."""

    obs: wp.array4d[wp.uint8]
    action_mask: wp.array2d[wp.bool]


@wp.func
def slid(line: Line):
    """Returns a line after its tiles slid to the front, and the sum of those that joined."""
    result = Line()
    number, score = int(0), int(0)
    joins = wp.bool(False)  # whether the last tile may join the next one
    for i in range(SIZE):
        tile = line[i]
        if tile != 0:
            if joins and result[number - 1] == tile:
                result[number - 1] = tile + 1
                score += 2 << tile
                joins = False
            else:
                result[number] = tile
                number += 1
                joins = True
    return result, score


@wp.func
def cell_of(action: int, line: int, i: int) -> int:
    """Returns the cell at place i, from where tiles slide to, of one of the four lines along an action's direction."""
    if action == 0:
        return i * SIZE + line
    if action == 1:
        return line * SIZE + SIZE - 1 - i
    if action == 2:
        return (SIZE - 1 - i) * SIZE + line
    return line * SIZE + i


@wp.func
def pushed(board: Board, action: int):
    """Returns the board after a move, before a tile appears, its score and whether it changed."""
    moved = Board()
    total = int(0)
    changed = wp.bool(False)
    line = int(0)
    while line < SIZE:
        tiles = Line()
        for i in range(SIZE):
            tiles[i] = board[cell_of(action, line, i)]
        after, score = slid(tiles)
        for i in range(SIZE):
            changed = changed or after[i] != tiles[i]
            moved[cell_of(action, line, i)] = after[i]
        total += score
        line += 1
    return moved, total, changed


@wp.func
def with_tile(board: Board, env: int, streams: Streams) -> Board:
    """Returns the board with a new tile in one of its free cells."""
    free = int(0)
    for cell in range(CELLS):
        free += wp.where(board[cell] == 0, 1, 0)
    skip = integers(streams, env, 0, wp.max(free, 1))
    tile = wp.where(uniform(streams, env, wp.float64(0.0), wp.float64(1.0)) < wp.float64(0.9), 1, 2)
    for cell in range(CELLS):
        if board[cell] == 0:
            if skip == 0:
                board[cell] = tile
            skip -= 1
    return board


@wp.func
def is_stuck(board: Board) -> wp.bool:
    stuck = wp.bool(True)
    for cell in range(CELLS):
        stuck = stuck and board[cell] != 0
        if cell % SIZE != SIZE - 1:
            stuck = stuck and board[cell] != board[cell + 1]
        if cell < CELLS - SIZE:
            stuck = stuck and board[cell] != board[cell + SIZE]
    return stuck


@wp.func
def reset(state: State, env: int, streams: Streams):
    state.board[env] = with_tile(with_tile(Board(), env, streams), env, streams)


@wp.func
def step(state: State, env: int, actions: wp.array[wp.int64], row: int, streams: Streams):
    board, score, changed = pushed(state.board[env], int(actions[row]))
    if changed:
        board = with_tile(board, env, streams)
        state.board[env] = board
    return wp.float32(score), is_stuck(board)


@wp.func
def observe(state: State, env: int, view: View, row: int):
    board = state.board[env]
    for cell in range(CELLS):
        plane = int(0)
        while plane < PLANES:
            view.obs[row, plane, cell / SIZE, cell % SIZE] = wp.uint8(wp.where(board[cell] == plane, 1, 0))
            plane += 1
    stuck = is_stuck(board)
    action = int(0)
    while action < ACTIONS:
        _board, _score, changed = pushed(board, action)
        view.action_mask[row, action] = changed or stuck
        action += 1


def render(state: Mapping[str, Any]) -> np.ndarray:
    canvas = Canvas(320, 320, (187, 173, 160))
    for cell, tile in enumerate(state["board"].tolist()):
        at = (40.0 + 80.0 * (cell % SIZE), 280.0 - 80.0 * (cell // SIZE))
        shade = min(tile, 11) / 11
        color = (
            (round(238 - 10 * shade), round(228 - 40 * shade), round(218 - 170 * shade)) if tile else (205, 193, 180)
        )
        canvas.polygon(box(-35, 35, -35, 35, at=at), color)
        if tile:
            canvas.text(at, str(2**tile), 28 if tile < 10 else 22, (119, 110, 101))
    return canvas.array()


GAME = KernelEnv("Game2048", State, View, reset, step, observe, render, bounds={"board": (0, MOST)})
TASKS = {
    "Game2048-v0": KernelTask(
        GAME,
        gym.spaces.Box(0, 1, (PLANES, SIZE, SIZE), np.uint8),
        gym.spaces.Discrete(ACTIONS),
        info=(Field("action_mask", np.dtype(np.bool_), (ACTIONS,)),),
        render_fps=4,
    )
}
