"""MuJoCo tasks: native physics on threads, rewards and observations in Python, compiled.

What a task's author needs is listed here, and offered as `headrace.mujoco`.
"""

from headrace.pool.executors.kernels.random import Streams, integers, normal, random_bits, uniform
from headrace.pool.executors.mujoco.pictures import Camera
from headrace.pool.executors.mujoco.program import MujocoEnv
from headrace.pool.executors.mujoco.task import MujocoTask
from headrace.pool.options import Option, decimal
from headrace.pool.spec import Field

__all__ = [
    "Camera",
    "Field",
    "MujocoEnv",
    "MujocoTask",
    "Option",
    "Streams",
    "decimal",
    "integers",
    "normal",
    "random_bits",
    "uniform",
]
