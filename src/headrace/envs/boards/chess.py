"""Chess, with the actions of AlphaZero and PettingZoo, 73 ways to leave each of 64 cells.

Both see the board from their own side. The 111 planes are PettingZoo's: for each of the last eight positions the own
pieces from pawn to king, the other's, and whether it was there before; then what is true of the game: castling, the
colour, moves without progress, and, last, whether the player is to move. A pawn that has just moved by two is shown on
its first row, for it may be taken en passant.

The game is a draw when a position is there for the third time, after a hundred moves without a capture or a pawn's
move, and when neither can mate. White is the first player.
"""

# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false
# pyright: reportInvalidTypeForm=false, reportAttributeAccessIssue=false

import functools
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import warp as wp

from headrace.envs.boards import chess_moves as m
from headrace.envs.boards.chess_moves import ALL, NOTHING, ONE, PAWN, WAYS, Board, from_other_side, occupied, of_kind
from headrace.envs.boards.chess_notation import MOST_MOVES, START, as_words, canonical
from headrace.envs.boards.chess_picture import render
from headrace.envs.boards.common import PLAYERS, View, begin, end, planes, show_turn, two_player_task
from headrace.pool.executors.kernels import AgentStreams
from headrace.pool.executors.kernels.cpp import cpp
from headrace.pool.options import Checked, Option
from headrace.pool.spec import AgentType

ACTIONS = 64 * WAYS
POSITIONS = wp.constant(8)  # that are observed
KINDS = wp.constant(6)
PLANES = wp.constant(13)  # of one position
RULES = 7  # planes of what is true of the game
NO_PROGRESS = wp.constant(100)  # moves of either player that make a draw
DARK = wp.constant(wp.uint64(0xAA55AA55AA55AA55))
SHORT_HOMES, LONG_HOMES = wp.constant(wp.uint64(1 << 4 | 1 << 7)), wp.constant(wp.uint64(1 << 4 | 1))
"""cells of king and rook, of one's own first row, for castling on either side"""
CHECKMATE, DEAD, STALEMATE, UNPROGRESSIVE, THREEFOLD = (wp.constant(ending) for ending in range(1, 6))
"""why a game has ended; `DEAD` is one that neither can win"""


@wp.struct
class State:
    """The state of a game.

    Positions are white's view, the newest first. ``castling`` has a bit for each of white's short, white's long, and
    black's two; ``passant`` a byte for each position: 1 + column + 8 · player of a pawn that has just moved by two;
    ``repeated`` a bit for each that was there before.
    """

    positions: wp.array2d[Board]
    passant: wp.array[wp.uint64]
    repeated: wp.array[wp.uint32]
    castling: wp.array[wp.int32]
    allowed: wp.array2d[wp.uint64]  # see `find_moves`
    seen: wp.array2d[wp.uint64]  # hashes of the positions since the last progress
    idle: wp.array[wp.int32]  # moves since then
    number: wp.array[wp.int32]  # of white's moves, from 1
    ending: wp.array[wp.int32]
    result: wp.array2d[wp.float32]
    mover: wp.array[wp.int32]
    illegal: wp.array[wp.bool]
    finished: wp.array[wp.bool]
    starts: wp.array2d[wp.uint64]  # shared: see `as_words`
    history: int


@wp.func_native(cpp(__file__, "fill"))
def fill(cells: wp.array4d[wp.uint8], row: int, agent: int, plane: int, bits: wp.uint64):
    """Writes a plane, row by row from the top; its cells are contiguous."""
    for y in range(8):
        for x in range(8):
            cells[row, agent, plane, 8 * (7 - y) + x] = wp.uint8((bits >> wp.uint64(8 * y + x)) & wp.uint64(1))


@wp.func_native(cpp(__file__, "clear"))
def clear(mask: wp.array3d[wp.bool], row: int, agent: int):
    """Allows no action."""
    for i in range(mask.shape[2]):
        mask[row, agent, i] = False


@wp.func
def mixed(z: wp.uint64) -> wp.uint64:
    """Returns SplitMix64's output function of a number."""
    z = (z ^ (z >> wp.uint64(30))) * wp.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> wp.uint64(27))) * wp.uint64(0x94D049BB133111EB)
    return z ^ (z >> wp.uint64(31))


@wp.func
def hash_of(board: Board, rules: int) -> wp.uint64:
    result = wp.uint64(rules + 1)
    for i in range(4):
        result = mixed((result + wp.uint64(0x9E3779B97F4A7C15)) ^ board[i])
    return result


@wp.func
def is_dead(board: Board) -> wp.bool:
    """Returns whether neither has what it takes to mate: a knight at most, or bishops that are all of one colour."""
    bishops, knights = board[1] & board[2], wp.bit_count(of_kind(board, m.KNIGHT))
    if ((board[3] & ~board[2]) | of_kind(board, PAWN)) != NOTHING:  # rooks, queens, pawns
        return wp.bool(False)
    if bishops == NOTHING:
        return knights <= 1
    return knights == 0 and ((bishops & DARK) == NOTHING or (bishops & ~DARK) == NOTHING)


@wp.func
def assess(state: State, env: int, player: int):
    """Finds the moves of the player who is next, and whether the game has ended."""
    board, castling = state.positions[env, 0], state.castling[env]
    seen_by = board
    if player == 1:
        seen_by = from_other_side(board)
    pawn = int(state.passant[env] & wp.uint64(31)) - 1 - 8 * (1 - player)
    behind = wp.uint64(0)
    if pawn >= 0:
        behind = ONE << wp.uint64(40 + pawn % 8)
    own = castling >> (2 * player)
    flags = m.find_moves(state.allowed, env, seen_by, (own & 1) != 0, (own & 2) != 0, behind)

    rules = castling + 16 * player
    if (flags & m.EN_PASSANT) != 0:
        rules += 32 * (1 + pawn % 8)
    position = hash_of(board, rules)
    last = state.idle[env]
    times = int(1)
    earlier = last - 4
    while earlier >= 0:
        if state.seen[env, earlier] == position:
            times += 1
        earlier -= 2
    state.seen[env, last] = position
    if times > 1:
        state.repeated[env] = state.repeated[env] | wp.uint32(1)

    ending = int(0)
    if (flags & m.CAN_MOVE) == 0 and (flags & m.IN_CHECK) != 0:
        ending = CHECKMATE
    elif is_dead(board):
        ending = DEAD
    elif (flags & m.CAN_MOVE) == 0:
        ending = STALEMATE
    elif last >= NO_PROGRESS:
        ending = UNPROGRESSIVE
    elif times > 2:
        ending = THREEFOLD
    state.ending[env] = ending


@wp.func
def set_up(state: State, env: int, agent: int, streams: AgentStreams):
    begin(state, env, agent)
    if agent == 0:
        start = env % state.starts.shape[0]
        for i in range(1, POSITIONS):
            state.positions[env, i] = Board()
        for i in range(4):
            state.positions[env, 0][i] = state.starts[start, i]
        state.castling[env] = int(state.starts[start, 4])
        state.passant[env] = state.starts[start, 5]
        state.idle[env] = int(state.starts[start, 6])
        state.number[env] = int(state.starts[start, 7])
        state.mover[env] = int(state.starts[start, 8])
        state.repeated[env] = wp.uint32(0)
        for i in range(state.seen.shape[1]):
            state.seen[env, i] = NOTHING
        assess(state, env, state.mover[env])


@wp.func
def put(board: Board, cells: wp.uint64, kind: int) -> Board:
    """Returns the board with an own piece on these cells, or none if its kind is 0."""
    for i in range(4):
        board[i] = board[i] & ~cells
    if kind > 0:
        board[0] = board[0] | cells
    for bit in range(3):
        if ((kind >> bit) & 1) != 0:
            board[bit + 1] = board[bit + 1] | cells
    return board


@wp.func
def kind_at(board: Board, cell: wp.uint64) -> int:
    kind = int(0)
    for bit in range(3):
        if (board[bit + 1] & cell) != NOTHING:
            kind += 1 << bit
    return kind


@wp.func
def move(state: State, env: int, player: int, way: int, origin: int):
    """Makes an allowed move: a piece leaves its cell, both as the player sees them, in one of 73 ways."""
    board = state.positions[env, 0]
    if player == 1:
        board = from_other_side(board)
    step = wp.vec2i(0, 1)
    far, promotion = int(1), int(m.QUEEN)
    if way < m.JUMPS:
        step = m.step_of(way % 8)
        far += way / 8
    elif way < m.UNDERPROMOTIONS:
        step = m.jump_of(way - m.JUMPS)
    else:
        step[0] = (way - m.UNDERPROMOTIONS) / 3 - 1
        promotion = m.KNIGHT + (way - m.UNDERPROMOTIONS) % 3
    target = (origin + far * (8 * step[1] + step[0])) & 63  # a cell, also where a loaded state allows what cannot be
    start, goal = ONE << wp.uint64(origin), ONE << wp.uint64(target)
    kind, captures = kind_at(board, start), (occupied(board) & goal) != NOTHING
    passant = wp.uint64(0)

    board = put(board, start, 0)
    if kind == PAWN:
        if step[0] != 0 and not captures:
            board = put(board, goal >> wp.uint64(8), 0)  # en passant
        if far == 2:
            passant = wp.uint64(1 + target % 8 + 8 * player)
    if kind == m.KING and far == 2:
        board = put(board, ONE << wp.uint64(wp.where(step[0] > 0, 7, 0)), 0)
        board = put(board, ONE << wp.uint64(wp.where(step[0] > 0, 5, 3)), m.ROOK)
    board = put(board, goal, wp.where(kind == PAWN and target >= 56, promotion, kind))

    touched = start | goal
    if player == 1:
        touched = m.upside_down(touched)
        board = from_other_side(board)
    for right in range(4):
        homes = wp.where(right % 2 == 0, SHORT_HOMES, LONG_HOMES) << wp.uint64(56 * (right // 2))
        if (touched & homes) != NOTHING:
            state.castling[env] = state.castling[env] & ~(1 << right)
    state.idle[env] = wp.where(kind == PAWN or captures, 0, wp.min(state.idle[env] + 1, NO_PROGRESS))
    state.number[env] = state.number[env] + player
    for age in range(POSITIONS - 1, 0, -1):
        state.positions[env, age] = state.positions[env, age - 1]
    state.positions[env, 0] = board
    state.passant[env] = (state.passant[env] << wp.uint64(8)) | passant
    state.repeated[env] = state.repeated[env] << wp.uint32(1)


@wp.func
def place(state: State, env: int, agent: int, actions: wp.array2d[wp.int64], row: int, streams: AgentStreams):
    if agent == state.mover[env]:
        action = int(actions[row, agent])
        way, cell = action % WAYS, action / WAYS
        origin = 8 * (cell % 8) + cell / 8
        if state.ending[env] != 0:  # a start without a move
            state.illegal[env] = state.ending[env] == CHECKMATE
        else:
            state.illegal[env] = ((state.allowed[env, way] >> wp.uint64(origin)) & ONE) == NOTHING
            if not state.illegal[env]:
                move(state, env, agent, way, origin)
                assess(state, env, 1 - agent)


@wp.func
def judge(state: State, env: int, agent: int, actions: wp.array2d[wp.int64], row: int, streams: AgentStreams):
    end(state, env, agent, state.ending[env] != 0, wp.where(state.ending[env] == CHECKMATE, 1.0, 0.0))


@wp.func
def show_position(state: State, env: int, agent: int, view: View, row: int, age: int):
    """Writes the planes of the position that was there ``age`` moves ago."""
    board = state.positions[env, age]
    if agent == 1:
        board = from_other_side(board)
    own_pawns, pawns = board[0] & of_kind(board, PAWN), ~board[0] & of_kind(board, PAWN)
    passant = int((state.passant[env] >> wp.uint64(8 * age)) & wp.uint64(31)) - 1
    if passant >= 0:
        column = ONE << wp.uint64(passant % 8)
        if passant / 8 == agent:
            own_pawns = (own_pawns & ~(column << wp.uint64(24))) | column
        else:
            pawns = (pawns & ~(column << wp.uint64(32))) | (column << wp.uint64(56))
    plane = age * PLANES
    fill(view.obs, row, agent, plane, own_pawns)
    fill(view.obs, row, agent, plane + KINDS, pawns)
    kind = int(m.KNIGHT)
    while kind <= KINDS:
        cells = of_kind(board, kind)
        fill(view.obs, row, agent, plane + kind - 1, cells & board[0])
        fill(view.obs, row, agent, plane + KINDS + kind - 1, cells & ~board[0])
        kind += 1
    repeated = (state.repeated[env] >> wp.uint32(age)) & wp.uint32(1)
    fill(view.obs, row, agent, plane + 2 * KINDS, wp.where(repeated != wp.uint32(0), ALL, NOTHING))


@wp.func
def observe(state: State, env: int, agent: int, view: View, row: int):
    for age in range(state.history):
        show_position(state, env, agent, view, row, age)
    plane = state.history * PLANES
    castling = state.castling[env]
    for right in range(4):
        has = ((castling >> ((right + 2 * agent) % 4)) & 1) != 0
        fill(view.obs, row, agent, plane + right, wp.where(has, ALL, NOTHING))
    fill(view.obs, row, agent, plane + 4, wp.where(agent == 1, ALL, NOTHING))
    fill(view.obs, row, agent, plane + 5, ONE << wp.uint64(state.idle[env] / 2))
    show_turn(state, env, agent, view, row, plane + 6)

    clear(view.action_mask, row, agent)
    if state.mover[env] == agent and not state.finished[env] and state.ending[env] == 0:
        way = int(0)
        while way < WAYS:
            cells = state.allowed[env, way]
            while cells != NOTHING:
                cell = int(wp.bit_count((cells & (~cells + ONE)) - ONE))
                view.action_mask[row, agent, (cell % 8 * 8 + cell / 8) * WAYS + way] = True
                cells = cells & (cells - ONE)
            way += 1
    else:
        view.action_mask[row, agent, 0] = True


_TASK = two_player_task(
    "Chess",
    State,
    place,
    {"reset": (set_up,), "judge": judge, "observe": observe, "render": render},
    planes(POSITIONS * int(PLANES) + RULES, 8, 8),
    ACTIONS,
    options={
        "fen": Checked(START, check=canonical, wanted="a position in Forsyth-Edwards notation, or several"),
        "history": Option(POSITIONS, 1, POSITIONS),
    },
    shapes={"positions": (POSITIONS,), "allowed": (WAYS,), "seen": (int(NO_PROGRESS) + 1,), "result": (PLAYERS,)},
    bounds={"castling": (0, 15), "idle": (0, NO_PROGRESS), "number": (1, MOST_MOVES), "ending": (0, THREEFOLD)}
    | {"result": (-1, 1), "mover": (0, 1)},
)


@functools.lru_cache(maxsize=32)
def _env(fens: tuple[str, ...]) -> Any:
    starts = np.array([as_words(fen) for fen in fens], np.uint64)
    return replace(_TASK.env, tables={"starts": starts})


def _agents(options: Mapping[str, Any]) -> tuple[AgentType, ...]:
    player = _TASK.agents[0]
    return (replace(player, observation=planes(options["history"] * int(PLANES) + RULES, 8, 8)),)


TASKS = {"Chess-v1": replace(_TASK, env=lambda options: _env(options["fen"]), agents=_agents)}
