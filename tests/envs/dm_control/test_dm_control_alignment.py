"""Every task against dm_control: observations, rewards and ends step by step, and how episodes begin."""

# pyright: reportAttributeAccessIssue=false

import os

import numpy as np
import pytest

from nightly import rest_nightly

pytest.importorskip("dm_control")
pytest.importorskip("mujoco")  # its library must be there first
pytest.importorskip("headrace_mujoco._mujoco")

import headrace
from headrace.envs.dm_control import SUITE, TASKS

official = pytest.importorskip("official")
stats = pytest.importorskip("scipy.stats")

EPISODES = 3
# Physics is bit-identical, so the first steps of an episode show what all of it would. HEADRACE_LONG_TESTS=1
# plays episodes of dm_control's own length, 1000 steps.
STEPS = 1000 if os.environ.get("HEADRACE_LONG_TESTS") else 64
# Rewards are float32 here. Observations are the same numbers but for the last bits of what is computed from them:
# logarithms, rotated vectors.
TOLERANCE = 1e-12
REWARD_TOLERANCE = 1e-7


def random_actions(rng, space, *shape):
    low, high = np.nan_to_num(space.low, neginf=-1), np.nan_to_num(space.high, posinf=1)
    return rng.uniform(low, high, (*shape, *space.shape))


def assert_same_observation(ours, theirs, row=0):
    assert list(ours) == list(theirs)
    for key, value in theirs.items():
        assert ours[key][row].shape == np.shape(value), key
        np.testing.assert_allclose(ours[key][row], value, rtol=0, atol=TOLERANCE, err_msg=key)


@pytest.mark.parametrize("task", rest_nightly(TASKS, *TASKS[::6]))
def test_episodes_equal_those_of_dm_control_step_by_step(task):
    theirs, rng = official.load(task), np.random.default_rng(0)
    theirs._step_limit = STEPS
    with headrace.make(task, seed=1, autoreset="disabled", physics="mujoco", max_episode_steps=STEPS) as pool:
        space = pool.action_space
        for _ in range(EPISODES):
            obs, _ = pool.reset()
            assert_same_observation(obs, official.begin(theirs, pool))
            over = False
            while not over:
                action = random_actions(rng, space)
                obs, reward, terminated, truncated, _ = pool.step(action[None])
                step = theirs.step(action)
                assert_same_observation(obs, step.observation)
                assert float(reward[0]) == pytest.approx(step.reward, rel=REWARD_TOLERANCE, abs=REWARD_TOLERANCE)
                over = step.last()
                assert bool(terminated[0] or truncated[0]) == over
                assert bool(terminated[0]) == (over and step.discount == 0)


def spread(deviation, *names):
    """Random states near the zero state, where many tasks have their goal."""

    def place(rng, arrays):
        for name in names or ("qpos", "qvel"):
            arrays[name][:] = rng.normal(0, deviation, arrays[name].shape)

    return place


def ball_in_the_cup(rng, arrays):
    arrays["qpos"][:] = rng.normal([0, 0, 0, 0.35], 0.03, arrays["qpos"].shape)


def outstretched_to_the_target(rng, arrays):
    arrays["qpos"][:] = rng.normal(0, 0.05, arrays["qpos"].shape)
    target = 6  # behind the arena's six geoms
    arrays["geom_pos"][:, target] = rng.normal([0.24, 0, 0.01], [0.02, 0.02, 0], (len(arrays["qpos"]), 3))


def fast(index, low, high):
    def place(rng, arrays):
        arrays["qvel"][:, index] = rng.uniform(low, high, len(arrays["qvel"]))

    return place


def upright_and_fast(index, high, deviation=0.05):
    def place(rng, arrays):
        spread(deviation)(rng, arrays)
        fast(index, 0, high)(rng, arrays)

    return place


def own_pose(task, deviation, ranges):
    """The model's own pose with noise, but the entries in ``ranges`` uniform: (array, index) → (low, high)."""

    def place(rng, arrays):
        pose = official.load(task).physics.model.qpos0
        arrays["qpos"][:] = rng.normal(pose, deviation, arrays["qpos"].shape)
        arrays["qvel"][:] = 0
        for (name, index), (low, high) in ranges.items():
            arrays[name][:, index] = rng.uniform(low, high, len(arrays[name]))

    return place


# rewarded states of the tasks in which random actions hardly ever reach one from a start
GOALS = {
    "AcrobotSwingup-v1": spread(0.3),
    "AcrobotSwingupSparse-v1": spread(0.3),
    "BallInCupCatch-v1": ball_in_the_cup,
    "CartpoleBalanceSparse-v1": spread(0.1),
    "CartpoleSwingup-v1": spread(0.1),
    "CartpoleSwingupSparse-v1": spread(0.1),
    "CartpoleTwoPoles-v1": spread(0.1),
    "CartpoleThreePoles-v1": spread(0.1),
    "CheetahRun-v1": fast(0, -2, 14),
    "DogStand-v1": own_pose("DogStand-v1", 0.3, {}),
    "DogFetch-v1": own_pose("DogFetch-v1", 0.05, {("qpos", 80): (-0.5, 0.7), ("qpos", 81): (-0.5, 0.5)}),
    "FingerSpin-v1": fast(2, -40, 0),
    "HopperStand-v1": spread(0.1, "qpos"),
    "HopperHop-v1": upright_and_fast(0, 4, 0.1),
    "HumanoidStand-v1": own_pose("HumanoidStand-v1", 0.1, {("qvel", 0): (-2, 2), ("qvel", 1): (-2, 2)}),
    "HumanoidWalk-v1": own_pose("HumanoidWalk-v1", 0.1, {("qvel", 0): (0, 2)}),
    "HumanoidRun-v1": own_pose("HumanoidRun-v1", 0.1, {("qvel", 0): (0, 12)}),
    "HumanoidRunPureState-v1": own_pose("HumanoidRunPureState-v1", 0.1, {("qvel", 1): (0, 12)}),
    "HumanoidCMUStand-v1": own_pose("HumanoidCMUStand-v1", 0.1, {("qvel", 0): (-2, 2), ("qvel", 1): (-2, 2)}),
    "HumanoidCMUWalk-v1": own_pose("HumanoidCMUWalk-v1", 0.1, {("qvel", 0): (0, 2)}),
    "HumanoidCMURun-v1": own_pose("HumanoidCMURun-v1", 0.1, {("qvel", 0): (0, 12)}),
    "LqrLqr21-v1": spread(0.3),
    "LqrLqr62-v1": spread(0.3),
    "PendulumSwingup-v1": spread(0.1),
    "PointMassEasy-v1": spread(0.01),
    "PointMassHard-v1": spread(0.01),
    "QuadrupedEscape-v1": own_pose("QuadrupedEscape-v1", 0.1, {("qpos", 0): (-25, 25), ("qpos", 2): (5, 8)}),
    "QuadrupedRun-v1": own_pose("QuadrupedRun-v1", 0.1, {("qvel", 0): (0, 8)}),
    "ReacherEasy-v1": outstretched_to_the_target,
    "ReacherHard-v1": outstretched_to_the_target,
    "WalkerStand-v1": spread(0.3),
    "WalkerWalk-v1": upright_and_fast(1, 2),
    "WalkerRun-v1": upright_and_fast(1, 10),
}


@pytest.mark.parametrize("task", rest_nightly(TASKS, *TASKS[1::6]))
def test_rewards_near_the_goal_equal_those_of_dm_control(task):
    n, theirs, rng = 60, official.load(task), np.random.default_rng(1)
    with headrace.make(task, num_envs=n, seed=2, autoreset="disabled", physics="mujoco") as pool:
        pool.reset()
        if task in GOALS:
            GOALS[task](rng, pool._executor.state_arrays())
        starts = pool.save_state()
        actions = random_actions(rng, pool.action_space, n)
        _, rewards, *_ = pool.step(actions)
        pool.load_state(pool.all_env_ids, starts)
        wanted = []
        for i in range(n):
            official.begin(theirs, pool, i)
            wanted.append(theirs.step(actions[i]).reward)
    np.testing.assert_allclose(rewards, wanted, rtol=REWARD_TOLERANCE, atol=REWARD_TOLERANCE)
    assert max(wanted) > 0.3, "no state is worth much: the test shows little"
    assert min(wanted) < max(wanted) - 0.1


def how_many(task):
    """Starts to compare: ours and dm_control's."""
    return (150, 30) if task == "QuadrupedEscape-v1" else (400, 100)  # a terrain takes its time


@pytest.mark.parametrize("task", rest_nightly(TASKS, *TASKS[2::6]))
def test_starts_are_distributed_as_in_dm_control(task):
    theirs, (n, m), rows = official.load(task, seed=4), how_many(task), []
    with headrace.make(task, num_envs=n, seed=5, autoreset="disabled", physics="mujoco") as pool:
        obs, _ = pool.reset()
        varying = {name: np.reshape(rows, (n, -1)) for name, rows in pool._executor._memory.varying.items()}
        if task.startswith("Lqr"):
            del varying["jnt_stiffness"]  # drawn where dm_control makes an environment
        ours = {key: np.reshape(value, (n, -1)) for key, value in obs.items()} | varying
        for _ in range(m):
            seen = theirs.reset().observation
            seen |= {name: getattr(theirs.physics.model, name) for name in varying}
            rows.append({key: np.ravel(value).copy() for key, value in seen.items()})
    for key, found in ours.items():
        wanted = np.stack([row[key] for row in rows])
        assert found.shape[1:] == wanted.shape[1:], key
        for i, (a, b) in enumerate(zip(found.T, wanted.T, strict=True)):
            if key == "hfield_data" and i % 397:
                continue  # some of 40,000 numbers will do
            if max(np.ptp(a), np.ptp(b)) < 1e-9:
                np.testing.assert_allclose(a, b[0], rtol=0, atol=1e-9, err_msg=f"{key}[{i}]")
                continue
            # both samples are the same in every run; of the suite's thousand numbers one may well have 1e-3
            assert stats.ks_2samp(a, b).pvalue > 1e-4, f"{key}[{i}]"


@pytest.mark.parametrize("task", rest_nightly(TASKS, *TASKS[::3]))
def test_spaces_and_limits_equal_those_of_dm_control(task):
    theirs = official.load(task)
    spec = headrace.make_spec(task)
    wanted = theirs.observation_spec()
    assert list(spec.observation.spaces) == list(wanted)
    for key, space in spec.observation.spaces.items():
        assert (space.shape, space.dtype) == (wanted[key].shape, np.float64)
    action = theirs.action_spec()
    assert (spec.action.shape, spec.action.dtype) == (action.shape, np.float64)
    bounded = np.abs(action.minimum) < 1e9  # dm_control writes 1e10 for no bound
    np.testing.assert_array_equal(spec.action.low, np.where(bounded, action.minimum, -np.inf))
    np.testing.assert_array_equal(spec.action.high, np.where(bounded, action.maximum, np.inf))
    assert spec.frame_skip == theirs._n_sub_steps
    if np.isfinite(theirs._step_limit):
        assert spec.max_episode_steps == theirs._step_limit


@pytest.mark.parametrize("task", ["FishSwim-v1", "FingerTurnHard-v1", "WalkerWalk-v1"])
def test_flat_observations_have_the_order_of_dm_control(task):
    """All of dm_control's observations are in one array, in its own order."""
    theirs = official.load(task, flat_observation=True)
    with headrace.make(task, num_envs=3, seed=1, flat_observation=True) as pool:
        obs, _ = pool.reset()
        official.begin(theirs, pool)
        action = pool.action_space.high * 0.5
        obs = pool.step(np.stack([action] * 3))[0]
        (wanted,) = theirs.step(action).observation.values()
        assert obs.shape == (3, *wanted.shape)
        assert pool.observation_space.shape == wanted.shape
        np.testing.assert_allclose(obs[0], wanted, rtol=0, atol=TOLERANCE)


def test_task_names_are_among_those_of_envpool_and_cover_the_suite():
    envpool = pytest.importorskip("envpool")
    assert set(TASKS) <= set(envpool.list_all_envs())
    assert sorted(SUITE.values()) == sorted(official.suite.ALL_TASKS)
