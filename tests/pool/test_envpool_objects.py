"""Programs for EnvPool run with their import changed: the object's attributes, wrappers and pictures.

They use what EnvPool's own examples and tests use: every call, option, attribute and name that
tasks of both have. What differs by intent is in docs/coming-from-envpool.md.
"""

from __future__ import annotations

import pickle
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import headrace
from envpool_calls import sampled
from headrace.errors import OptionError, RenderError

# -- the object ----------------------------------------------------------------------------------


def test_a_pool_has_the_attributes_of_envpools(envpool: Any) -> None:
    env = envpool.make_gym("CartPole-v1", num_envs=3)
    assert env.is_vector_env
    assert env.render_mode is None
    assert env.num_envs == len(env) == len(env.all_env_ids) == 3
    assert env.observation_space == env.single_observation_space
    assert env.action_space == env.single_action_space == gym.spaces.Discrete(2)
    assert env.observation_space.shape == (4,)
    assert env.metadata["autoreset_mode"] == gym.vector.AutoresetMode.NEXT_STEP
    assert env.spec.reward_threshold == 475.0
    env.spec.id = "CartPole-v1"
    assert env.spec.id == "CartPole-v1"
    assert env.unwrapped is env
    for one in (env, envpool.make_dm("CartPole-v1")):
        with pytest.warns(UserWarning, match="seed"):
            one.seed(1)
    with pytest.warns(UserWarning, match="seed"):
        env.seed()
    env.close()
    env.close()


def test_programs_may_set_attributes_of_a_pool() -> None:
    env = headrace.make_gym("CartPole-v1", num_envs=3)
    env.num_envs = env.spec.config.num_envs
    env.single_action_space, env.single_observation_space = env.action_space, env.observation_space
    env.spec.reward_threshold = 500
    env.reset()
    assert len(env.step(np.zeros(3, int))[1]) == 3


def test_a_reset_takes_a_mask_and_refuses_empty_masks_and_other_options(envpool: Any) -> None:
    env = envpool.make_gym("CartPole-v1", num_envs=3)
    env.reset(options={})
    _, info = env.reset(options={"reset_mask": np.array([True, False, True])})
    np.testing.assert_array_equal(info["env_id"], [0, 2])
    with pytest.raises(ValueError, match="reset_mask"):
        env.reset(options={"reset_mask": np.zeros(3, np.bool_)})
    with pytest.raises(ValueError, match=r"sorted|option"):
        env.reset(options={"sorted": True})


class EpisodeStatistics(gym.Wrapper):
    """As cleanrl's PPO for Atari wraps EnvPool."""

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self.num_envs = getattr(env, "num_envs", 1)
        env.reset()
        self.has_lives = env.step(np.zeros(self.num_envs, dtype=int))[-1]["lives"].sum() > 0

    def reset(self, **kwargs: Any) -> Any:
        self.returns = np.zeros(self.num_envs, np.float32)
        return super().reset(**kwargs)

    def step(self, action: Any) -> Any:
        obs, rew, term, trunc, info = super().step(action)
        self.returns += info["reward"]
        info["r"] = self.returns.copy()
        self.returns *= 1 - (info["lives"] == 0)
        return obs, rew, term, trunc, info


def test_a_wrapper_for_environments_wraps_a_gym_pool(envpool: Any) -> None:
    bare = envpool.make("Breakout-v5", env_type="gym", num_envs=4, episodic_life=True, reward_clip=True, seed=1)
    env: Any = EpisodeStatistics(bare)
    assert env.has_lives
    assert isinstance(env.action_space, gym.spaces.Discrete)
    assert env.unwrapped is bare
    obs, _ = env.reset()
    for _ in range(30):
        obs, rew, *_, info = env.step(sampled(env.action_space, 4))
        assert set(np.unique(rew)) <= {-1, 0, 1}
        assert info["r"].shape == (4,)
    assert obs.shape == (4, 4, 84, 84)
    env.close()


def test_a_wrapper_for_vector_environments_wraps_a_gym_pool(envpool: Any) -> None:
    env = gym.wrappers.vector.RecordEpisodeStatistics(envpool.make_gym("CartPole-v1", num_envs=3, seed=0))
    env.reset()
    found = []
    for _ in range(60):
        info = env.step(np.ones(3, np.int32))[-1]
        found += info["episode"]["l"][info["_episode"]].tolist() if "episode" in info else []
    assert len(found) >= 3
    assert env.unwrapped.num_envs == 3
    env.close()


def test_the_spec_of_a_wrapped_pool_names_the_wrapper() -> None:
    spec: Any = gym.wrappers.TransformReward(headrace.make_gym("CartPole-v1"), lambda reward: reward).spec
    assert spec.id == "CartPole-v1"
    assert [wrapper.name for wrapper in spec.additional_wrappers] == ["TransformReward"]


# -- pictures ------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", ["CartPole-v1", "Pendulum-v1", "Pong-v5"])
def test_render_draws_the_chosen_environments_at_the_chosen_size(envpool: Any, task: str) -> None:
    env = envpool.make_gym(task, num_envs=2, render_mode="rgb_array", seed=1)
    env.reset()
    for _ in range(3):
        env.step(sampled(env.action_space, 2))
    frame0, frame1, frames = env.render(), env.render(env_ids=1), env.render(env_ids=[0, 1], camera_id=-1)
    assert env.render_mode == "rgb_array"
    assert frame0.shape == (1, *frames.shape[1:])
    assert frames.dtype == np.uint8
    np.testing.assert_array_equal(np.concatenate([frame0, frame1]), frames)
    shown = {"render_env_id": 1, "render_width": 64, "render_height": 48, "render_camera_id": -1}
    for kind in ("gym", "dm"):
        small = envpool.make(task, kind, num_envs=2, render_mode="rgb_array", seed=1, **shown)
        small.reset()
        assert small.render().shape == (1, 48, 64, 3)
        np.testing.assert_array_equal(small.render(), small.render([1]))
        np.testing.assert_array_equal(small.render()[0], small.render([0, 1])[1])


def test_small_pictures_average_the_pixels_of_large_ones() -> None:
    with headrace.make_gym("Pong-v5", render_width=80) as env, headrace.make_gym("Pong-v5") as whole:
        for one in (env, whole):
            one.reset(seed=1)
        pairs = whole.render().reshape(1, 210, 80, 2, 3).astype(float).mean(3)
        assert np.abs(env.render() - pairs).max() <= 0.5
    vector = headrace.make_vec("CartPole-v1", num_envs=2, render_mode="rgb_array", render_width=60)
    vector.reset()
    assert [frame.shape for frame in vector.render() or ()] == [(400, 60, 3)] * 2


def test_render_draws_from_the_chosen_camera() -> None:
    try:
        with headrace.make("CheetahRun-v1", render_width=32, render_height=24, render_camera_id=1, seed=3) as pool:
            pool.reset()
            behind = pool.render()
        env = headrace.make_gym("CheetahRun-v1", num_envs=2, seed=2, render_width=32, render_height=24)
        env.reset()
        aside = env.render([1])
        np.testing.assert_array_equal(env.render(1, camera_id=1), behind)
        assert (aside != behind).any()
        np.testing.assert_array_equal(env.render([1], camera_id=-1), aside)
        np.testing.assert_array_equal(env.render([0, 1], camera_id=1)[1:], behind)
        with pytest.raises(OptionError, match="has no camera 7"):
            env.render(camera_id=7)
        env.close()
    except RenderError as error:
        pytest.skip(str(error))


def test_unusable_render_options_are_refused() -> None:
    for wrong in ({"render_env_id": 2}, {"render_width": -1}, {"render_height": 10**6}, {"render_camera_id": 0}):
        with pytest.raises(OptionError, match=min(wrong) if "camera" not in min(wrong) else "one side only"):
            headrace.make_gym("CartPole-v1", num_envs=2, **wrong)
    with pytest.raises(OptionError, match="render_env_id needs an env_type"):
        headrace.make("CartPole-v1", render_env_id=0)
    with headrace.make_gym("CartPole-v1") as env:
        env.reset()
        with pytest.raises(OptionError, match="one side only"):
            env.render(camera_id=3)


# -- states, pickles and bad options -------------------------------------------------------------


def test_states_and_pickles_of_a_view_continue_its_steps() -> None:
    env = headrace.make_gym("CartPole-v1", num_envs=2, seed=0, render_width=30)
    env.reset()
    saved = env.save_state()
    twin = pickle.loads(pickle.dumps(env))
    assert str(twin) == str(env)
    first = env.step(np.array([0, 1]))[0]
    np.testing.assert_array_equal(twin.step(np.array([0, 1]))[0], first)
    other = headrace.make_gym("CartPole-v1", num_envs=2)
    other.load_state(None, saved)
    np.testing.assert_array_equal(other.step(np.array([0, 1]))[0], first)
    assert twin.render().shape == (1, 400, 30, 3)
    dm = headrace.make_dm("CartPole-v1", num_envs=2, seed=0)
    dm.reset()
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(dm)).step(np.array([0, 1])).observation.obs, first)


@pytest.mark.parametrize("task", ["CartPole-v1", "HalfCheetah-v5"])
def test_saved_states_do_not_depend_on_render_options(task: str) -> None:
    shown = {"render_mode": "rgb_array", "render_width": 64, "render_height": 48}
    with headrace.make_gym(task, seed=1) as plain, headrace.make_gym(task, seed=2, **shown) as drawn:
        plain.reset()
        drawn.reset()
        action = np.zeros((1, *(plain.action_space.shape or ())), plain.action_space.dtype)
        drawn.load_state(None, plain.save_state())
        np.testing.assert_array_equal(drawn.step(action)[0], plain.step(action)[0])
        plain.load_state(None, drawn.save_state())
        np.testing.assert_array_equal(drawn.step(action)[0], plain.step(action)[0])


def test_a_bad_option_of_gym_dm_or_spec_is_named() -> None:
    for wrong, told in (
        ({"gym_reset_return_info": False}, "gym_reset_return_info must be True"),
        ({"seed": 3, "env_seed": [1]}, "seed or env_seed"),
        ({"env_seed": [1, 2, 3]}, "3 seeds"),
        ({"batch_size": 2}, "batch_size"),
        ({"nonsense": 1}, "nonsense"),
        ({"render_mode": "human"}, "render_mode"),
    ):
        for make in (headrace.make_gym, headrace.make_dm, headrace.make_spec):
            with pytest.raises(OptionError, match=told):
                make("CartPole-v1", **wrong)
