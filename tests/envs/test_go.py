"""Go beside OpenSpiel's: the same boards, allowed moves, ends and winners of random games.

OpenSpiel forbids only to take a ko back at once, and ends the game as a draw when a position returns in another way;
such moves are not allowed here. Its rows count from the bottom.
"""

# pyright: reportAttributeAccessIssue=false, reportMissingImports=false

import numpy as np
import pytest

import headrace

pyspiel = pytest.importorskip("pyspiel")


def board_of(state, size):
    """Whose stone is on each cell of OpenSpiel's board; -1 for nobody's."""
    rows = [line[-size:] for line in str(state).splitlines()[2 : 2 + size]]
    return np.array([[{"X": 0, "O": 1, "+": -1}[c] for c in row] for row in rows[::-1]])


def repeats(state, action):
    """Whether OpenSpiel calls the game a draw after this action, for a position returns."""
    after = state.clone()
    after.apply_action(int(action))
    return after.is_terminal() and after.returns() == [0.0, 0.0]


def returning(state, mask, barred):
    """How many moves OpenSpiel allows that are not allowed here: only those that repeat a position."""
    legal, allowed = set(state.legal_actions()), set(np.flatnonzero(mask).tolist())
    assert allowed <= legal
    assert not (mask[:-1] & (barred != 0)).any()
    for action in legal - allowed:
        assert repeats(state, action)
        assert barred[action]
    return len(legal - allowed)


def assert_same(state, obs, reward, terminated):
    size = obs.shape[-1]
    assert terminated == state.is_terminal()
    assert reward.tolist() == (state.returns() if state.is_terminal() else [0.0, 0.0])
    owner = board_of(state, size)
    for player in range(2):
        np.testing.assert_array_equal(obs[player, :2], [owner == player, owner == 1 - player])
        assert (obs[player, 3] == player).all()
        assert (obs[player, 4] == (not state.is_terminal() and state.current_player() == player)).all()


@pytest.mark.parametrize(("size", "n", "steps", "games", "returns"), [(9, 32, 500, 200, 1), (19, 2, 750, 2, 0)])
def test_random_games_equal_those_of_openspiel(size, n, steps, games, returns):
    rng, ended, returned = np.random.default_rng(0), 0, 0
    game = pyspiel.load_game(f"go(board_size={size},komi=7.5)")
    with headrace.make(f"Go{size}x{size}-v0", num_envs=n, autoreset="disabled") as pool:
        obs, info = pool.reset()
        states = [game.new_initial_state() for _ in range(n)]
        for _ in range(steps):
            actions = np.full((n, 2), size * size)
            for i, state in enumerate(states):
                mover, mask = state.current_player(), info["action_mask"][i]
                returned += returning(state, mask[mover], obs[i, mover, 2].ravel())
                assert np.flatnonzero(mask[1 - mover]).tolist() == [size * size]
                if rng.random() > (i % 4) * 0.05:  # players of some games pass more often
                    actions[i, mover] = rng.choice(np.flatnonzero(mask[mover]))
                state.apply_action(int(actions[i, mover]))
            obs, reward, terminated, _, info = pool.step(actions)
            for i, state in enumerate(states):
                assert_same(state, obs[i], reward[i], terminated[i])
            done = np.flatnonzero(terminated)
            ended += done.size
            if done.size:
                obs[done], again = pool.reset(done)
                info["action_mask"][done] = again["action_mask"]
                for i in done:
                    states[i] = game.new_initial_state()
    assert ended >= games
    assert returned >= returns


def played(pool, cells):
    """The pool's results of the last of moves on these cells (x, y); None is a pass."""
    pool.reset()
    return [pool.step(np.full((1, 2), 81 if cell is None else cell[0] + 9 * cell[1])) for cell in cells][-1]


def test_a_ko_cannot_be_taken_back_until_the_position_has_changed():
    ko = [(1, 0), (2, 0), (0, 1), (3, 1), (1, 2), (2, 2), (8, 8), (1, 1), (2, 1)]  # the last takes the one before
    with headrace.make("Go9x9-v0") as pool:
        obs, _, _, _, info = played(pool, ko)
        for player in range(2):
            assert np.argwhere(obs[0, player, 2]).tolist() == [[1, 1]]
        assert not info["action_mask"][0, 1, 10]
        obs, _, _, _, info = played(pool, [*ko, (8, 0), (7, 8)])
        assert not obs[0, :, 2].any()
        assert info["action_mask"][0, 1, 10]


@pytest.mark.parametrize(("komi", "result"), [(7.5, 1), (81, 0), (81.5, -1)])
def test_the_second_player_is_given_komi(komi, result):
    with headrace.make("Go9x9-v0", komi=komi) as pool:
        _, reward, terminated, _, _ = played(pool, [(4, 4), None, None])
        assert terminated[0]
        assert reward[0].tolist() == [result, -result]
