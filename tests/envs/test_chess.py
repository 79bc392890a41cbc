"""Chess beside python-chess and PettingZoo: the same moves, positions, ends and their reasons; and numbers of games.

The numbers of ways to play the next moves are those that chessprogramming.org lists ("Perft Results").
"""

# pyright: reportMissingImports=false

import collections
import functools
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from kernel_states import arrays_of

import headrace
import headrace.testing
from headrace.envs.boards import chess as ours
from headrace.envs.boards.chess_notation import START, fen_of, moves_of
from headrace.errors import ActionError, OptionError
from nightly import rest_nightly

chess: Any = pytest.importorskip("chess")
pettingzoo: Any = pytest.importorskip("pettingzoo.classic.chess.chess")
chess_utils: Any = pytest.importorskip("pettingzoo.classic.chess.chess_utils")

KIWIPETE = "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 1"
PERFT = [  # position → number of ways to play 1, 2, 3 … moves
    (START, [20, 400, 8902, 197281, 4865609]),
    (KIWIPETE, [48, 2039, 97862, 4085603, 193690690]),
    ("8/2p5/3p4/KP5r/1R3p1k/8/4P1P1/8 w - - 0 1", [14, 191, 2812, 43238, 674624]),
    ("r3k2r/Pppp1ppp/1b3nbN/nP6/BBP1P3/q4N2/Pp1P2PP/R2Q1RK1 w kq - 0 1", [6, 264, 9467, 422333]),
    ("r2q1rk1/pP1p2pp/Q4n2/bbp1p3/Np6/1B3NBn/pPPP1PPP/R3K2R b KQ - 0 1", [6, 264, 9467, 422333]),
    ("rnbq1k1r/pp1Pbppp/2p5/8/2B5/8/PPP1NnPP/RNBQK2R w KQ - 1 8", [44, 1486, 62379, 2103487]),
    ("r4rk1/1pp1qppp/p1np1n2/2b1p1B1/2B1P1b1/P1NP1N2/1PP1QPPP/R4RK1 w - - 0 10", [46, 2079, 89890, 3894594]),
]
SHORT = 200_000  # ways that are counted in each run, the more numerous nightly
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
        next_rows, next_actions = choices(pool, mask)
        total += count(pool, {name: array.copy() for name, array in here.items()}, next_rows, next_actions, depth - 1)
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
        pytest.param(fen, depth, number, marks=[pytest.mark.nightly] if number > SHORT else [])
        for fen, numbers in PERFT
        for depth, number in enumerate(numbers, 1)
    ],
)
def test_perft_counts_equal_the_published_numbers(fen, depth, number):
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
def test_random_games_equal_those_of_python_chess(steps):
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


def official_planes(env, player, moves):
    """A player's planes in PettingZoo's environment, in the order of ours, without the last: it is all ones there."""
    theirs = env.observe(f"player_{player}")["observation"].transpose(2, 0, 1)
    clock = theirs[5:6, :: 1 - 2 * player]  # which PettingZoo turns with the board
    return np.concatenate([theirs[7 : 7 + 13 * min(moves, 8)], theirs[:5], clock]).astype(np.uint8)


def test_observation_planes_equal_those_of_pettingzoo():
    """PettingZoo has no planes of the start position, and ends a game one move before its third repetition."""
    rng, ended, passant, repeated = np.random.default_rng(0), 0, 0, 0
    official = pettingzoo.raw_env()
    with headrace.make("Chess-v1", autoreset="disabled") as pool:
        for _ in range(12):
            _, info = pool.reset()
            official.reset()
            for moves in range(1, 300):
                mover = (moves - 1) % 2
                mask = official.observe(f"player_{mover}")["action_mask"]
                np.testing.assert_array_equal(info["action_mask"][0, mover], mask)
                action = rng.choice(np.flatnonzero(mask))
                if moves > 2 and rng.random() < 0.3:  # a piece goes back, if it may
                    name = official.board.move_stack[-2].uci()
                    action = moves_of(pool).get(name[2:4] + name[:2], action)
                obs, _, _, _, info = pool.step(np.full((1, 2), action))
                official.step(action)
                over = any(official.terminations.values())
                for player in range(2):
                    planes = np.delete(obs[0, player, :-1], slice(13 * min(moves, 8), 104), 0)
                    np.testing.assert_array_equal(planes, official_planes(official, player, moves))
                    if not over:
                        assert (obs[0, player, -1] == (player == moves % 2)).all()
                passant += bool(obs[0, :, 0, 7].any())
                repeated += bool(obs[0, 0, 12].any())
                if over:
                    ended += 1
                    break
    assert ended and passant and repeated


def test_a_shorter_history_gives_the_planes_of_the_newest_positions():
    with headrace.make("Chess-v1") as whole, headrace.make("Chess-v1", history=2) as some:
        whole.reset()
        some.reset()
        for name in ("e2e4", "e7e5", "e1e2"):
            action = np.full((1, 2), moves_of(whole)[name])
            obs, few = whole.step(action)[0], some.step(action)[0]
        assert few.shape == (1, 2, 33, 8, 8)
        np.testing.assert_array_equal(few, np.concatenate([obs[:, :, :26], obs[:, :, 104:]], 2))


def played(pool, names):
    """The pool's results of the last of these moves."""
    return [pool.step(np.full((1, 2), moves_of(pool)[name])) for name in names.split()][-1]


@pytest.mark.parametrize(
    ("fen", "names", "ending", "result"),
    [
        (START, "f2f3 e7e5 g2g4 d8h4", ours.CHECKMATE, -1),
        (START, "g1f3 g8f6 f3g1 f6g8 g1f3 g8f6 f3g1 f6g8", ours.THREEFOLD, 0),
        (START, "e2e4 g8f6 g1f3 f6g8 f3g1 g8f6 g1f3 f6g8 f3g1", ours.THREEFOLD, 0),
        ("4k3/8/8/8/8/8/8/R3K2R w KQ - 0 1", "a1a2 e8e7 a2a1 e7e8 a1a2 e8e7 a2a1 e7e8", 0, 0),
        ("4k3/8/8/8/4p3/8/3P4/4K3 w - - 0 1", "d2d4 e8e7 e1e2 e7e8 e2e1 e8e7 e1e2 e7e8 e2e1", 0, 0),
        ("4k3/8/8/8/8/8/4P3/R3K3 w Q - 98 60", "a1a2 e8e7", ours.UNPROGRESSIVE, 0),
        ("4k3/8/8/8/8/8/4P3/R3K3 w Q - 98 60", "e2e3 e8e7", 0, 0),
        ("7k/8/5K2/8/8/8/8/6R1 w - - 98 60", "g1g2 h8h7", ours.UNPROGRESSIVE, 0),
        ("7k/8/6K1/8/8/8/8/R7 w - - 99 60", "a1a8", ours.CHECKMATE, 1),
        ("7k/8/5K2/8/8/8/5Q2/8 w - - 0 1", "f2g3", 0, 0),
        ("7k/8/5K2/6Q1/8/8/8/8 w - - 0 1", "g5g6", ours.STALEMATE, 0),
        ("8/8/8/3k4/8/8/3Kp3/8 w - - 0 1", "d2e2", ours.DEAD, 0),
        ("3k4/P7/8/8/8/8/8/3K4 w - - 0 1", "a7a8n", ours.DEAD, 0),
        ("3k4/P7/8/8/8/8/8/3K4 w - - 0 1", "a7a8r", 0, 0),
    ],
)
def test_games_end_by_the_rules_of_chess(fen, names, ending, result):
    with headrace.make("Chess-v1", fen=fen, autoreset="disabled") as pool:
        pool.reset()
        _, reward, terminated, _, info = played(pool, names)
        assert pool.state_arrays(["ending"])["ending"][0] == ending
        assert terminated[0] == (ending != 0)
        assert reward[0].tolist() == [result, -result]
        if ending:
            assert np.argwhere(info["action_mask"][0]).tolist() == [[0, 0], [1, 0]]


@pytest.mark.parametrize(
    ("fen", "result"),
    [("7k/6Q1/6K1/8/8/8/8/8 b - - 0 1", 1), ("7k/5Q2/6K1/8/8/8/8/8 b - - 0 1", 0), ("7k/8/8/8/8/8/8/K7 w - - 0 1", 0)],
)
def test_a_start_position_that_is_already_over_ends_at_the_first_step(fen, result):
    with headrace.make("Chess-v1", fen=fen, autoreset="disabled") as pool:
        _, info = pool.reset()
        assert np.argwhere(info["action_mask"][0]).tolist() == [[0, 0], [1, 0]]
        assert moves_of(pool) == {}
        _, reward, terminated, _, _ = pool.step(np.zeros((1, 2), int))
        assert terminated[0]
        assert reward[0].tolist() == [result, -result]


@pytest.mark.parametrize(
    "fen",
    [
        "",
        "8/8/8/8/8/8/8/8 w - - 0 1",
        "k7/8/8/8/8/8/8/K6K w - - 0 1",
        "k7/8/8/8/8/8/K6K w - - 0 1",
        "k8/8/8/8/8/8/8/K7 w - - 0 1",
        "k6x/8/8/8/8/8/8/K7 w - - 0 1",
        "k6P/8/8/8/8/8/8/K7 w - - 0 1",
        "k7/8/8/8/8/8/8/K7 x - - 0 1",
        "k7/8/8/8/8/8/8/K7 w KQ - 0 1",
        "k7/8/8/8/8/8/8/K7 w z - 0 1",
        "k7/8/8/8/8/8/8/K7 w - e6 0 1",
        "k7/8/8/4p3/8/8/8/K7 w - e3 0 1",
        "k7/4p3/8/4p3/8/8/8/K7 w - e6 0 1",
        "k7/8/8/8/8/8/8/K7 w - - 101 1",
        "k7/8/8/8/8/8/8/K7 w - - -1 1",
        "k7/8/8/8/8/8/8/K7 w - - 0 0",
        "k7/8/8/8/8/8/8/K7 w - - 0 1 2",
        "k7/8/8/8/8/8/8/K7 w - - zero 1",
        "k7/8/8/8/8/8/8/K6r b - - 0 1",
        "kK6/8/8/8/8/8/8/8 w - - 0 1",
        "k7/1P6/8/8/8/8/8/K7 w - - 0 1",
        "k7/2N5/8/8/8/8/8/K7 w - - 0 1",
        "k7/8/2B5/8/8/8/8/K7 w - - 0 1",
        [],
        [START, ""],
        [START, 5],
        5,
        None,
    ],
)
def test_invalid_positions_are_refused(fen):
    with pytest.raises(OptionError, match="fen of Chess-v1 must be a position in Forsyth-Edwards notation"):
        headrace.make("Chess-v1", fen=fen)


@pytest.mark.parametrize("fen", [*STARTS, "r3k3/8/8/3pP3/8/8/8/4K2R w Kq d6 3 9", "k7/8/8/3pP3/8/8/8/K7 w - d6 0 1"])
def test_positions_are_written_as_they_were_read(fen):
    with headrace.make("Chess-v1", num_envs=2, fen=[START, fen]) as pool:
        pool.reset()
        assert [fen_of(pool, 0), fen_of(pool, 1)] == [START, chess.Board(fen).fen(en_passant="fen")]
    with headrace.make("Chess-v1", fen=" ".join(fen.split()[:4])) as pool:
        pool.reset()
        assert fen_of(pool).endswith(" 0 1")


def test_invalid_actions_histories_and_pools_of_other_tasks_are_refused():
    with headrace.make("Chess-v1") as pool, headrace.make("Othello-v0") as other:
        pool.reset()
        other.reset()
        for action in (-1, ours.ACTIONS):
            with pytest.raises(ActionError):
                pool.step(np.full((1, 2), action))
        for read in (fen_of, moves_of):
            with pytest.raises(OptionError):
                read(other)
    for history in (0, 9):
        with pytest.raises(OptionError, match="history"):
            headrace.make("Chess-v1", history=history)


def test_frames_show_each_piece_on_its_square():
    with headrace.make("Chess-v1", fen="4k3/8/8/8/8/8/8/R3K3 w - - 0 1") as pool:
        pool.reset()
        (frame,) = pool.render([0])
        cells = frame.reshape(8, 48, 8, 48, 3)[:, 4:44, :, 4:44]
        pieces = [(y, x) for y, x in np.ndindex(8, 8) if cells[y, :, x].std((0, 1)).any()]
        assert pieces == [(0, 4), (7, 0), (7, 4)]


COMPILED = """
import warp, sys
warp.config.kernel_cache_dir = sys.argv[1]
import headrace
headrace.make("Chess-v1").reset()
"""


@pytest.mark.nightly
def test_chess_compiles_without_a_warning(tmp_path):
    command = [sys.executable, "-c", COMPILED, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "warning" not in done.stdout + done.stderr, done.stderr
