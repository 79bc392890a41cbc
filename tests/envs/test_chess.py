"""Chess beside python-chess and PettingZoo: the same moves, positions, ends and their reasons; and numbers of games.

The numbers of moves after so many are those that chessprogramming.org lists ("Perft Results").
"""

# pyright: reportMissingImports=false

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

chess: Any = pytest.importorskip("chess")

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
ENDINGS = {
    chess.Termination.CHECKMATE: ours.CHECKMATE,
    chess.Termination.INSUFFICIENT_MATERIAL: ours.DEAD,
    chess.Termination.STALEMATE: ours.STALEMATE,
    chess.Termination.FIFTY_MOVES: ours.UNPROGRESSIVE,
    chess.Termination.THREEFOLD_REPETITION: ours.THREEFOLD,
}


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
