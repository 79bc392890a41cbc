"""Each task against its official implementation: one synchronisation at reset and none after."""

# pyright: reportAttributeAccessIssue=false

import math

import gymnasium as gym
import numpy as np
import pytest
from kernel_states import arrays_of

import headrace
from headrace.envs.classic_control import TASKS, build
from headrace.errors import OptionError

EPISODES = 6


class PendulumV0(gym.Wrapper):
    """OpenAI Gym's Pendulum-v0: as v1, but the angle moves before the speed is limited."""

    def __init__(self):
        super().__init__(gym.make("Pendulum-v1"))

    def step(self, action):
        inner = self.env.unwrapped
        theta, speed = inner.state
        torque = np.clip(action, -2, 2)[0]
        result = self.env.step(action)
        speed = speed + (3 * 10.0 / 2 * np.sin(theta) + 3.0 * torque) * 0.05
        inner.state = np.array([theta + speed * 0.05, np.clip(speed, -8, 8)])
        return inner._get_obs(), *result[1:]


def official(task):
    return PendulumV0() if task == "Pendulum-v0" else gym.make(task)


def state_of(pool):
    """The state of environment 0 as Gymnasium keeps it."""
    arrays = [a[0] for name, a in arrays_of(pool).items() if name not in ("torque", "trig")]
    state = np.concatenate([np.atleast_1d(a) for a in arrays])
    return tuple(state) if pool.spec.task == "MountainCar-v0" else state


@pytest.mark.parametrize("task", TASKS)
def test_episodes_equal_the_official_implementation(task):
    reference = official(task)
    space = reference.action_space
    space.seed(7)
    with headrace.make(task, seed=3, autoreset="disabled") as pool:
        assert pool.observation_space == reference.observation_space
        assert pool.action_space == space
        for _ in range(EPISODES):
            reference.reset()
            obs, _ = pool.reset()
            reference.unwrapped.state = state_of(pool)
            over, steps = False, 0
            while not over:
                action = space.sample()
                steps += 1
                obs, reward, terminated, truncated, info = pool.step(np.array([action], space.dtype))
                want_obs, want_reward, want_terminated, want_truncated, _ = reference.step(action)
                np.testing.assert_allclose(obs[0], want_obs, rtol=0, atol=1e-6)
                assert reward[0] == pytest.approx(want_reward, rel=1e-6, abs=1e-6)
                assert (bool(terminated[0]), bool(truncated[0])) == (want_terminated, want_truncated)
                assert info["elapsed_step"][0] == steps
                over = want_terminated or want_truncated


@pytest.mark.parametrize("task", ["CartPole-v1", "Acrobot-v1"])
def test_steps_from_states_all_over_the_space_equal_the_official_implementation(task):
    """Random policies stay near the start; these steps begin anywhere, ends of episodes included."""
    rng = np.random.default_rng(0)
    scale = [2.4, 3, 0.21, 3] if task == "CartPole-v1" else [math.pi, math.pi, 4 * math.pi, 9 * math.pi]
    n, reference = 400, gym.make(task).unwrapped
    states = rng.uniform(-1, 1, (n, 4)) * scale
    actions = rng.integers(0, reference.action_space.n, n)
    with headrace.make(task, num_envs=n, seed=0, autoreset="disabled") as pool:
        pool.reset()
        for i, (name, array) in enumerate(arrays_of(pool).items()):
            if name == "trig":
                array[:] = np.stack([f(states[:, link]) for link in (0, 1) for f in (np.sin, np.cos)], axis=1)
            else:
                array[:] = states if array.ndim == 2 else states[:, i]
        obs, reward, terminated, _, _ = pool.step(actions)
    ends = 0
    for i in range(n):
        reference.reset()
        reference.state = states[i]
        want_obs, want_reward, want_terminated, _, _ = reference.step(actions[i])
        # float32 of values up to 30 is known to 2e-6
        np.testing.assert_allclose(obs[i], want_obs, rtol=2e-7, atol=1e-6)
        assert reward[i] == want_reward
        assert terminated[i] == want_terminated
        ends += want_terminated
    assert 20 < ends < n - 20


@pytest.mark.parametrize("task", [t for t in TASKS if t != "Pendulum-v0"])
def test_starts_are_distributed_as_in_the_official_implementation(task):
    n = 4000
    with headrace.make(task, num_envs=n, seed=11) as pool:
        ours, _ = pool.reset()
    reference = gym.make(task)
    theirs = np.stack([reference.reset(seed=i)[0] for i in range(n)])
    spread = theirs.std(axis=0)
    np.testing.assert_allclose(ours.mean(axis=0), theirs.mean(axis=0), rtol=0, atol=0.1 * spread.max())
    np.testing.assert_allclose(ours.std(axis=0), spread, rtol=0.05, atol=1e-7)
    assert (ours.min(axis=0) >= theirs.min(axis=0) - 0.05 * spread).all()
    assert (ours.max(axis=0) <= theirs.max(axis=0) + 0.05 * spread).all()


@pytest.mark.parametrize(
    ("task", "limit"), [("CartPole-v0", 200), ("CartPole-v1", 500), ("MountainCarContinuous-v0", 999)]
)
def test_episode_limits_depend_on_the_version_and_can_be_set(task, limit):
    assert build(task).spec.max_episode_steps == limit
    assert build(task, max_episode_steps=3).spec.max_episode_steps == 3


def test_pendulum_versions_differ_only_where_the_speed_is_limited():
    obs = {}
    for task in ("Pendulum-v0", "Pendulum-v1"):
        with headrace.make(task, num_envs=2, seed=5) as pool:
            pool.reset()
            arrays = arrays_of(pool)
            arrays["theta"][:] = math.pi / 2
            arrays["theta_dot"][:] = [0.0, 7.9]
            obs[task] = pool.step(np.full((2, 1), 2, np.float32))[0]
    np.testing.assert_array_equal(obs["Pendulum-v0"][0], obs["Pendulum-v1"][0])
    assert obs["Pendulum-v0"][1, 2] == obs["Pendulum-v1"][1, 2] == 8
    assert abs(obs["Pendulum-v0"][1, 0] - obs["Pendulum-v1"][1, 0]) > 0.01


def test_options_change_the_task_as_in_gymnasium():
    with headrace.make("CartPole-v1", seed=0, sutton_barto_reward=True, autoreset="disabled") as pool:
        pool.reset()
        rewards, over = [], False
        while not over:
            _, reward, terminated, _, _ = pool.step(np.array([1]))
            rewards.append(float(reward[0]))
            over = bool(terminated[0])
    assert rewards[-1] == -1
    assert set(rewards[:-1]) == {0}

    reference = gym.make("Pendulum-v1", g=9.81).unwrapped
    with headrace.make("Pendulum-v1", seed=0, g=9.81) as pool:
        pool.reset()
        reference.reset()
        reference.state = state_of(pool)
        action = np.array([0.5], np.float32)
        np.testing.assert_allclose(pool.step(action[None])[0][0], reference.step(action)[0], atol=1e-6)

    for task, action in (("MountainCar-v0", np.array([2])), ("MountainCarContinuous-v0", np.ones((1, 1), np.float32))):
        for goal_velocity, terminates in ((0.0, True), (0.06, False)):
            with headrace.make(task, seed=0, goal_velocity=goal_velocity) as pool:
                pool.reset()
                arrays = arrays_of(pool)
                arrays["position"][:], arrays["velocity"][:] = 0.49, 0.03
                assert bool(pool.step(action)[2][0]) is terminates


def test_acrobot_reports_its_angles_as_envpool_does():
    with headrace.make("Acrobot-v1", num_envs=3, seed=0) as pool:
        obs, info = pool.reset()
    assert info["state"].dtype == np.float32
    assert info["state"].shape == (3, 2)
    np.testing.assert_allclose(np.cos(info["state"]), obs[:, [0, 2]], atol=1e-6)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"gravity": 9.0}, r"it has .*\bg\b"),
        ({"g": "9.8"}, "g of Pendulum-v1 must be a finite number, not '9.8'"),
        ({"g": math.nan}, "finite"),
        ({"g": True}, "finite"),
        ({"max_episode_steps": -1}, "at least 0"),
        ({"max_episode_steps": 1.5}, "integer"),
        ({"max_episode_steps": 2**31}, "integer"),
        ({"max_episode_step": 5}, "max_episode_steps"),
        ({"sutton_barto_reward": True}, "no option 'sutton_barto_reward'"),
    ],
)
def test_invalid_options_are_refused_by_name(options, told):
    with pytest.raises(OptionError, match=told):
        build("Pendulum-v1", **options)


def test_sutton_barto_reward_must_be_a_bool():
    with pytest.raises(OptionError, match="True or False"):
        build("CartPole-v1", sutton_barto_reward=1)


@pytest.mark.parametrize("task", TASKS)
def test_frames_show_the_state(task):
    with headrace.make(task, num_envs=3, seed=0) as pool:
        pool.reset()
        still = pool.render([0, 2])
        for _ in range(10):
            pool.step(np.stack([pool.action_space.sample() for _ in range(3)]))
        moved = pool.render([0, 2])
    side = 500 if task.startswith(("Pendulum", "Acrobot")) else 600
    assert still.dtype == np.uint8
    assert still.shape[0] == 2
    assert still.shape[2:] == (side, 3)
    assert (still[0] != still[1]).any()
    assert (still != moved).any()
    assert 0.005 < (still[0] < 250).any(axis=-1).mean() < 0.5
