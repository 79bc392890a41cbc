"""MiniGrid's tasks as pools: the conformance suite, names, options, saved states and debug mode."""

import gymnasium as gym
import numpy as np
import pytest

import headrace
import headrace.testing
from headrace.envs.minigrid import TASKS, text
from headrace.errors import OptionError, StateError
from nightly import rest_nightly

DOOR_KEY = "MiniGrid-DoorKey-8x8-v0"
LATER = [
    "MiniGrid-GoToDoor-8x8-v0",
    "MiniGrid-KeyCorridorS3R3-v0",
    "MiniGrid-MemoryS13Random-v0",
    "MiniGrid-MultiRoom-N6-v0",
    "MiniGrid-ObstructedMaze-Full-v1",
    "MiniGrid-PutNear-8x8-N3-v0",
]


@pytest.mark.parametrize(
    "task", rest_nightly([DOOR_KEY, "MiniGrid-Dynamic-Obstacles-8x8-v0", *LATER], DOOR_KEY, *LATER[:1])
)
def test_tasks_conform(task):
    report = headrace.testing.check(task)
    assert not report.failures, str(report)


def test_all_names_of_the_package_are_ours_but_those_that_need_wfc():
    pytest.importorskip("minigrid")
    theirs = {name for name in gym.registry if name.startswith("MiniGrid-") and "WFC" not in name}
    assert theirs == {*TASKS}


def test_a_name_alone_is_ours_and_with_its_package_the_packages():
    pytest.importorskip("minigrid")
    with headrace.make(DOOR_KEY) as ours, headrace.make(f"minigrid:{DOOR_KEY}") as theirs:
        assert ours.reset()[0]["mission"].dtype == np.uint8
        assert isinstance(theirs.reset()[0]["mission"][0], str)


@pytest.mark.parametrize("task", TASKS)
def test_first_observations_are_in_their_space(task):
    with headrace.make(task, num_envs=3, seed=2) as pool:
        obs, _ = pool.reset()
        space = pool.spec.observation
        for i in range(3):
            assert space.contains({key: value[i] for key, value in obs.items()})
        assert text(obs["mission"][0]) or "Playground" in task


def test_one_array_has_a_mission_only_where_missions_differ():
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


def test_wrong_options_and_states_are_refused():
    with pytest.raises(OptionError, match="full_observation"):
        headrace.make(DOOR_KEY, full_observation="all")
    with headrace.make("MiniGrid-Dynamic-Obstacles-5x5-v0", seed=1) as pool, headrace.make(DOOR_KEY) as other:
        pool.reset()
        other.reset()
        with pytest.raises(StateError):
            other.load_state([0], pool.save_state())


@pytest.mark.parametrize("task", ["MiniGrid-LockedRoom-v0", "MiniGrid-ObstructedMaze-1Dlhb-v0"])
@pytest.mark.parametrize("options", [{}, {"full_observation": True}, {"flat_observation": True}])
def test_debug_mode_gives_the_same(task, options):
    rng = np.random.default_rng(1)
    with headrace.make(task, seed=4, **options) as one, headrace.make(task, seed=4, debug=True, **options) as other:
        for _ in range(20):
            actions = rng.integers(0, 7, 1)
            results = [pool.step(actions) if _ else pool.reset() for pool in (one, other)]
            first, second = (result[0] if options.get("flat_observation") else result[0]["image"] for result in results)
            np.testing.assert_array_equal(first, second)
