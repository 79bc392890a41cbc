"""Programs for EnvPool run with their import changed: the same calls, made to EnvPool and to Headrace.

They use what EnvPool's own examples and tests use: every call, option, attribute and name that
tasks of both have. What differs by intent is in docs/coming-from-envpool.md.
"""

from __future__ import annotations

import importlib
import pickle
from typing import Any

import dm_env
import gymnasium as gym
import numpy as np
import pytest
from dm_env import specs

import headrace
from headrace.errors import ActionError, OptionError, RenderError

PACKAGES = ["envpool", "headrace"]
CONTROL = ["CartPole-v0", "CartPole-v1", "Pendulum-v1", "MountainCar-v0", "MountainCarContinuous-v0", "Acrobot-v1"]
TOYS = ["Catch-v0", "FrozenLake-v1", "FrozenLake8x8-v1", "Taxi-v3", "NChain-v0", "CliffWalking-v0", "Blackjack-v1"]
ROBOTS = ["Ant-v4", "HalfCheetah-v5", "Hopper-v4", "CheetahRun-v1", "WalkerWalk-v1"]


@pytest.fixture(params=PACKAGES)
def envpool(request: pytest.FixtureRequest) -> Any:
    """What a program imports as ``envpool``."""
    return pytest.importorskip(request.param)


def is_a(thing: Any, kind: type) -> bool:
    """`isinstance` that leaves a type checker no wiser: these are two packages' types in one."""
    return isinstance(thing, kind)


def parts(obs: Any) -> list[Any]:
    return list(obs.values()) if isinstance(obs, dict) else [obs]


def sampled(space: Any, count: int) -> np.ndarray:
    return np.array([space.sample() for _ in range(count)])


# -- stepping ------------------------------------------------------------------------------------


def test_steps_in_turn(envpool: Any) -> None:
    env = envpool.make_gym("Pong-v5", num_envs=4)
    obs, _ = env.reset()
    assert obs.shape == (4, 4, 84, 84)
    for _ in range(20):
        env.step(np.random.randint(env.action_space.n, size=4))
    obs, rew, term, trunc, info = env.step(np.random.randint(env.action_space.n, size=4))
    assert rew.dtype == np.float32
    assert term.dtype == trunc.dtype == np.bool_
    assert info["lives"].dtype == info["env_id"].dtype == info["players"]["env_id"].dtype == np.int32
    obs, _ = env.reset(np.array([1, 3]))
    assert obs.shape == (2, 4, 84, 84)
    env_id = np.array([3, 2, 0])
    obs, *_, info = env.step(np.array([0, 0, 2]), env_id)
    np.testing.assert_array_equal(info["env_id"], env_id)
    assert obs.shape == (3, 4, 84, 84)
    env.close()


def test_time_steps(envpool: Any) -> None:
    env = envpool.make_dm("Pong-v5", num_envs=4)
    assert is_a(env, dm_env.Environment)
    ts = env.reset()
    assert ts.first().all()
    for _ in range(10):
        ts = env.step(np.random.randint(env.action_spec().num_values, size=4))
    assert ts.mid().all()
    assert ts.observation.obs.shape == (4, 4, 84, 84)
    assert ts.observation.lives.dtype == ts.observation.players.env_id.dtype == np.int32
    assert ts.reward.dtype == ts.discount.dtype == np.float32
    assert env.reset(np.array([1, 3])).observation.obs.shape == (2, 4, 84, 84)
    ts = env.step(np.array([0, 0, 2]), np.array([3, 2, 0]))
    np.testing.assert_array_equal(ts.observation.env_id, [3, 2, 0])
    env.close()


def test_whoever_is_done(envpool: Any) -> None:
    dm = envpool.make_dm("Pong-v5", num_envs=8, batch_size=4)
    ts = dm.reset()
    for _ in range(10):
        assert len(ts.observation.env_id) == 4
        ts = dm.step(np.random.randint(6, size=4), ts.observation.env_id)
    dm.close()
    env = envpool.make_gym("Pong-v5", num_envs=8, batch_size=4, gym_reset_return_info=True)
    obs, info = env.reset()
    for _ in range(10):
        assert obs.shape == (4, 4, 84, 84)
        obs, *_, info = env.step(np.random.randint(6, size=4), info["env_id"])
    assert env.is_async
    assert len(env) == 8
    env.close()


def test_sends_and_receives(envpool: Any) -> None:
    env = envpool.make_gym("Pong-v5", num_envs=8, batch_size=4, num_threads=2, thread_affinity_offset=0)
    env.async_reset()
    obs, info = env.recv(True)
    env.send(np.zeros(4, np.int32), info["env_id"])
    for _ in range(10):
        obs, _rew, _term, _trunc, info = env.recv()
        assert obs.shape == (4, 4, 84, 84)
        env.send(np.random.randint(env.action_space.n, size=4), info["env_id"])
    env.close()


@pytest.mark.parametrize("kind", ["gym", "dm"])
def test_actions_in_every_form(envpool: Any, kind: str) -> None:
    env = envpool.make("Pong-v5", env_type=kind, num_envs=4)
    env.async_reset()
    env.recv()
    env_id = np.arange(4, dtype=np.int32)
    env.send({"env_id": env_id, "players.env_id": env_id, "action": np.ones(4, np.int32)})
    env.recv()
    for action in (np.ones(4), np.ones(4, np.float32), np.ones(4, np.int64), np.ones(4, np.uint8)):
        env.send(action)
        env.recv()
    env.step({"env_id": env_id, "action": np.ones(4, np.int32)})
    env.close()


def test_fractions_are_no_choices() -> None:
    with headrace.make_gym("CartPole-v1", num_envs=2) as env:
        env.reset()
        for wrong in ([0.5, 1.0], [np.nan, 1.0], [2.0, 1.0]):
            with pytest.raises(ActionError):
                env.step(np.array(wrong))


def test_a_first_step_resets(envpool: Any) -> None:
    env = envpool.make_gym("CartPole-v1", num_envs=3, seed=0)
    _, rew, term, trunc, info = env.step(np.array([1]), np.array([2]))
    assert (rew[0], term[0], trunc[0], info["elapsed_step"][0]) == (0, False, False, 0)
    _, rew, *_, info = env.step(np.ones(3, np.int32))
    np.testing.assert_array_equal(rew, [0, 0, 1])
    np.testing.assert_array_equal(info["elapsed_step"], [0, 0, 1])
    np.testing.assert_array_equal(info["players"]["env_id"], [0, 1, 2])
    env.step(np.ones(3, np.int32))
    env.close()
    env = envpool.make_dm("CheetahRun-v1", num_envs=2)
    assert env.step(np.zeros((2, 6))).first().all()
    env.close()


def test_a_first_step_that_is_no_action_is_an_error() -> None:
    with headrace.make_gym("CartPole-v1", num_envs=2) as env, pytest.raises(ActionError):
        env.step(np.array([0, 7]))


@pytest.mark.parametrize("task", ["CartPole-v1", "Pendulum-v1", "MountainCar-v0", "HalfCheetah-v4"])
def test_seeds_decide(envpool: Any, task: str) -> None:
    env0, env1, env2 = (envpool.make_gym(task, num_envs=4, seed=seed) for seed in (0, 0, 1))
    space = env0.observation_space
    eps = np.finfo(np.float32).eps
    for _ in range(30):
        action = sampled(env0.action_space, 4)
        obs0, obs1, obs2 = (env.step(action)[0] for env in (env0, env1, env2))
        np.testing.assert_array_equal(obs0, obs1)
        assert not np.allclose(obs0, obs2)
        assert (space.low - eps <= obs0).all()
        assert (obs0 <= space.high + eps).all()
    for env in (env0, env1, env2):
        env.close()


def test_one_seed_each(envpool: Any) -> None:
    lists = [envpool.make_gym("CartPole-v1", num_envs=2, **{name: [5, 9]}) for name in ("seed", "env_seed")]
    lists.append(envpool.make_gym("CartPole-v1", num_envs=2, seed=np.array([5, 9])))
    assert all(list(env.config["env_seed"]) == [5, 9] for env in lists)
    first, *others = (env.reset()[0] for env in lists)
    for other in others:
        np.testing.assert_array_equal(first, other)


def test_both_interfaces_see_the_same(envpool: Any) -> None:
    one = envpool.make_gym("SpaceInvaders-v5", num_envs=2, seed=3)
    other = envpool.make_dm("SpaceInvaders-v5", num_envs=2, seed=3)
    np.testing.assert_array_equal(one.reset()[0], other.reset().observation.obs)
    for _ in range(20):
        action = np.random.randint(6, size=2)
        np.testing.assert_array_equal(one.step(action)[0], other.step(action).observation.obs)


@pytest.mark.parametrize("kind", ["gym", "dm"])
def test_catch_is_won_by_following_the_ball(envpool: Any, kind: str) -> None:
    env = envpool.make("Catch-v0", env_type=kind, num_envs=3)
    obs = env.reset().observation.obs if kind == "dm" else env.reset()[0]
    ball, paddle = np.where(obs[:, 0] == 1)[1], np.where(obs[:, -1] == 1)[1]
    rew = done = np.zeros(3)
    for _ in range(9):
        action = np.sign(ball - paddle) + 1
        if kind == "dm":
            ts = env.step(action, np.arange(3))
            obs, rew, done = ts.observation.obs, ts.reward, ts.last()
        else:
            obs, rew, done, _, _ = env.step(action, np.arange(3))
        paddle = np.where(obs[:, -1] == 1)[1]
    assert (rew == 1).all()
    assert done.all()


def test_time_runs_out_for_some(envpool: Any) -> None:
    env = envpool.make_gym("Defender-v5", num_envs=5, max_episode_steps=6)
    env.reset()
    odd = np.arange(5)[1::2]
    env.step(np.zeros(len(odd), dtype=int), env_id=odd)
    for _ in range(4):
        *_, truncated, _info = env.step(np.zeros(5, dtype=int), env_id=np.arange(5))
        assert not truncated.any()
    *_, truncated, info = env.step(np.zeros(5, dtype=int), env_id=np.arange(5))
    assert sorted(info["env_id"][truncated]) == odd.tolist()


# -- making --------------------------------------------------------------------------------------


def test_two_ways_to_make_one(envpool: Any) -> None:
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
def test_every_task_starts(envpool: Any, task: str) -> None:
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


def test_a_spec_takes_what_make_takes(envpool: Any) -> None:
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


def test_a_threshold_of_ones_own(envpool: Any) -> None:
    assert envpool.make_spec("CartPole-v1").config.reward_threshold == 475.0
    assert envpool.make_spec("CartPole-v1", reward_threshold=100.0).reward_threshold == 100.0
    env = envpool.make_gym("CartPole-v1", reward_threshold=100.0)
    assert env.spec.reward_threshold == env.config["reward_threshold"] == 100.0


def test_pixels_have_a_name(envpool: Any) -> None:
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
def test_a_config_makes_the_same_again(task: str) -> None:
    env = headrace.make_gym(task, num_envs=2, seed=[4, 5])
    twin = headrace.make_gym(task, **env.config)
    assert str(twin) == str(env)
    for one, other in zip(parts(env.reset()[0]), parts(twin.reset()[0]), strict=True):
        np.testing.assert_array_equal(one, other)


def test_specs_of_choices_and_pictures(envpool: Any) -> None:
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
def test_specs_agree(task: str) -> None:
    peer = pytest.importorskip("envpool")
    ours, theirs = headrace.make_spec(task), peer.make_spec(task)
    for name in ("action_array_spec", "state_array_spec"):
        for key, want in getattr(theirs, name).items():
            found = getattr(ours, name).get(key)
            if found is None:
                assert task == "Ant-v4", key  # whose info is Gymnasium's, with a few keys more in EnvPool
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


def test_names_that_programs_import(envpool: Any) -> None:
    protocol = importlib.import_module(f"{envpool.__name__}.python.protocol")
    registration = importlib.import_module(f"{envpool.__name__}.registration")
    for name in ("EnvPool", "EnvSpec", "DMEnvPool", "GymnasiumEnvPool"):
        assert getattr(protocol, name) is getattr(envpool, name)
    assert protocol.ArraySpec
    for name in ("make", "make_dm", "make_gym", "make_gymnasium", "make_spec", "list_all_envs", "register"):
        assert callable(getattr(envpool, name))
        assert callable(getattr(registration, name))
    assert set(headrace.__all__) >= set(envpool.__all__)


def test_types_are_those_of_the_objects() -> None:
    from headrace.python.protocol import DMEnvPool, EnvPool, EnvSpec, GymnasiumEnvPool

    env, vector, dm = (headrace.make("CartPole-v1", kind) for kind in ("gym", "vec", "dm"))  # type: ignore[call-overload]
    assert all(isinstance(one, EnvPool) and isinstance(one.spec, EnvSpec) for one in (env, vector, dm))
    assert isinstance(env, GymnasiumEnvPool)
    assert isinstance(dm, DMEnvPool)
    assert isinstance(env.spec, headrace.TaskSpec)


# -- the object ----------------------------------------------------------------------------------


def test_attributes(envpool: Any) -> None:
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


def test_attributes_that_programs_set() -> None:
    env = headrace.make_gym("CartPole-v1", num_envs=3)
    env.num_envs = env.spec.config.num_envs
    env.single_action_space, env.single_observation_space = env.action_space, env.observation_space
    env.spec.reward_threshold = 500
    env.reset()
    assert len(env.step(np.zeros(3, int))[1]) == 3


def test_resets_by_mask(envpool: Any) -> None:
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


def test_wrappers_for_an_environment(envpool: Any) -> None:
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


def test_wrappers_for_vectors(envpool: Any) -> None:
    env = gym.wrappers.vector.RecordEpisodeStatistics(envpool.make_gym("CartPole-v1", num_envs=3, seed=0))
    env.reset()
    found = []
    for _ in range(60):
        info = env.step(np.ones(3, np.int32))[-1]
        found += info["episode"]["l"][info["_episode"]].tolist() if "episode" in info else []
    assert len(found) >= 3
    assert env.unwrapped.num_envs == 3
    env.close()


def test_a_wrapper_has_a_spec() -> None:
    spec: Any = gym.wrappers.TransformReward(headrace.make_gym("CartPole-v1"), lambda reward: reward).spec
    assert spec.id == "CartPole-v1"
    assert [wrapper.name for wrapper in spec.additional_wrappers] == ["TransformReward"]


# -- pictures ------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", ["CartPole-v1", "Pendulum-v1", "Pong-v5"])
def test_pictures(envpool: Any, task: str) -> None:
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


def test_small_pictures_are_averages() -> None:
    with headrace.make_gym("Pong-v5", render_width=80) as env, headrace.make_gym("Pong-v5") as whole:
        for one in (env, whole):
            one.reset(seed=1)
        pairs = whole.render().reshape(1, 210, 80, 2, 3).astype(float).mean(3)
        assert np.abs(env.render() - pairs).max() <= 0.5
    vector = headrace.make_vec("CartPole-v1", num_envs=2, render_mode="rgb_array", render_width=60)
    vector.reset()
    assert [frame.shape for frame in vector.render() or ()] == [(400, 60, 3)] * 2


def test_pictures_from_another_camera() -> None:
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


def test_pictures_that_cannot_be() -> None:
    for wrong in ({"render_env_id": 2}, {"render_width": -1}, {"render_height": 10**6}, {"render_camera_id": 0}):
        with pytest.raises(OptionError, match=min(wrong) if "camera" not in min(wrong) else "one side only"):
            headrace.make_gym("CartPole-v1", num_envs=2, **wrong)
    with pytest.raises(OptionError, match="render_env_id is for an env_type"):
        headrace.make("CartPole-v1", render_env_id=0)
    with headrace.make_gym("CartPole-v1") as env:
        env.reset()
        with pytest.raises(OptionError, match="one side only"):
            env.render(camera_id=3)


# -- what a view owes its pool -------------------------------------------------------------------


def test_states_and_pickles() -> None:
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
def test_states_do_not_depend_on_how_they_would_be_drawn(task: str) -> None:
    shown = {"render_mode": "rgb_array", "render_width": 64, "render_height": 48}
    with headrace.make_gym(task, seed=1) as plain, headrace.make_gym(task, seed=2, **shown) as drawn:
        plain.reset()
        drawn.reset()
        action = np.zeros((1, *(plain.action_space.shape or ())), plain.action_space.dtype)
        drawn.load_state(None, plain.save_state())
        np.testing.assert_array_equal(drawn.step(action)[0], plain.step(action)[0])
        plain.load_state(None, drawn.save_state())
        np.testing.assert_array_equal(drawn.step(action)[0], plain.step(action)[0])


def test_a_bad_option_closes_the_pool_and_is_named() -> None:
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
