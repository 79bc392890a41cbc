"""The toy text problems as tasks: spaces, options, actions, pictures; other files test the rules."""

# pyright: reportAttributeAccessIssue=false

import gymnasium as gym
import numpy as np
import pytest
from kernel_states import arrays_of

import headrace
import headrace.testing
from headrace.envs.toy_text import TASKS, build
from headrace.errors import OptionError

STATES = {
    "FrozenLake-v1": (16, 100),
    "FrozenLake8x8-v1": (64, 200),
    "Taxi-v3": (500, 200),
    "Taxi-v4": (500, 200),
    "NChain-v0": (5, 1000),
    "CliffWalking-v0": (48, 0),
    "CliffWalking-v1": (48, 0),
    "CliffWalkingSlippery-v1": (48, 0),
}
ENVPOOLS = [task for task in TASKS if task != "Taxi-v4"]
"""the tasks that EnvPool has, too"""


@pytest.mark.parametrize("task", TASKS)
def test_specs_have_the_expected_spaces_and_limits(task):
    spec = headrace.make_spec(task)
    assert task in headrace.list_all_envs()
    if task in STATES:
        states, limit = STATES[task]
        assert spec.observation == gym.spaces.Discrete(states, dtype=np.int32)
        assert spec.max_episode_steps == limit
    else:
        box = gym.spaces.Box(0.0, 1.0, (10, 5), np.float32), gym.spaces.Box(0, 31, (3,), np.int32)
        assert spec.observation == box[task == "Blackjack-v1"]
        assert spec.max_episode_steps == 0
    assert build(task, max_episode_steps=7).spec.max_episode_steps == 7


@pytest.mark.parametrize("task", ENVPOOLS)
def test_results_have_the_dtypes_and_shapes_of_envpool(task):
    envpool = pytest.importorskip("envpool")
    theirs = envpool.make_gymnasium(task, num_envs=3, seed=0)
    spec = envpool.make_spec(task)
    with headrace.make(task, num_envs=3, seed=0) as pool:
        for name in {"height", "width", "size", "is_slippery", "natural", "sab"} & set(spec.config._fields):
            assert pool.spec.options[name] == getattr(spec.config, name)
        assert pool.action_space.n == theirs.action_space.n
        results = [pool.reset(), pool.step(np.zeros(3, np.int32))], [theirs.reset(), theirs.step(np.zeros(3, np.int32))]
    for ours, want in zip(*results, strict=True):
        for a, b in zip(ours[:-1], want[:-1], strict=True):
            assert (a.dtype, a.shape) == (b.dtype, b.shape)
        for name, value in want[-1].items():
            if name != "players":
                assert (ours[-1][name].dtype, ours[-1][name].shape) == (value.dtype, value.shape)
    theirs.close()


@pytest.mark.parametrize(
    ("task", "options", "told"),
    [
        ("FrozenLake-v1", {"slippery": False}, "FrozenLake-v1 has no option 'slippery': did you mean is_slippery"),
        ("FrozenLake-v1", {"is_slippery": 1}, "is_slippery of FrozenLake-v1 must be True or False, not 1"),
        ("FrozenLake-v1", {"size": 5}, "size of FrozenLake-v1 must be 4 or 8, not 5"),
        ("FrozenLake-v1", {"size": [4]}, "size of FrozenLake-v1 must be 4 or 8"),
        ("FrozenLake-v1", {"map_name": "16x16"}, "map_name of FrozenLake-v1 must be '4x4', '8x8' or None, not '16x16'"),
        ("FrozenLake-v1", {"desc": ["SF", "FGF"]}, "desc of FrozenLake-v1 must be rows of equal length"),
        ("FrozenLake-v1", {"desc": ["FF", "FG"]}, "with an S"),
        ("FrozenLake-v1", {"desc": ["SX", "FG"]}, "of the letters S, F, H and G"),
        ("FrozenLake-v1", {"desc": []}, "rows of equal length"),
        ("FrozenLake-v1", {"desc": 5}, "rows of equal length"),
        ("FrozenLake-v1", {"desc": ["S" * 200] * 200}, "at most 16384 cells"),
        ("FrozenLake-v1", {"success_rate": 1.5}, r"success_rate of FrozenLake-v1 must be a finite number in \[0"),
        ("FrozenLake8x8-v1", {"reward_schedule": (1, 0)}, "reward_schedule of FrozenLake8x8-v1 must be three finite"),
        ("FrozenLake-v1", {"reward_schedule": (1, 0, np.nan)}, "three finite numbers"),
        ("Taxi-v3", {"is_rainy": True}, "Taxi-v3 has no option 'is_rainy'"),
        ("Taxi-v4", {"rainy_probability": -0.1}, "rainy_probability of Taxi-v4"),
        ("Taxi-v4", {"fickle_passenger": "yes"}, "fickle_passenger of Taxi-v4 must be True or False"),
        ("NChain-v0", {"n": 0}, "n of NChain-v0 must be an integer of at least 1"),
        ("NChain-v0", {"slip": 1.1}, "slip of NChain-v0"),
        ("NChain-v0", {"large": np.inf}, "large of NChain-v0 must be a finite number"),
        ("Catch-v0", {"height": 1}, "height of Catch-v0"),
        ("Catch-v0", {"width": 2.5}, "width of Catch-v0 must be an integer"),
        ("Blackjack-v1", {"sab": 0}, "sab of Blackjack-v1 must be True or False"),
        ("CliffWalking-v1", {"max_episode_steps": -1}, "max_episode_steps of CliffWalking-v1"),
    ],
)
def test_invalid_options_are_refused_by_name(task, options, told):
    with pytest.raises(OptionError, match=told):
        headrace.make(task, **options)


def test_size_map_name_and_desc_choose_the_lake():
    def cells(task="FrozenLake-v1", **options):
        return headrace.make_spec(task, **options).observation.n

    assert cells() == 16
    assert cells(size=8) == cells(map_name="8x8") == cells("FrozenLake8x8-v1") == 64
    assert cells("FrozenLake8x8-v1", map_name="4x4", size=8) == 16
    assert cells(desc=["SFG"], map_name="8x8") == 3
    assert cells(desc=[list("SF"), list("FG")]) == cells(desc=np.array([list("SF"), list("FG")])) == 4


@pytest.mark.parametrize("task", TASKS)
def test_actions_outside_the_space_are_refused(task):
    with headrace.make(task, num_envs=2, seed=0) as pool:
        pool.reset()
        with pytest.raises(headrace.errors.ActionError, match=r"action \d in row 1"):
            pool.step(np.array([0, pool.action_space.n]))


SHAPES = {"Catch": (640, 320), "FrozenLake": (256, 256), "FrozenLake8x8": (512, 512), "Taxi": (344, 344)}
SHAPES |= {
    "NChain": (128, 320),
    "CliffWalking": (256, 768),
    "CliffWalkingSlippery": (256, 768),
    "Blackjack": (400, 640),
}


@pytest.mark.parametrize("task", TASKS)
def test_frames_show_the_state(task):
    """Different observations have different frames."""
    rng, frames = np.random.default_rng(0), {}
    with headrace.make(task, seed=0) as pool:
        pool.reset()
        for _ in range(60):
            obs, *_ = pool.step(rng.integers(0, pool.action_space.n, 1))
            (frame,) = pool.render([0])
            assert frame.dtype == np.uint8
            assert frame.shape == (*SHAPES[task[:-3]], 3)
            frames[obs.tobytes()] = frame.tobytes()
    assert len(set(frames.values())) == len(frames) > 3


def test_the_dealers_second_card_stays_hidden_until_the_player_sticks():
    with headrace.make("Blackjack-v1", num_envs=2, seed=0, autoreset="disabled") as pool:
        pool.reset()
        arrays = arrays_of(pool)
        arrays["player"][:], arrays["player_sum"][:], arrays["player_ace"][:] = 0x22, 4, False
        arrays["dealer"][:], arrays["open_card"][:] = [0x98, 0x9A], 9
        hidden = pool.render([0, 1])
        np.testing.assert_array_equal(hidden[0], hidden[1])
        pool.step(np.array([0, 0]))
        shown = pool.render([0, 1])
    assert (shown[0] != hidden[0]).any()
    assert (shown[0] != shown[1]).any()


@pytest.mark.parametrize(
    ("task", "options"),
    [
        ("NChain-v0", {"n": 1}),
        ("NChain-v0", {"n": 10_000}),
        ("Catch-v0", {"height": 100, "width": 2}),
        ("FrozenLake-v1", {"desc": ["S" + "F" * 99]}),
    ],
)
def test_worlds_of_unusual_size_can_be_drawn(task, options):
    with headrace.make(task, seed=0, **options) as pool:
        pool.reset()
        for _ in range(5):
            pool.step([1])
        assert pool.render([0]).max() > 100
