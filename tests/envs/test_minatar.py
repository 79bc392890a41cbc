"""MinAtar's games as tasks: spaces, options, seeds, sticky actions, pictures; the alignment tests test the rules."""

# pyright: reportAttributeAccessIssue=false

import gymnasium as gym
import numpy as np
import pytest
from kernel_states import arrays_of

import headrace
from headrace.envs.minatar import TASKS, build
from headrace.errors import OptionError

BREAKOUT, INVADERS = "MinAtar-Breakout-v1", "MinAtar-SpaceInvaders-v1"
CHANNELS = {"Asterix": 4, "Breakout": 4, "Freeway": 7, "Seaquest": 10, "SpaceInvaders": 6}
USEFUL_ACTIONS = {"Asterix": 5, "Breakout": 3, "Freeway": 3, "Seaquest": 6, "SpaceInvaders": 4}
USEFUL = [task for task in TASKS if task.endswith("v1")]


def channels(task):
    return CHANNELS[task.split("-")[1]]


@pytest.mark.parametrize("task", TASKS)
def test_specs_have_the_spaces_and_default_options_of_the_package(task):
    spec = headrace.make_spec(task)
    assert spec.observation == gym.spaces.Box(0, 1, (channels(task), 10, 10), np.uint8)
    assert spec.action.n == {"v0": 6, "v1": USEFUL_ACTIONS[task.split("-")[1]]}[task[-2:]]
    assert spec.options["sticky_action_prob"] == 0.1
    assert spec.options.get("difficulty_ramping", True) is True
    assert spec.max_episode_steps == 0
    assert task in headrace.list_all_envs()


@pytest.mark.parametrize(
    ("task", "options", "told"),
    [
        (
            BREAKOUT,
            {"sticky_action_prob": 1.5},
            r"sticky_action_prob of MinAtar-Breakout-v1 must be .* in \[0.0, 1.0\]",
        ),
        (BREAKOUT, {"sticky_action_prob": -0.1}, "not -0.1"),
        (BREAKOUT, {"sticky_action_prob": "often"}, "not 'often'"),
        (BREAKOUT, {"sticky_actions": 0.1}, "did you mean sticky_action_prob"),
        (BREAKOUT, {"difficulty_ramping": True}, "MinAtar-Breakout-v1 has no option 'difficulty_ramping'"),
        (INVADERS, {"difficulty_ramping": 1}, "difficulty_ramping of MinAtar-SpaceInvaders-v1 must be True or False"),
        (INVADERS, {"max_episode_steps": -1}, "max_episode_steps"),
    ],
)
def test_invalid_options_are_refused_by_name(task, options, told):
    with pytest.raises(OptionError, match=told):
        build(task, **options)


@pytest.mark.parametrize("task", [BREAKOUT, INVADERS])
def test_a_reset_with_a_seed_forgets_everything_played_before(task):
    """Also the last action, which sticky actions repeat: no episode depends on the steps before its seed."""
    with headrace.make(task, num_envs=64, sticky_action_prob=0.5, autoreset="disabled") as pool:
        pool.reset(seed=8)
        want = pool.step(np.full(64, 2))[0].copy()
        pool.reset(seed=9)
        pool.step(np.full(64, 1))
        pool.reset(seed=8)
        np.testing.assert_array_equal(pool.step(np.full(64, 2))[0], want)


@pytest.mark.parametrize("task", [BREAKOUT, INVADERS])
@pytest.mark.parametrize("probability", [0.0, 0.1, 1.0])
def test_actions_repeat_with_the_probability_of_sticky_action_prob(task, probability):
    """Left and right in turns: an environment that does not take the given action repeats its last one."""
    n, repeated, visible = 2000, 0, 0
    with headrace.make(task, num_envs=n, seed=5, sticky_action_prob=probability) as pool:
        pool.reset()
        last = arrays_of(pool)["last_action"]
        for action, meaning in ((1, 1), (2, 3)) * 3:
            before = last.copy()
            pool.step(np.full(n, action))
            stuck = last != meaning
            np.testing.assert_array_equal(last[stuck], before[stuck])
            repeated, visible = repeated + stuck.sum(), visible + (before != meaning).sum()
    assert visible > n
    assert abs(repeated - probability * visible) <= 4 * np.sqrt(probability * (1 - probability) * visible)


@pytest.mark.parametrize("task", USEFUL)
def test_frames_show_the_screen(task):
    """A cell of the frame is lit exactly where some channel is set; the state moves, and so does the picture."""
    rng = np.random.default_rng(0)
    with headrace.make(task, num_envs=3, seed=0, autoreset="same_step") as pool:
        obs, _ = pool.reset()
        seen = set()
        for _ in range(60):
            frames = pool.render([0, 2])
            assert frames.dtype == np.uint8
            assert frames.shape == (2, 320, 320, 3)
            cells = frames[:, 16::32, 16::32].astype(int)
            np.testing.assert_array_equal(cells.max(-1) > 60, obs[[0, 2]].any(1))
            player = obs[[0, 2], 0].astype(bool)
            assert len(np.unique(cells[player], axis=0)) == 1, "the player has a colour of its own"
            seen.add(frames.tobytes())
            obs, *_ = pool.step(rng.integers(0, pool.action_space.n, 3))
    assert len(seen) > 30


def test_a_ship_at_the_edge_is_drawn_without_the_hull_beyond_it():
    with headrace.make("MinAtar-Seaquest-v1", num_envs=2, seed=1) as pool:
        pool.reset()
        state = arrays_of(pool)
        state["player"][:], state["rightward"][:] = [(9, 3), (0, 3)], [False, True]
        pool.load_state(None, pool.save_state())
        shown = pool.render([0, 1])[:, 16 + 3 * 32, 16::32].max(-1) > 60
        assert shown.nonzero()[1].tolist() == [9, 0], "the hull is beyond the edge, and not at the other one"
