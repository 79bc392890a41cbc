"""Chess beside python-chess and PettingZoo: the same moves, positions, ends and their reasons; and numbers of games.

The numbers of moves after so many are those that chessprogramming.org lists ("Perft Results").
"""

# pyright: reportMissingImports=false

import collections
import functools
import re
from typing import Any

import numpy as np
import pytest
from kernel_states import arrays_of

import headrace
import headrace.testing
from headrace.envs.boards import chess as ours
from headrace.envs.boards.chess_notation import START, fen_of, moves_of
from headrace.errors import OptionError, StateError
from nightly import rest_nightly

chess: Any = pytest.importorskip("chess")
chess_utils: Any = pytest.importorskip("pettingzoo.classic.chess.chess_utils")

KIWIPETE = "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 1"
PERFT = [  # position → number of ways to play 1, 2, 3 … moves
    (START, [20, 400, 8902, 197281, 4865609]),
    (KIWIPETE, [48, 2039, 97862, 4085603]),
    ("8/2p5/3p4/KP5r/1R3p1k/8/4P1P1/8 w - - 0 1", [14, 191, 2812, 43238, 674624]),
    ("r3k2r/Pppp1ppp/1b3nbN/nP6/BBP1P3/q4N2/Pp1P2PP/R2Q1RK1 w kq - 0 1", [6, 264, 9467, 422333]),
    ("r2q1rk1/pP1p2pp/Q4n2/bbp1p3/Np6/1B3NBn/pPPP1PPP/R3K2R b KQ - 0 1", [6, 264, 9467, 422333]),
    ("rnbq1k1r/pp1Pbppp/2p5/8/2B5/8/PPP1NnPP/RNBQK2R w KQ - 1 8", [44, 1486, 62379, 2103487]),
    ("r4rk1/1pp1qppp/p1np1n2/2b1p1B1/2B1P1b1/P1NP1N2/1PP1QPPP/R4RK1 w - - 0 10", [46, 2079, 89890, 3894594]),
]
SHORT = 100_000  # ways that are counted in each run, the longer ones nightly
ENDGAMES = [
    "8/8/8/3k4/8/3K4/4P3/8 w - - 0 1",
    "8/5k2/8/2b5/8/8/3KB3/8 b - - 90 80",
    "4k3/8/8/8/8/8/8/R3K2R w KQ - 0 1",
    "7k/5Q2/8/8/8/8/8/K7 w - - 0 1",
    "r3k3/1P6/8/8/8/8/6p1/4K2R w Kq - 0 1",
]
STARTS = [START, *(fen for fen, _ in PERFT), *ENDGAMES]


def choices(pool, mask):
    """The allowed actions of the players to move: environment, action of each."""
    movers = arrays_of(pool)["mover"]
    return np.nonzero(mask[np.arange(len(movers)), movers])


def count(pool, states, rows, actions, depth):
    """The number of ways to play on from these states with the rows' actions, ``depth`` moves in all."""
    if depth == 1:
        return len(actions)
    total, n, here = 0, pool.num_envs, arrays_of(pool)
    for first in range(0, len(actions), n):
        chosen, given = rows[first : first + n], actions[first : first + n]
        k = len(chosen)
        for name, array in here.items():
            array[:k] = states[name][chosen]
        _, _, terminated, _, info = pool.step(np.repeat(given[:, None], 2, 1), np.arange(k))
        mask = np.zeros((n, 2, ours.ACTIONS), bool)
        mask[:k] = info["action_mask"] & ~terminated[:, None, None]  # where a game has ended is the next one's start
        total += count(pool, {name: array.copy() for name, array in here.items()}, *choices(pool, mask), depth - 1)
    return total


def perft(fen, depth):
    with headrace.make("Chess-v1", num_envs=1024, fen=fen, autoreset="same_step") as pool:
        _, info = pool.reset()
        rows, actions = choices(pool, info["action_mask"])
        states = {name: array.copy() for name, array in arrays_of(pool).items()}
        return count(pool, states, rows[rows == 0], actions[rows == 0], depth)


@pytest.mark.parametrize(
    ("fen", "depth", "number"),
    [
        pytest.param(fen, depth, number, marks=[pytest.mark.nightly] if number > SHORT and fen != START else [])
        for fen, numbers in PERFT
        for depth, number in enumerate(numbers, 1)
    ],
)
def test_as_many_ways_to_play_on_as_are_known(fen, depth, number):
    assert perft(fen, depth) == number


@functools.cache
def action_of(move, black):
    """PettingZoo's number of a move, without the queen that a pawn becomes."""
    move = chess_utils.mirror_move(move) if black else move
    column, row = chess_utils.move_to_coord(move)
    return (8 * column + row) * 73 + chess_utils.get_move_plane(move)


def ending_of(board, legal):
    """Why a game of python-chess has ended, 0 if it goes on."""
    if not legal and board.is_check():
        return ours.CHECKMATE
    if board.is_insufficient_material():
        return ours.DEAD
    if not legal:
        return ours.STALEMATE
    return ours.UNPROGRESSIVE if board.halfmove_clock >= 100 else ours.THREEFOLD if board.is_repetition(3) else 0


@pytest.mark.parametrize("steps", rest_nightly([400, 8000], 400))
def test_random_games_are_those_of_python_chess(steps):
    rng, n, endings = np.random.default_rng(steps), 64, collections.Counter()
    fens = [chess.Board(fen).fen() for fen in STARTS]
    with headrace.make("Chess-v1", num_envs=n, autoreset="disabled", fen=fens) as pool:
        _, info = pool.reset()
        mask = info["action_mask"]
        boards = [chess.Board(fens[i % len(fens)]) for i in range(n)]
        for step in range(steps):
            actions = np.zeros((n, 2), int)
            for i, board in enumerate(boards):
                black = not board.turn
                legal = {action_of(move, black): move for move in board.legal_moves}
                assert np.flatnonzero(mask[i, int(black)]).tolist() == sorted(legal), board.fen()
                assert np.flatnonzero(mask[i, int(not black)]).tolist() == [0]
                actions[i, int(black)] = action = rng.choice(list(legal))
                board.push(legal[action])
            _, reward, terminated, truncated, info = pool.step(actions)
            assert not truncated.any()
            mask, found = info["action_mask"], pool.state_arrays(["ending"])["ending"]
            for i, board in enumerate(boards):
                ending = ending_of(board, any(board.legal_moves))
                assert found[i] == ending, board.fen()
                assert terminated[i] == (ending != 0)
                won = 1 if ending == ours.CHECKMATE else 0
                assert reward[i].tolist() == ([-won, won] if board.turn else [won, -won])
            i = step % n
            assert fen_of(pool, i) == boards[i].fen(en_passant="fen")
            assert set(moves_of(pool, i)) == ({move.uci() for move in boards[i].legal_moves} if not found[i] else set())
            endings.update(found.tolist())
            done = np.flatnonzero(terminated)
            if done.size:
                mask[done] = pool.reset(done)[1]["action_mask"]
                for i in done:
                    boards[i] = chess.Board(fens[i % len(fens)])
    assert all(endings[ending] for ending in range(1, 6)), endings
