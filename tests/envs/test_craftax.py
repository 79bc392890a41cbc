"""Craftax-Classic as a task: spaces, info, seeds, states, pictures; for the rules see the alignment tests."""

import gymnasium as gym
import numpy as np
import pytest
from kernel_states import arrays_of

import headrace
import headrace.testing
from headrace.envs.craftax import ACHIEVEMENTS
from headrace.envs.meanings import action_meanings
from headrace.errors import StateError

TASK = "Craftax-Classic-Symbolic-v1"
TREE, COLLECT_WOOD, DO = 5, 0, 5


def play(steps=150, n=16, seed=3, **settings):
    """[obs, reward, terminated, achievements] of every environment and step under random players: [steps, n, …]."""
    rng = np.random.default_rng(1)
    rows = []
    with headrace.make(TASK, num_envs=n, seed=seed, **settings) as pool:
        pool.reset()
        for _ in range(steps):
            obs, reward, terminated, _, info = pool.step(rng.integers(0, 17, n))
            rows.append([obs, reward, terminated, info["achievements"]])
    return [np.stack(column) for column in zip(*rows, strict=True)]


def assert_equal(ours, theirs):
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(a, b)


def test_spaces_and_names():
    spec = headrace.make_spec(TASK)
    assert spec.observation == gym.spaces.Box(0.0, 1.0, (1345,), np.float32)
    assert spec.action == gym.spaces.Discrete(17)
    assert spec.max_episode_steps == 10_000
    assert len(ACHIEVEMENTS) == 22
    names = action_meanings(TASK, spec.options, spec.action)
    assert names is not None
    assert names[DO] == "do" and names[16] == "make iron sword"


def test_the_conformance_suite_passes():
    assert "saved_states" in str(headrace.testing.check(TASK))


@pytest.mark.parametrize("mode", ["next_step", "same_step"])
def test_what_happens_follows_from_seed_and_actions(mode):
    whole = play(steps=300, autoreset=mode)
    assert whole[2].sum() > 5
    assert_equal(whole, play(steps=300, autoreset=mode, num_threads=3))
    assert (whole[0] != play(steps=300, autoreset=mode, seed=4)[0]).any()
    assert ((whole[0] >= 0) & (whole[0] <= 1)).all()


def test_a_first_achievement_is_rewarded_once_and_noted():
    with headrace.make(TASK, num_envs=3, seed=0) as pool:
        _, info = pool.reset()
        assert not info["achievements"].any()
        state = arrays_of(pool)
        state["cells"][:, 31, 32] = TREE  # above the player, who is facing up
        _, reward, _, _, info = pool.step(np.full(3, DO))
        np.testing.assert_array_equal(reward, 1.0)
        assert [ACHIEVEMENTS[i] for i in np.flatnonzero(info["achievements"][0])] == ["collect_wood"]
        state["cells"][:, 31, 32] = TREE
        _, reward, _, _, info = pool.step(np.full(3, DO))
        np.testing.assert_array_equal(reward, 0.0)
        assert (state["things"][:, 0] == 2).all()
        assert info["achievements"].sum() == 3


def test_an_episode_is_cut_after_the_limit():
    with headrace.make(TASK, num_envs=2, seed=0, max_episode_steps=12) as pool:
        pool.reset()
        cut = [pool.step(np.zeros(2, np.int64))[3].all() for _ in range(12)]
    assert cut == [False] * 11 + [True]


def test_saved_states_continue_bit_by_bit():
    rng = np.random.default_rng(0)
    with headrace.make(TASK, num_envs=5, seed=1) as one, headrace.make(TASK, num_envs=7, seed=99) as other:
        one.reset()
        for _ in range(137):
            one.step(rng.integers(0, 17, 5))
        where = [6, 0, 3, 2, 5]
        other.load_state(where, one.save_state())
        for _ in range(200):
            actions = rng.integers(0, 17, 5)
            assert_equal(one.step(actions)[:4], other.step(actions, where)[:4])


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("cells", 49),
        ("player", 64),
        ("facing", 0),
        ("facing", 5),
        ("things", 10),
        ("vitals", -1),
        ("plants", 64),
        ("planted", -1),
    ],
)
def test_states_that_cannot_be_are_refused(field, value):
    with headrace.make(TASK, num_envs=1, seed=1) as pool:
        pool.reset()
        arrays_of(pool)[field][0] = value
        saved = pool.save_state()
        with pytest.raises(StateError, match=field):
            pool.load_state([0], saved)


def test_interpreted_as_python_it_plays_the_same_games():
    """Also the world is the same, whose noise is compiled in another form."""
    compiled, debugged = (play(steps=12, n=1, seed=8, debug=debug) for debug in (False, True))
    assert_equal(compiled, debugged)


def test_frames_show_the_world_by_day_and_night():
    with headrace.make(TASK, num_envs=2, seed=0) as pool:
        pool.reset()
        by_day = pool.render([0, 1])
        assert by_day.shape == (2, 432, 432, 3) and by_day.dtype == np.uint8
        assert (by_day[0] != by_day[1]).any()
        arrays_of(pool)["light"][:] = 0.0
        by_night = pool.render([0, 1])
        assert by_night[:, :336].mean() < 0.6 * by_day[:, :336].mean()
        np.testing.assert_array_equal(by_night[:, 336:], by_day[:, 336:])
        arrays_of(pool)["cells"][:, 31, 31] = 14  # lava, up and left of the player
        left_of_head = pool.render([0])[0, 2 * 48 + 24, 3 * 48 + 24].astype(int)
        assert left_of_head[0] > 2 * left_of_head[2]
