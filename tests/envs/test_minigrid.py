"""MiniGrid's and BabyAI's tasks as pools: names, observations, limits, missions, states and debug mode."""

# pyright: reportAttributeAccessIssue=false

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from kernel_states import arrays_of

import headrace
import headrace.testing
from headrace.envs.minigrid import TASKS, WORDS, text
from headrace.envs.minigrid.world import EMPTY
from headrace.errors import OptionError, StateError, UnknownTaskError
from nightly import rest_nightly

DOOR_KEY = "MiniGrid-DoorKey-8x8-v0"
BOSS = "BabyAI-MiniBossLevel-v0"


def test_every_task_of_the_package_exists_except_those_that_need_wfc():
    pytest.importorskip("minigrid")
    theirs = {name for name in gym.registry if name.startswith(("BabyAI-", "MiniGrid-")) and "WFC" not in name}
    assert theirs == {*TASKS}


def test_a_plain_name_makes_our_task_and_a_prefixed_name_that_of_the_package():
    pytest.importorskip("minigrid")
    with headrace.make(DOOR_KEY) as ours, headrace.make(f"minigrid:{DOOR_KEY}") as theirs:
        assert ours.reset()[0]["mission"].dtype == np.uint8
        assert isinstance(theirs.reset()[0]["mission"][0], str)


@pytest.mark.parametrize("task", rest_nightly(TASKS, *TASKS[::12]))
def test_first_observations_are_in_their_space(task):
    with headrace.make(task, num_envs=3, seed=2) as pool:
        obs, _ = pool.reset()
        space = pool.spec.observation
        for i in range(3):
            assert space.contains({key: value[i] for key, value in obs.items()})
        assert text(obs["mission"][0]) or "Playground" in task


def test_flat_observations_hold_the_mission_only_where_missions_differ():
    sizes = {}
    for task in (DOOR_KEY, "MiniGrid-GoToDoor-8x8-v0"):
        with headrace.make(task, flat_observation=True) as pool:
            sizes[task] = pool.reset()[0].shape[1]
    assert sizes[DOOR_KEY] == 7 * 7 * 20 + 4
    assert sizes["MiniGrid-GoToDoor-8x8-v0"] > sizes[DOOR_KEY]


def test_rewards_depend_on_the_limit_of_steps():
    rewards = []
    for limit in (0, 10, 100):
        with headrace.make("MiniGrid-Empty-5x5-v0", max_episode_steps=limit) as pool:
            pool.reset()
            rewards += [pool.step([action])[1][0] for action in (2, 2, 1, 2, 2)][-1:]
    np.testing.assert_allclose(rewards, [1.0, 0.55, 0.955])


def test_limits_of_steps_differ_between_episodes_unless_one_is_given():
    limits = {}
    cases: list[dict[str, Any]] = [{}, {"max_episode_steps": 50}]
    for given in cases:
        lengths = set()
        with headrace.make(BOSS, num_envs=16, seed=3, autoreset="disabled", **given) as pool:
            pool.reset()
            for _ in range(850):
                *_, terminated, truncated, info = pool.step([6] * 16)
                lengths |= set(info["elapsed_step"][truncated].tolist())
                if (over := terminated | truncated).any():
                    pool.reset(np.flatnonzero(over))
        limits[len(given)] = lengths
    assert limits[1] == {50}
    assert {100, 200} < limits[0] <= {*range(100, 900, 100)}


def test_carrying_tasks_start_with_the_object_of_the_mission_in_hand():
    with headrace.make("BabyAI-PutNextS6N3Carrying-v0", num_envs=9, seed=1) as pool:
        obs, _ = pool.reset()
        carried = arrays_of(pool)["carrying"]
        assert (carried != EMPTY).all()
        assert [WORDS[3 + kind] for kind in carried & 15] == [told.split()[3] for told in text(obs["mission"])]


def test_text_gives_a_list_for_missions_of_several_environments():
    with headrace.make(BOSS, num_envs=3, seed=2) as pool:
        missions = pool.reset()[0]["mission"]
    assert text(missions) == [text(mission) for mission in missions]
    assert text([WORDS.index(word) for word in ("go", "to", "a", "ball", ",", "then")]) == "go to a ball, then"


@pytest.mark.parametrize("mission", [[len(WORDS)], [-1], [1.0], 3, [[[1]]]])
def test_text_refuses_numbers_that_stand_for_no_word(mission):
    with pytest.raises(ValueError, match="words"):
        text(mission)


def test_the_error_of_an_unknown_name_suggests_the_nearest_task():
    with pytest.raises(UnknownTaskError, match="BabyAI-GoToRedBall-v0"):
        headrace.make("BabyAI-GoToRedBal-v0")
    with pytest.raises(UnknownTaskError, match="BabyAI-BossLevel-v0"):
        headrace.make("BabyAI-BossLevl-v0")


@pytest.mark.parametrize("task", [BOSS, "BabyAI-PutNextS4N1-v0"])
def test_all_states_within_bounds_can_be_stepped(task):
    rng = np.random.default_rng(7)
    with headrace.make(task, num_envs=2, seed=4, debug=True) as pool:
        pool.reset()
        bounds = pool._executor._simulation.bounds
        for _ in range(40):
            for name, array in arrays_of(pool).items():
                if isinstance(valid := bounds.get(name), frozenset):
                    array[:] = rng.choice([*valid], array.shape)
                elif valid is not None and name != "steps":
                    array[:] = rng.integers(valid[0], valid[1] + 1, array.shape)
                elif name in ("marks", "notes", "wanted"):
                    array[:] = rng.integers(0, 256, array.shape)
            pool.render()
            pool.step(rng.integers(0, 7, 2))


@pytest.mark.parametrize(
    ("name", "value"), [("cells", 0x65), ("cells", 0x0B), ("cells", 0x87), ("carrying", 0x75), ("mission", len(WORDS))]
)
def test_states_with_cells_or_words_that_do_not_exist_are_refused(name, value):
    """A key of a seventh colour, a thing of no kind, a box with such a key, and a word beyond the last."""
    with headrace.make(DOOR_KEY, seed=1) as pool:
        pool.reset()
        before = pool.save_state()
        arrays_of(pool)[name][0] = value
        changed = pool.save_state()
        with pytest.raises(StateError, match=rf"environment 0 is not valid: {name}.* is {value}"):
            pool.load_state(None, changed)
        pool.load_state(None, before)
        pool.render()


def test_invalid_options_and_states_of_other_tasks_are_refused():
    with pytest.raises(OptionError, match="full_observation"):
        headrace.make(DOOR_KEY, full_observation="all")
    with headrace.make("MiniGrid-Dynamic-Obstacles-5x5-v0", seed=1) as pool, headrace.make(DOOR_KEY) as other:
        pool.reset()
        other.reset()
        with pytest.raises(StateError):
            other.load_state([0], pool.save_state())


@pytest.mark.parametrize("task", ["MiniGrid-LockedRoom-v0", "MiniGrid-ObstructedMaze-1Dlhb-v0", BOSS])
@pytest.mark.parametrize("options", [{}, {"full_observation": True}, {"flat_observation": True}])
def test_debug_mode_gives_the_observations_of_compiled_kernels(task, options):
    rng = np.random.default_rng(1)
    with headrace.make(task, seed=4, **options) as one, headrace.make(task, seed=4, debug=True, **options) as other:
        for _ in range(20):
            actions = rng.integers(0, 7, 1)
            results = [pool.step(actions) if _ else pool.reset() for pool in (one, other)]
            first, second = (result[0] if options.get("flat_observation") else result[0]["image"] for result in results)
            np.testing.assert_array_equal(first, second)
