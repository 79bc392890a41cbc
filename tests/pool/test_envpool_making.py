"""Programs for EnvPool run with their import changed: names, options and specs.

They use what EnvPool's own examples and tests use: every call, option, attribute and name that
tasks of both have. What differs by intent is in docs/coming-from-envpool.md.
"""

from __future__ import annotations

import importlib
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from dm_env import specs

import headrace
from envpool_calls import CONTROL, ROBOTS, TOYS, is_a, parts
from headrace.errors import RenderError


def test_make_with_env_type_equals_make_gym_make_gymnasium_and_make_dm(envpool: Any) -> None:
    for kind, make in (("gym", envpool.make_gym), ("gymnasium", envpool.make_gymnasium), ("dm", envpool.make_dm)):
        env = envpool.make(task_id="Pong-v5", env_type=kind, num_envs=2)
        assert str(env) == str(make(task_id="Pong-v5", num_envs=2))
        assert "num_envs=2" in repr(env)
        assert "stack_num=4" in str(env)
    for make in (envpool.make_gym, envpool.make_gymnasium):
        env = make("Defender-v5", num_envs=2)
        assert is_a(env, gym.Env)
        assert is_a(env, gym.vector.VectorEnv)
        assert env.action_space.n == env.single_action_space.n == 18
    assert isinstance(envpool.__version__, str)


@pytest.mark.parametrize("task", [*CONTROL, *TOYS, *ROBOTS])
def test_every_task_is_listed_made_and_reset(envpool: Any, task: str) -> None:
    assert task in envpool.list_all_envs()
    spec = envpool.make_spec(task)
    print(spec)
    env, dm = envpool.make_gym(task), envpool.make_dm(task)
    assert is_a(env, gym.Env)
    env.reset()
    dm.reset()
    assert env.spec.reward_threshold == spec.reward_threshold
    env.close()
    dm.close()


OTHER_NAMES = {
    "phys2d/CartPole-v0": "CartPole-v0",
    "phys2d/CartPole-v1": "CartPole-v1",
    "phys2d/Pendulum-v0": "Pendulum-v0",
    "tabular/Blackjack-v0": "Blackjack-v1",
    "tabular/CliffWalking-v0": "CliffWalking-v0",
    "Ant-v3": "Ant-v4",
    "HalfCheetah-v3": "HalfCheetah-v4",
    "InvertedPendulum-v2": "InvertedPendulum-v4",
    "Reacher-v2": "Reacher-v4",
}


@pytest.mark.parametrize("name", OTHER_NAMES)
def test_other_names_of_a_task_make_the_same_task(envpool: Any, name: str) -> None:
    options = {"use_contact_force": True} if name == "Ant-v3" else {}
    spec, known = envpool.make_spec(name), envpool.make_spec(OTHER_NAMES[name], **options)
    assert type(spec) is type(known)
    assert spec.observation_space == known.observation_space
    assert spec.action_space == known.action_space
    assert spec.config.max_episode_steps == known.config.max_episode_steps
    if name == "Ant-v3":
        assert envpool.make_spec(name, use_contact_force=False).observation_space.shape == (27,)


def test_make_spec_takes_the_options_of_make(envpool: Any) -> None:
    options = {"num_envs": 6, "batch_size": 3, "num_threads": 2, "seed": 5, "thread_affinity_offset": 1}
    shown = {"render_mode": "rgb_array", "render_width": 64, "render_height": 48, "render_camera_id": -1}
    config = envpool.make_spec("Pong-v5", stack_num=2, **options, **shown, render_env_id=1).config
    assert {name: getattr(config, name) for name in options} == options
    assert (config.stack_num, config.max_episode_steps, config.max_num_players) == (2, 27000, 1)
    assert config.gym_reset_return_info is True
    assert set(options) | {"env_seed", "base_path", "frame_skip"} <= set(config._fields)
    assert envpool.make_spec("Pong-v5", num_envs=4).config.batch_size == 4
    env = envpool.make_gym("Pong-v5", num_envs=4)
    assert env.spec.config.num_envs == env.config["num_envs"] == 4
    assert env.config == env.spec.config._asdict()


def test_an_option_sets_the_reward_threshold(envpool: Any) -> None:
    assert envpool.make_spec("CartPole-v1").config.reward_threshold == 475.0
    assert envpool.make_spec("CartPole-v1", reward_threshold=100.0).reward_threshold == 100.0
    env = envpool.make_gym("CartPole-v1", reward_threshold=100.0)
    assert env.spec.reward_threshold == env.config["reward_threshold"] == 100.0


def test_pixel_observations_are_named_pixels_in_specs(envpool: Any) -> None:
    options = {"from_pixels": True, "frame_stack": 3, "render_width": 32, "render_height": 24}
    for task in ("CheetahRun-v1", "Ant-v5"):
        spec = envpool.make_spec(task, **options)
        assert spec.observation_space.shape == spec.observation_spec().pixels.shape == (9, 24, 32)
        assert spec.state_array_spec["obs:pixels"].shape == [9, 24, 32]
        assert "obs" not in spec.state_array_spec
    if envpool is headrace:  # EnvPool ends the process of a machine without OpenGL
        try:
            with headrace.make_dm("CheetahRun-v1", num_envs=2, **options) as env:
                assert env.reset().observation.pixels.shape == (2, 9, 24, 32)
        except RenderError as error:
            pytest.skip(str(error))


@pytest.mark.parametrize("task", ["CartPole-v1", "Pong-v5", "Catch-v0", "Ant-v4", "WalkerWalk-v1"])
def test_the_config_of_a_pool_makes_an_equal_pool(task: str) -> None:
    env = headrace.make_gym(task, num_envs=2, seed=[4, 5])
    twin = headrace.make_gym(task, **env.config)
    assert str(twin) == str(env)
    for one, other in zip(parts(env.reset()[0]), parts(twin.reset()[0]), strict=True):
        np.testing.assert_array_equal(one, other)


def test_specs_of_atari_describe_discrete_actions_and_picture_observations(envpool: Any) -> None:
    for task, actions in (("Pong-v5", 6), ("Breakout-v5", 4)):
        env = envpool.make_gym(task)
        for spec in (envpool.make_spec(task), env.spec):
            assert spec.action_array_spec["action"].maximum + 1 == actions
            assert spec.action_array_spec["action"].dtype == np.int32
            assert len(spec.action_array_spec) == 3
            observed, acted = spec.observation_spec().obs, spec.action_spec()
            assert isinstance(observed, specs.BoundedArray)
            assert (observed.dtype, observed.maximum, observed.minimum) == (np.uint8, 255, 0)
            assert isinstance(acted, specs.DiscreteArray)
            assert (acted.num_values, acted.dtype) == (actions, np.int32)
            assert spec.gymnasium_observation_space == spec.observation_space == env.observation_space
            assert spec.gymnasium_action_space == spec.action_space == env.action_space
        env.action_space.seed(1)
        first = env.action_space.sample()
        env.action_space.seed(1)
        assert first == env.action_space.sample()
    assert envpool.make_gym("Pong-v5", full_action_space=True).action_space.n == 18


@pytest.mark.parametrize("task", ["Pong-v5", "Pendulum-v1", "Taxi-v3", "Ant-v4", "CheetahRun-v1"])
def test_specs_agree_with_envpools(task: str) -> None:
    peer = pytest.importorskip("envpool")
    ours, theirs = headrace.make_spec(task), peer.make_spec(task)
    for name in ("action_array_spec", "state_array_spec"):
        for key, want in getattr(theirs, name).items():
            found = getattr(ours, name).get(key)
            if found is None:
                assert task == "Ant-v4", key  # its info is Gymnasium's; EnvPool's has a few more keys
                continue
            assert (found.shape, found.dtype) == (want.shape, want.dtype), key
            assert np.ndim(found.minimum) == np.ndim(want.minimum)
    assert repr(ours.action_spec()) == repr(theirs.action_spec())
    space = ours.observation_space
    observed, wanted = ours.observation_spec(), theirs.observation_spec()
    assert observed._fields[:2] == wanted._fields[:2] == ("env_id", "players")
    for key in space if isinstance(space, gym.spaces.Dict) else ["obs"]:
        assert (getattr(observed, key).shape, getattr(observed, key).dtype) == (
            getattr(wanted, key).shape,
            getattr(wanted, key).dtype,
        )


def test_protocol_and_registration_modules_offer_envpools_names(envpool: Any) -> None:
    protocol = importlib.import_module(f"{envpool.__name__}.python.protocol")
    registration = importlib.import_module(f"{envpool.__name__}.registration")
    for name in ("EnvPool", "EnvSpec", "DMEnvPool", "GymnasiumEnvPool"):
        assert getattr(protocol, name) is getattr(envpool, name)
    assert protocol.ArraySpec
    for name in ("make", "make_dm", "make_gym", "make_gymnasium", "make_spec", "list_all_envs", "register"):
        assert callable(getattr(envpool, name))
        assert callable(getattr(registration, name))
    assert headrace.__all__[: len(envpool.__all__)] == list(envpool.__all__)


def test_pools_and_specs_are_instances_of_envpools_types() -> None:
    from headrace.python.protocol import DMEnvPool, EnvPool, EnvSpec, GymnasiumEnvPool

    env, vector, dm = (headrace.make("CartPole-v1", kind) for kind in ("gym", "vec", "dm"))  # type: ignore[call-overload]
    assert all(isinstance(one, EnvPool) and isinstance(one.spec, EnvSpec) for one in (env, vector, dm))
    assert isinstance(env, GymnasiumEnvPool)
    assert isinstance(dm, DMEnvPool)
    assert isinstance(env.spec, headrace.TaskSpec)
