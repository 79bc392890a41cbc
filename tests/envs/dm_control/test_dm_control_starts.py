"""Starts that need more than one random draw, beside dm_control's: searches, terrain, springs, hands."""

# pyright: reportAttributeAccessIssue=false, reportArgumentType=false, reportCallIssue=false
# pyright: reportOptionalIterable=false, reportIncompatibleMethodOverride=false

import numpy as np
import pytest

pytest.importorskip("dm_control")
pytest.importorskip("mujoco")  # its library must be there first
pytest.importorskip("headrace_mujoco._mujoco")

import mujoco

import headrace
from headrace.envs.dm_control import terrain

official = pytest.importorskip("official")
ndimage = pytest.importorskip("scipy.ndimage")
stats = pytest.importorskip("scipy.stats")

# ---- quadruped ----------------------------------------------------------------------------------


def contacts(theirs, pool, env_id, lift):
    """The number of contacts of dm_control's quadruped in the pose of ours, raised by ``lift``."""
    official.begin(theirs, pool, env_id)
    model, data = theirs.physics.model.ptr, theirs.physics.data.ptr
    data.qpos[2] += lift
    mujoco.mj_fwdPosition(model, data)
    return data.ncon


@pytest.mark.parametrize("task", ["QuadrupedRun-v1", "QuadrupedEscape-v1"])
def test_a_quadruped_begins_at_the_lowest_height_without_contacts(task):
    theirs = official.load(task)
    with headrace.make(task, num_envs=8, seed=1) as pool:
        pool.reset()
        for i in range(8):
            assert contacts(theirs, pool, i, 0) == 0
            assert contacts(theirs, pool, i, -0.01) > 0


def test_the_start_height_of_a_quadruped_is_found_before_the_ball_is_thrown():
    theirs = official.load("QuadrupedFetch-v1")
    with headrace.make("QuadrupedFetch-v1", num_envs=20, seed=1) as pool:
        pool.reset()
        arrays = pool._executor.state_arrays()
        assert (arrays["qpos"][:, 25] == 2).all()
        assert np.ptp(arrays["qpos"][:, 23]) > 5
        arrays["qpos"][:, 23:26] = theirs.physics.model.qpos0[23:26]
        for i in range(20):
            assert contacts(theirs, pool, i, 0) == 0
            assert contacts(theirs, pool, i, -0.01) > 0


@pytest.mark.parametrize(("knots", "points"), [(30, 201), (7, 50), (3, 3)])
def test_the_spline_equals_the_zoom_of_scipy(knots, points):
    values = np.random.default_rng(0).uniform(0, 1, (knots, knots))
    matrix = terrain.spline(knots, points)
    wanted = ndimage.zoom(values, points / knots)
    np.testing.assert_allclose(matrix @ values @ matrix.T, wanted, rtol=0, atol=1e-13)


class Drawn(np.random.RandomState):
    """Returns these bumps from `uniform`; all its other draws are random."""

    bumps: np.ndarray

    def uniform(self, low=0.0, high=1.0, size=None):
        assert (low, high, size) == (0.15, 1, self.bumps.shape)
        return self.bumps


def test_the_terrain_equals_that_of_dm_control_for_the_same_bumps():
    theirs = official.load("QuadrupedEscape-v1")
    theirs.task._random = drawn = Drawn(0)
    with headrace.make("QuadrupedEscape-v1", num_envs=2, seed=2) as pool:
        pool.reset()
        arrays, fields = pool._executor.state_arrays(), pool._executor._memory.varying["hfield_data"]
        assert stats.kstest(arrays["bumps"].ravel(), "uniform", (0.15, 0.85)).pvalue > 1e-3
        assert not np.array_equal(*arrays["bumps"])
        for drawn.bumps, heights in zip(arrays["bumps"], fields, strict=True):
            theirs.task.initialize_episode(theirs.physics)
            np.testing.assert_allclose(heights, theirs.physics.model.hfield_data, rtol=0, atol=1e-7)


# ---- manipulator --------------------------------------------------------------------------------


def kinds_of_start(hand, thing, target, velocity):
    """Whether things [n] begin at the target or in the hand, and each with a speed left by a refused start."""
    turn = 2 * np.arctan2(hand[:, 3], hand[:, 2])
    grasp = hand[:, :2] + 0.065 * np.stack([np.sin(turn), np.cos(turn)], 1)
    at_target = np.abs(thing[:, :2] - target[:, :2]).max(1) < 1e-9
    held = np.abs(thing[:, :2] - grasp).max(1) < 1e-9
    moving = velocity[:, 0] != 0
    assert moving[~at_target & ~held].all()
    return np.stack([at_target, held, at_target & moving, held & moving], 1)


@pytest.mark.parametrize("task", ["ManipulatorBringBall-v1", "ManipulatorInsertPeg-v1"])
def test_objects_start_at_target_in_hand_or_elsewhere_as_often_as_in_dm_control(task):
    keys = ("hand_pos", "object_pos", "target_pos", "object_vel")
    theirs = official.load(task, seed=1)
    with headrace.make(task, num_envs=4000, seed=1) as pool:
        obs, _ = pool.reset()
        ours = kinds_of_start(*[obs[key] for key in keys])
    rows = [theirs.reset().observation for _ in range(400)]
    wanted = kinds_of_start(*[np.stack([row[key] for row in rows]) for key in keys])
    for a, b in zip(ours.T, wanted.T, strict=True):
        spread = np.sqrt(a.mean() * (1 - a.mean()) * (1 / len(a) + 1 / len(b)))
        assert abs(a.mean() - b.mean()) < 3.5 * spread


# ---- lqr ----------------------------------------------------------------------------------------


def springs(pool):
    return pool._executor._memory.varying["jnt_stiffness"].copy()


def test_spring_stiffness_is_drawn_from_the_seed_and_kept_over_resets():
    with headrace.make("LqrLqr62-v1", num_envs=500, seed=1, max_episode_steps=3) as pool:
        pool.reset()
        first = springs(pool)
        assert stats.kstest(first.ravel(), "uniform", (15, 10)).pvalue > 1e-3
        assert len(np.unique(first)) == first.size
        for _ in range(10):
            pool.step(np.zeros((500, 2)))
        pool.reset()
        np.testing.assert_array_equal(springs(pool), first)
        obs, _ = pool.reset(seed=2)
        assert not np.isin(springs(pool), first[1:]).all()
        with headrace.make("LqrLqr62-v1", num_envs=500, seed=2) as other:
            np.testing.assert_array_equal(other.reset()[0]["position"], obs["position"])
            np.testing.assert_array_equal(springs(other), springs(pool))


@pytest.mark.parametrize(("task", "size"), [("LqrLqr21-v1", 2), ("LqrLqr62-v1", 6)])
def test_lqr_terminates_when_the_state_is_at_rest(task, size):
    """With discount 0, as no further reward is possible."""
    theirs = official.load(task)
    with headrace.make(task, num_envs=2, seed=1, autoreset="disabled") as pool:
        obs, _ = pool.reset()
        np.testing.assert_allclose(np.linalg.norm(obs["position"], axis=1), np.sqrt(2))
        arrays = pool._executor.state_arrays()
        arrays["qpos"][0] = 3e-7 / np.sqrt(size)
        arrays["qpos"][1] = 2e-6
        official.begin(theirs, pool)
        step = theirs.step(np.zeros(pool.action_space.shape))
        _, _, terminated, truncated, _ = pool.step(np.zeros((2, *pool.action_space.shape)))
    assert step.last()
    assert step.discount == 0
    assert terminated.tolist() == [True, False]
    assert not truncated.any()
