"""The reward of the G1 whose legs walk to a clock, beside its formulas in NumPy on MuJoCo's own steps."""

from __future__ import annotations

from typing import Any

import mujoco
import numpy as np

import headrace
from headrace.envs.robots.nano import SCALES, TERMS

GAMES = 32
HIPS = [8, 9, 14, 15]  # roll and yaw of the left, then the right, in qpos
SOLE = [(x, y, z, 1) for x in (-0.05, 0.13) for y in (-0.03, 0.03) for z in (-0.037, -0.021)]


def terms_of(model: Any, data: Any, before: np.ndarray, action: np.ndarray, last: np.ndarray) -> dict[str, float]:
    """The terms of a step from the positions and the phases before it."""
    home = model.key("home").qpos[7:]
    data.ctrl[:] = home
    data.ctrl[:12] += 0.25 * action
    mujoco.mj_step(model, data, 5)  # pyright: ignore[reportAttributeAccessIssue]
    pelvis, frame = np.zeros(6), data.site("imu_in_pelvis").xmat.reshape(3, 3)
    kind, site = mujoco.mjtObj.mjOBJ_SITE, model.site("imu_in_pelvis").id  # pyright: ignore[reportAttributeAccessIssue]
    mujoco.mj_objectVelocity(model, data, kind, site, pelvis, 0)  # pyright: ignore[reportAttributeAccessIssue]
    local = frame.T @ pelvis[3:]
    error = ((np.array((0.5, -0.2)) - local[:2]) ** 2).sum()
    up = frame[:, 2]
    gate = np.clip((up[2] - 0.75) * 4, 0, 1)
    right, height = 0.0, 0.0
    for foot, phase in zip(("left_foot", "right_foot"), before, strict=True):
        place = np.column_stack((data.site(foot).xmat.reshape(3, 3), data.site(foot).xpos))
        on_ground = min((place @ point)[2] for point in SOLE) <= 0
        right += (phase % (2 * np.pi) / (2 * np.pi) < 0.55) == on_ground
        height += (not on_ground) * (data.site(foot).xpos[2] - 0.08) ** 2
    return {
        "tracking_lin_vel": np.exp(-error / 0.25),
        "tracking_ang_vel": np.exp(-((0.3 - (frame.T @ pelvis[:3])[2]) ** 2) / 0.25),
        "lin_vel_z": pelvis[5] ** 2,
        "ang_vel_xy": gate * (pelvis[:2] ** 2).sum(),
        "orientation": gate * (up[:2] ** 2).sum(),
        "torques": (data.actuator_force**2).sum(),
        "action_rate": ((action - last) ** 2).sum(),
        "feet_contact": right,
        "feet_height": height,
        "joint_deviation_hip": ((data.qpos[HIPS] - home[np.array(HIPS) - 7]) ** 2).sum(),
        "base_height": (data.qpos[2] - 0.78) ** 2,
        "termination": float(data.qpos[2] < 0.35 or up[2] < np.cos(np.radians(53.13))),
    }


def test_legs_have_the_servos_that_nanog1_is_deployed_with() -> None:
    with headrace.make("G1Nano-v0", num_envs=1, physics="mujoco") as pool:
        model = pool._executor.model  # pyright: ignore[reportAttributeAccessIssue]
    stiffness, damping = [100, 100, 100, 150, 40, 40] * 2, [2, 2, 2, 4, 2, 2] * 2
    np.testing.assert_array_equal(model.actuator_gainprm[:12, 0], stiffness)
    np.testing.assert_array_equal(-model.actuator_biasprm[:12, 1], stiffness)
    np.testing.assert_array_equal(model.dof_damping[6:18], damping)
    assert (model.actuator_gainprm[12:, 0] <= 75).all()


def test_terms_are_those_of_their_formulas() -> None:
    chance = np.random.default_rng(0)
    options: dict[str, Any] = {"physics": "mujoco", "hold": True, "autoreset": "disabled"}
    with headrace.make("G1Nano-v0", num_envs=GAMES, seed=2, num_threads=1, **options) as pool:
        pool.reset()
        rows = pool._executor.state_arrays()
        rows["qvel"][:] = chance.uniform(-1, 1, rows["qvel"].shape)
        rows["qpos"][:, 2] += chance.uniform(-0.05, 0.05, GAMES)
        rows["qpos"][:8, 2:7] = 1.5, np.cos(0.55), np.sin(0.55), 0, 0  # leaning too far
        rows["phase"][:] = chance.uniform(-np.pi, np.pi, rows["phase"].shape)
        rows["command"][:] = (0.5, -0.2, 0.3)
        last = rows["action"][:] = chance.uniform(-1, 1, (GAMES, 12))
        last, begins, phases = last.copy(), (rows["qpos"].copy(), rows["qvel"].copy()), rows["phase"].copy()
        actions = chance.uniform(-1, 1, (GAMES, 12))
        _, reward, ends, _, info = pool.step(actions)
        model = pool._executor.model
    for i in range(GAMES):
        data = mujoco.MjData(model)  # pyright: ignore[reportAttributeAccessIssue]
        data.qpos[:], data.qvel[:] = begins[0][i], begins[1][i]
        theirs = terms_of(model, data, phases[i], actions[i], last[i])
        ours = dict(zip(TERMS, info["reward_terms"][i], strict=True))
        for name, value in theirs.items():
            np.testing.assert_allclose(ours[name], value, rtol=1e-4, atol=1e-5, err_msg=f"{i} {name}")
        total = 3 + sum(SCALES[name] * value for name, value in theirs.items())
        assert abs(reward[i] - 0.02 * total) < 1e-4 * max(1, abs(total))
        assert ends[i] == bool(theirs["termination"])
    assert 0 < ends.sum() < GAMES
