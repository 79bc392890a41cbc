"""Games on boards and with cards beside OpenSpiel's: the same boards, allowed moves and results after every move."""

# pyright: reportAttributeAccessIssue=false, reportMissingImports=false

import re

import numpy as np
import pytest
from kernel_states import arrays_of

import headrace
from headrace.envs.boards import TASKS

pyspiel = pytest.importorskip("pyspiel")

OFFICIAL = {
    "ConnectFour-v0": "connect_four",
    "Hex-v0": "hex",
    "KuhnPoker-v0": "kuhn_poker",
    "LeducPoker-v0": "leduc_poker",
    "Othello-v0": "othello",
    "TicTacToe-v0": "tic_tac_toe",
}
BOARDS = ["ConnectFour-v0", "Hex-v0", "Othello-v0", "TicTacToe-v0"]
FIRST, SECOND = "xyzX", "opqO"


def waiting(task):
    """The one action of a player who waits."""
    return 64 if task == "Othello-v0" else 0


def board_of(state, shape):
    """Whose piece is on each cell of OpenSpiel's board, which it writes with letters; -1 for nobody's."""
    lines = [re.sub(r"[^xyzXopqO.\-]", "", line) for line in str(state).splitlines()]
    cells = "".join(line for line in lines if len(line) == shape[1])
    owner = [0 if c in FIRST else 1 if c in SECOND else -1 for c in cells]
    return np.array(owner).reshape(shape)


def with_cards(state, task, pool, i):
    """OpenSpiel's state, after chance has given what it gave in ours."""
    arrays = arrays_of(pool)
    while state.is_chance_node():
        dealt = len(state.history())
        card = int(arrays["card"][i, dealt] if dealt < 2 else arrays["common_card"][i])
        state.apply_action(card if task == "KuhnPoker-v0" else card % 3 * 2 + card // 3)
    return state


@pytest.mark.parametrize("task", OFFICIAL)
def test_random_games_equal_those_of_openspiel(task):
    rng = np.random.default_rng(0)
    game, n, ended = pyspiel.load_game(OFFICIAL[task]), 16, 0
    with headrace.make(task, num_envs=n, seed=1, autoreset="disabled") as pool:
        obs, info = pool.reset()
        states = [with_cards(game.new_initial_state(), task, pool, i) for i in range(n)]
        for _ in range(150):
            actions = np.full((n, 2), waiting(task))
            for i, state in enumerate(states):
                mover, legal = state.current_player(), state.legal_actions()
                assert np.flatnonzero(info["action_mask"][i, mover]).tolist() == legal
                assert np.flatnonzero(info["action_mask"][i, 1 - mover]).tolist() == [waiting(task)]
                actions[i, mover] = rng.choice(legal)
                state.apply_action(int(actions[i, mover]))
                with_cards(state, task, pool, i)
            obs, reward, terminated, truncated, info = pool.step(actions)
            assert not truncated.any()
            for i, state in enumerate(states):
                assert terminated[i] == state.is_terminal()
                assert reward[i].tolist() == (state.returns() if state.is_terminal() else [0.0, 0.0])
                if task in BOARDS:
                    owner = board_of(state, obs.shape[-2:])
                    for player in range(2):
                        np.testing.assert_array_equal(obs[i, player, :2], [owner == player, owner == 1 - player])
                    turn = obs[i, :, -1].any((1, 2)).tolist()
                    assert turn == [not state.is_terminal() and state.current_player() == p for p in range(2)]
            done = np.flatnonzero(terminated)
            ended += done.size
            if done.size:
                obs_of_new, info_of_new = pool.reset(done)
                obs[done] = obs_of_new
                info["action_mask"][done] = info_of_new["action_mask"]
                for i in done:
                    states[i] = with_cards(game.new_initial_state(), task, pool, i)
    assert ended > 10


@pytest.mark.parametrize("task", [*BOARDS, "Go9x9-v0", "LeducPoker-v0"])
def test_a_move_that_is_not_allowed_loses(task):
    rng = np.random.default_rng(0)
    with headrace.make(task, seed=1, autoreset="next_step") as pool:
        obs, info = pool.reset()
        mover, mask = 0, info["action_mask"][0, 0]
        for _ in range(1000):
            mover = int(obs[0, 1].ravel()[-1])  # whether the second player is to move
            mask = info["action_mask"][0, mover]
            if not mask.all() and mask.sum() > 1:
                break
            obs, _, _, _, info = pool.step(np.full((1, 2), rng.choice(np.flatnonzero(mask))))
        obs, reward, terminated, _, _ = pool.step(np.full((1, 2), rng.choice(np.flatnonzero(~mask))))
        assert terminated[0]
        assert reward[0, mover] == -1
        assert reward[0, 1 - mover] == 1


def pushed_left(row):
    """A row of 2048 after a move to the left, and its score, by lists."""
    tiles, result, score = [tile for tile in row if tile], [], 0
    while tiles:
        tile = tiles.pop(0)
        if tiles and tiles[0] == tile:
            tile += tiles.pop(0)
            score += tile
        result.append(tile)
    return result + [0] * (len(row) - len(result)), score


def pushed(board, action):
    """A board of 2048 after a move and its score: turned until the move is one to the left, and back."""
    turns = (1, 2, 3, 0)[action]
    rows, scores = zip(*(pushed_left(row) for row in np.rot90(board, turns).tolist()), strict=True)
    return np.rot90(np.array(rows), -turns), sum(scores)


def numbers(obs):
    """The tiles of 2048, int[n, 4, 4], of its planes."""
    exponents = obs.argmax(1)
    return np.where(exponents > 0, 1 << exponents, 0)


def test_2048_is_played_by_its_rules():
    """After a move the tiles are where they must be, but for a new one in a free cell: nine of ten are a 2."""
    rng, n, ended, new = np.random.default_rng(0), 64, 0, []
    with headrace.make("Game2048-v0", num_envs=n, seed=1, autoreset="disabled") as pool:
        obs, info = pool.reset()
        assert (np.count_nonzero(numbers(obs), axis=(1, 2)) == 2).all()
        for _ in range(300):
            before, mask = numbers(obs), info["action_mask"]
            actions = (mask * rng.random(mask.shape)).argmax(1)
            obs, reward, terminated, _, info = pool.step(actions)
            assert (obs.sum(1) == 1).all()
            after = numbers(obs)
            for i in range(n):
                results = [pushed(before[i], action) for action in range(4)]
                assert mask[i].tolist() == [not np.array_equal(board, before[i]) for board, _ in results]
                board, score = results[actions[i]]
                (where,) = np.argwhere(after[i] != board)
                assert board[tuple(where)] == 0
                new.append(after[i][tuple(where)])
                assert reward[i] == score
                stuck = all(np.array_equal(pushed(after[i], action)[0], after[i]) for action in range(4))
                assert terminated[i] == stuck
            done = np.flatnonzero(terminated)
            ended += done.size
            if done.size:
                obs[done], again = pool.reset(done)
                info["action_mask"][done] = again["action_mask"]
    assert ended > 20
    assert set(new) == {2, 4}
    assert abs(np.mean(np.array(new) == 2) - 0.9) < 4 * np.sqrt(0.9 * 0.1 / len(new))


def test_every_task_has_tests_here_or_in_a_file_of_its_own():
    assert {*OFFICIAL, "Chess-v1", "Game2048-v0", "Go9x9-v0", "Go19x19-v0"} == set(TASKS)
