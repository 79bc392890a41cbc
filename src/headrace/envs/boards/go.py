"""Go on 9 × 9 and 19 × 19 cells by the Tromp-Taylor rules, but suicide is not allowed.

An action is a cell, row by row from the top, or the last one to pass. A move must not bring back an earlier position of
the stones (positional superko). The game ends after two passes in a row, or after twice as many moves as there are
cells. The first player wins if its area, stones and the free cells that only they reach, is larger than the other's by
more than ``komi``.

Cells are bits of a vector of integers, row after row, with a free bit after each row so that shifts do not lead from
one row into the next. What a mask needs is known for whole sets of cells: a free cell is allowed if it is next to a
free one, to a chain of one's own that has two liberties, or to one of the other's in atari, which has only one. So each
move finds anew only the chains that it touches. Earlier positions are known by a hash (Zobrist's), and are looked up
only for cells where a stone of the player has been captured: no other move can repeat a position.
"""

# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false
# pyright: reportInvalidTypeForm=false, reportAttributeAccessIssue=false

from collections.abc import Mapping
from typing import Any

import numpy as np
import warp as wp

from headrace.envs.boards.common import PLAYERS, View, begin, draw_board, end, planes, show_turn, two_player_task
from headrace.pool.executors.kernels import AgentStreams
from headrace.pool.options import decimal

ONE = wp.constant(wp.uint64(1))
NOTHING = wp.constant(wp.uint64(0))
LAST_BIT = wp.constant(wp.uint64(63))
WORD = wp.constant(wp.uint64(64))
FIRST_BIT = wp.constant(wp.uint32(1))
KOMI = 7.5


@wp.func
def with_bit(cells: Any, bit: int):
    """Returns these cells and one more."""
    result = type(cells)()
    for i in range(len(cells)):
        result[i] = cells[i]
    result[bit / 64] = result[bit / 64] | (ONE << wp.uint64(bit % 64))
    return result


@wp.func
def without(a: Any, b: Any):
    result = type(a)()
    for i in range(len(a)):
        result[i] = a[i] & ~b[i]
    return result


@wp.func
def count(cells: Any) -> int:
    total = int(0)
    for i in range(len(cells)):
        total += wp.bit_count(cells[i])
    return total


@wp.func
def first(cells: Any) -> int:
    """Returns the first of these cells' bits, or -1 if there is none."""
    found = int(-1)
    for i in range(len(cells)):
        word = cells[i]
        if found < 0 and word != NOTHING:
            found = 64 * i + int(wp.bit_count((word & (~word + ONE)) - ONE))
    return found


@wp.func
def beside(cells: Any, size: int):
    """Returns the cells next to these; and bits outside of the board."""
    down = wp.uint64(size + 1)
    up = WORD - down
    result = type(cells)()
    for i in range(len(cells)):
        word = cells[i]
        near = (word << ONE) | (word >> ONE) | (word << down) | (word >> down)
        if i > 0:
            near = near | (cells[i - 1] >> LAST_BIT) | (cells[i - 1] >> up)
        if i < len(cells) - 1:
            near = near | (cells[i + 1] << LAST_BIT) | (cells[i + 1] << up)
        result[i] = near
    return result


@wp.func
def line_of(cells: Any, y: int, size: int) -> wp.uint32:
    """Returns the bits of a row, and of what follows."""
    at = y * (size + 1)
    shift = wp.uint64(at % 64)
    line = cells[at / 64] >> shift
    if at % 64 + size > 64:
        line = line | (cells[at / 64 + 1] << (WORD - shift))
    return wp.uint32(line)


@wp.func
def chains(start: Any, stones: Any, size: int):
    """Returns those of the stones that are connected to some of ``start``."""
    found = wp.bit_and(start, stones)
    grows = wp.bool(True)
    while grows:
        grows = False
        near = beside(found, size)
        for i in range(len(stones)):
            more = found[i] | (near[i] & stones[i])
            grows = grows or more != found[i]
            found[i] = more
    return found


@wp.func
def key(bit: int, player: int) -> wp.uint64:
    """Returns a player's stone's part of the hash of a position: SplitMix64's number at this place."""
    z = wp.uint64(2 * bit + player + 1) * wp.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> wp.uint64(30))) * wp.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> wp.uint64(27))) * wp.uint64(0x94D049BB133111EB)
    return z ^ (z >> wp.uint64(31))


@wp.func
def keys(cells: Any, player: int) -> wp.uint64:
    result = wp.uint64(0)
    for i in range(len(cells)):
        word = cells[i]
        while word != NOTHING:
            result = result ^ key(64 * i + int(wp.bit_count((word & (~word + ONE)) - ONE)), player)
            word = word & (word - ONE)
    return result


@wp.func
def slot_of(state: Any, env: int, position: wp.uint64) -> int:
    """Returns where a position is among the earlier ones, or the free slot where it would be."""
    slots = state.seen.shape[1]
    slot = int(position >> wp.uint64(40)) % slots
    while state.seen[env, slot] != NOTHING and state.seen[env, slot] != position:
        slot = (slot + 1) % slots
    return slot


@wp.func
def clear(state: Any, env: int, agent: int, nothing: Any):
    state.stones[env, agent] = nothing
    state.atari[env, agent] = nothing
    state.lost[env, agent] = nothing
    begin(state, env, agent)
    if agent == 0:
        board = type(nothing)()
        for y in range(state.size):
            for x in range(state.size):
                board = with_bit(board, y * (state.size + 1) + x)
        state.free[env] = board
        state.allowed[env] = board
        state.barred[env] = nothing
        state.position[env] = NOTHING
        state.moves[env] = 0
        state.passes[env] = 0
        for slot in range(state.seen.shape[1]):
            state.seen[env, slot] = NOTHING


@wp.func
def put(state: Any, env: int, player: int, bit: int):
    """Puts a stone on the board, and takes those away that it captures."""
    other = 1 - player
    size = state.size
    mine = with_bit(state.stones[env, player], bit)
    stone = with_bit(type(mine)(), bit)
    near = beside(stone, size)
    captured = chains(near, state.atari[env, other], size)
    theirs = without(state.stones[env, other], captured)
    free = wp.bit_or(without(state.free[env], stone), captured)

    chain = chains(stone, mine, size)
    saved = chains(beside(captured, size), state.atari[env, player], size)
    state.atari[env, player] = without(without(state.atari[env, player], chain), saved)
    if count(wp.bit_and(beside(chain, size), free)) == 1:
        state.atari[env, player] = wp.bit_or(state.atari[env, player], chain)
    threatened = without(state.atari[env, other], captured)
    left = wp.bit_and(near, theirs)
    at = first(left)
    while at >= 0:
        chain = chains(with_bit(type(mine)(), at), theirs, size)
        if count(wp.bit_and(beside(chain, size), free)) == 1:
            threatened = wp.bit_or(threatened, chain)
        left = without(left, chain)
        at = first(left)
    state.atari[env, other] = threatened

    state.stones[env, player] = mine
    state.stones[env, other] = theirs
    state.lost[env, other] = wp.bit_or(state.lost[env, other], captured)
    state.free[env] = free
    position = state.position[env] ^ key(bit, player) ^ keys(captured, other)
    state.position[env] = position
    state.seen[env, slot_of(state, env, position)] = position


@wp.func
def find_moves(state: Any, env: int, player: int):
    """Notes which cells a player may take, and which it may not because of an earlier position."""
    size = state.size
    other = 1 - player
    threatened = state.atari[env, other]
    safe = without(state.stones[env, player], state.atari[env, player])
    moves = wp.bit_and(beside(wp.bit_or(wp.bit_or(state.free[env], safe), threatened), size), state.free[env])
    barred = type(moves)()
    suspects = wp.bit_and(moves, state.lost[env, player])
    at = first(suspects)
    while at >= 0:
        stone = with_bit(type(moves)(), at)
        captured = chains(beside(stone, size), threatened, size)
        position = state.position[env] ^ key(at, player) ^ keys(captured, other)
        if state.seen[env, slot_of(state, env, position)] == position:
            barred = with_bit(barred, at)
        suspects = without(suspects, stone)
        at = first(suspects)
    state.allowed[env] = without(moves, barred)
    state.barred[env] = barred


@wp.func
def place(state: Any, env: int, agent: int, actions: wp.array2d[wp.int64], row: int, streams: AgentStreams):
    if agent == state.mover[env]:
        action = int(actions[row, agent])
        state.moves[env] = state.moves[env] + 1
        if action == state.size * state.size:
            state.illegal[env] = False
            state.passes[env] = state.passes[env] + 1
        else:
            bit = action / state.size * (state.size + 1) + action % state.size
            state.illegal[env] = ((state.allowed[env][bit / 64] >> wp.uint64(bit % 64)) & ONE) == NOTHING
            state.passes[env] = 0
            if not state.illegal[env]:
                put(state, env, agent, bit)
        find_moves(state, env, 1 - agent)


@wp.func
def judge(state: Any, env: int, agent: int, actions: wp.array2d[wp.int64], row: int, streams: AgentStreams):
    mover = state.mover[env]
    finished = state.passes[env] >= 2 or state.moves[env] >= 2 * state.size * state.size
    lead = float(0.0)
    if finished:
        free = state.free[env]
        mine = chains(beside(state.stones[env, 0], state.size), free, state.size)
        theirs = chains(beside(state.stones[env, 1], state.size), free, state.size)
        areas = count(state.stones[env, 0]) - count(state.stones[env, 1])
        areas += count(without(mine, theirs)) - count(without(theirs, mine))
        lead = float(areas) - state.komi
    score = wp.where(lead > 0.0, 1.0, wp.where(lead < 0.0, -1.0, 0.0))
    end(state, env, agent, finished, wp.where(mover == 0, score, -score))


@wp.func
def observe(state: Any, env: int, agent: int, view: View, row: int):
    size = state.size
    mine, theirs = state.stones[env, agent], state.stones[env, 1 - agent]
    barred, allowed = state.barred[env], state.allowed[env]
    moves = state.mover[env] == agent and not state.finished[env]
    for y in range(size):
        own, other, kept = line_of(mine, y, size), line_of(theirs, y, size), line_of(barred, y, size)
        open = wp.where(moves, line_of(allowed, y, size), wp.uint32(0))
        for x in range(size):
            cell = y * size + x
            shift = wp.uint32(x)
            view.obs[row, agent, 0, cell] = wp.uint8((own >> shift) & FIRST_BIT)
            view.obs[row, agent, 1, cell] = wp.uint8((other >> shift) & FIRST_BIT)
            view.obs[row, agent, 2, cell] = wp.uint8((kept >> shift) & FIRST_BIT)
            view.obs[row, agent, 3, cell] = wp.uint8(agent)
            view.action_mask[row, agent, cell] = ((open >> shift) & FIRST_BIT) != wp.uint32(0)
    view.action_mask[row, agent, size * size] = True
    show_turn(state, env, agent, view, row, 4)


def render(state: Mapping[str, Any]) -> np.ndarray:
    size = state["size"]
    owner = np.full((size, size), -1)
    for player, words in enumerate(state["stones"]):
        bits = sum(int(word) << 64 * i for i, word in enumerate(words))
        for y, x in np.ndindex(size, size):
            if bits >> y * (size + 1) + x & 1:
                owner[y, x] = player
    return draw_board(owner)


def _task(name: str, size: int) -> Any:
    cells = size * size
    board = wp.types.vector(-(-(cells + size) // 64), wp.uint64)
    slots = 1 << (2 * cells).bit_length()  # more than positions of a game

    @wp.struct
    class State:
        stones: wp.array2d[board]
        atari: wp.array2d[board]  # stones of chains with a single liberty
        lost: wp.array2d[board]  # cells where a player's stone has been captured
        free: wp.array[board]
        allowed: wp.array[board]
        barred: wp.array[board]
        position: wp.array[wp.uint64]
        seen: wp.array2d[wp.uint64]  # earlier positions: a hash table
        moves: wp.array[wp.int32]
        passes: wp.array[wp.int32]
        result: wp.array2d[wp.float32]
        mover: wp.array[wp.int32]
        illegal: wp.array[wp.bool]
        finished: wp.array[wp.bool]
        size: int
        komi: wp.float32

    @wp.func
    def reset(state: State, env: int, agent: int, streams: AgentStreams):
        clear(state, env, agent, board())

    return two_player_task(
        name,
        State,
        place,
        {"reset": (reset,), "judge": judge, "observe": observe, "render": render},
        planes(5, size, size),
        cells + 1,
        options={"komi": decimal(KOMI)},
        shapes=dict.fromkeys(("stones", "atari", "lost", "result"), (PLAYERS,)) | {"seen": (slots,)},
        constants={"size": size},
        bounds={"result": (-1, 1), "mover": (0, 1), "moves": (0, 2 * cells), "passes": (0, 2)},
    )


TASKS = {"Go9x9-v0": _task("Go9x9", 9), "Go19x19-v0": _task("Go19x19", 19)}
