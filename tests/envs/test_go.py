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


def chosen(rng, legal, i):
    """A legal action; of some games more passes than of others."""
    return legal[-1] if rng.random() < (i % 4) * 0.05 else rng.choice(legal)


@pytest.mark.parametrize(("size", "n", "steps"), [(9, 32, 500), (19, 2, 800)])
def test_random_games_are_those_of_openspiel(size, n, steps):
    play_random_games(size, n, steps, komi=7.5)


def play_random_games(size, n, steps, komi, seed=0):
    """Compares step by step, and returns how many games ended and how many positions would have returned."""
    rng, ended, returned = np.random.default_rng(seed), 0, 0
    game = pyspiel.load_game(f"go(board_size={size},komi={komi})")
    with headrace.make(f"Go{size}x{size}-v0", num_envs=n, autoreset="disabled", komi=komi) as pool:
        obs, info = pool.reset()
        states = [game.new_initial_state() for _ in range(n)]
        for _ in range(steps):
            actions = np.full((n, 2), size * size)
            for i, state in enumerate(states):
                mover, legal = state.current_player(), state.legal_actions()
                mask, barred = info["action_mask"][i], obs[i, mover, 2].ravel()
                mine = np.flatnonzero(mask[mover])
                assert set(mine) <= set(legal)
                assert not (mask[mover, :-1] & (barred != 0)).any()
                for action in {*legal} - {*mine}:
                    assert repeats(state, action)
                    assert barred[action]
                    returned += 1
                assert np.flatnonzero(mask[1 - mover]).tolist() == [size * size]
                actions[i, mover] = chosen(rng, mine, i)
                state.apply_action(int(actions[i, mover]))
            obs, reward, terminated, _, info = pool.step(actions)
            for i, state in enumerate(states):
                assert terminated[i] == state.is_terminal()
                assert reward[i].tolist() == (state.returns() if state.is_terminal() else [0.0, 0.0])
                owner = board_of(state, size)
                for player in range(2):
                    np.testing.assert_array_equal(obs[i, player, :2], [owner == player, owner == 1 - player])
                    assert (obs[i, player, 3] == player).all()
                    turn = not state.is_terminal() and state.current_player() == player
                    assert (obs[i, player, 4] == turn).all()
            done = np.flatnonzero(terminated)
            ended += done.size
            if done.size:
                obs[done], again = pool.reset(done)
                info["action_mask"][done] = again["action_mask"]
                for i in done:
                    states[i] = game.new_initial_state()
    return ended, returned
