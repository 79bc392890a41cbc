"""Craftax-Classic as a task: spaces, info, invalid states, pictures; the alignment tests test its rules."""

import gymnasium as gym
import numpy as np
import pytest
from kernel_states import arrays_of

import headrace
import headrace.testing
from headrace.envs.craftax import ACHIEVEMENTS
from headrace.errors import StateError
from headrace.pool.meanings import action_meanings

TASK = "Craftax-Classic-Symbolic-v1"
TREE, COLLECT_WOOD, DO = 5, 0, 5


def test_the_spec_has_the_spaces_limit_and_action_names_of_the_package():
    spec = headrace.make_spec(TASK)
    assert spec.observation == gym.spaces.Box(0.0, 1.0, (1345,), np.float32)
    assert spec.action == gym.spaces.Discrete(17)
    assert spec.max_episode_steps == 10_000
    assert len(ACHIEVEMENTS) == 22
    names = action_meanings(TASK, spec.options, spec.action)
    assert names is not None
    assert names[DO] == "do" and names[16] == "make iron sword"


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
def test_states_with_values_outside_their_bounds_are_refused(field, value):
    with headrace.make(TASK, num_envs=1, seed=1) as pool:
        pool.reset()
        arrays_of(pool)[field][0] = value
        saved = pool.save_state()
        with pytest.raises(StateError, match=field):
            pool.load_state([0], saved)


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
