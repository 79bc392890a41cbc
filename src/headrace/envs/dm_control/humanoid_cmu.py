"""Humanoid_CMU: the humanoid of the CMU motion capture data, with 56 joints, in the tasks of the domain humanoid."""

from headrace.envs.dm_control.common import suite_model
from headrace.envs.dm_control.humanoid import humanoid
from headrace.pool.executors.mujoco import MujocoTask


def cmu(move_speed: float) -> MujocoTask:
    """Returns the task with this target speed (m/s), 0 to stand."""
    return humanoid(lambda _: suite_model("humanoid_CMU"), "thorax", 1, ("l", "r"), 10, move_speed)


TASKS = {"stand": cmu(0.0), "walk": cmu(1.0), "run": cmu(10.0)}
