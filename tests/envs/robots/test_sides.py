"""A robot beside its mirror image."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
import pytest

import headrace
from headrace.envs.robots import _MODULES, TASKS
from headrace.envs.robots.sides import mirror_of
from headrace.errors import OptionError

BASE = np.array((1, -1, 1, 1, -1, 1, -1))  # of a place and a quaternion
TWIST = np.array((1, -1, 1, -1, 1, -1))  # of velocities, in the world and in the body's frame
STEPS = 3


def mirrored(rows: np.ndarray, side: Any) -> np.ndarray:
    indices, signs = side
    return rows[..., list(indices)] * np.array(signs)


def joints_of(task: str, mirror: Any, count: int) -> Any:
    """The sides of all joints, of which actions may move a part: those of an observation's angles."""
    module = import_module(f"headrace.envs.robots.{_MODULES[task]}")
    robot, (indices, signs) = getattr(module, _MODULES[task].upper()), mirror.observation
    begin = 6 + 3 * robot.sees_velocity + 3 * robot.command_first
    return [i - begin for i in indices[begin : begin + count]], signs[begin : begin + count]


@pytest.mark.parametrize("task", [task for task in TASKS if "Rough" not in task])  # such ground has no mirror image
def test_a_robot_and_its_mirror_image_move_as_the_mirror_says(task: str) -> None:
    equal: dict[str, Any] = {"noise": 0.0, "hold": True, "push": 0.0, "randomise": False, "critic": True}
    with headrace.make(task, num_envs=2, num_threads=1, seed=3, **equal) as pool:
        mirror = pool.spec.mirror
        assert mirror is not None and mirror.critic is not None
        pool.reset()
        rows = pool._executor.state_arrays()
        chance = np.random.default_rng(0)
        rows["qvel"][0] = chance.uniform(-0.3, 0.3, rows["qvel"].shape[1])
        joints = joints_of(task, mirror, rows["qpos"].shape[1] - 7)
        rows["qpos"][1] = np.concatenate((rows["qpos"][0, :7] * BASE, mirrored(rows["qpos"][0, 7:], joints)))
        rows["qvel"][1] = np.concatenate((rows["qvel"][0, :6] * TWIST, mirrored(rows["qvel"][0, 6:], joints)))
        rows["command"][:] = (0.5, 0.3, -0.4), (0.5, -0.3, 0.4)
        for name in ("stride", "phase"):
            rows[name][1] = rows[name][0]
        rows["phase"][1] = rows["phase"][0].reshape(-1, 2)[:, ::-1].ravel()  # the legs of a pair take turns
        seen, reward = {}, np.empty(0)
        for _ in range(STEPS):
            action = chance.uniform(-0.3, 0.3, pool.action_space.shape)
            seen, reward, *_ = pool.step(np.stack((action, mirrored(action, mirror.action))))
        for obs, side, part in ((seen["obs"], mirror.observation, 0.1), (seen["critic"], mirror.critic, 0.15)):
            image, size = mirrored(obs[1], side), np.linalg.norm(obs[0])
            # what a maker put on one side of the trunk makes the difference
            assert np.linalg.norm(obs[0] - image) < part * size < np.linalg.norm(obs[0] - obs[1])
        assert reward[0] == pytest.approx(reward[1], abs=0.01)


def test_a_model_without_sides_is_refused() -> None:
    import mujoco

    model = mujoco.MjModel.from_xml_string(  # pyright: ignore[reportAttributeAccessIssue]
        "<mujoco><worldbody><body><freejoint/><geom size='.1'/><body><joint name='FL_hip'/><geom size='.1'/></body>"
        "</body></worldbody><actuator><position joint='FL_hip'/></actuator></mujoco>"
    )
    with pytest.raises(OptionError, match="has no FR_hip"):
        mirror_of(model, 1, ("FL",), False, False)
