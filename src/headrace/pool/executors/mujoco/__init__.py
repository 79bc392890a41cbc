"""MuJoCo tasks: native physics on threads, with rewards and observations written in Python and compiled.

`headrace.mujoco` exports these names to authors of tasks.
"""

from headrace.pool.executors.kernels.random import Streams, integers, normal, random_bits, uniform
from headrace.pool.executors.mujoco.arrows import velocity_arrows
from headrace.pool.executors.mujoco.declared import Servo
from headrace.pool.executors.mujoco.frames import SITE_VELOCITY, projected_gravity, site_velocity, to_frame, to_world
from headrace.pool.executors.mujoco.pictures import Camera
from headrace.pool.executors.mujoco.program import MujocoEnv
from headrace.pool.executors.mujoco.randomise import Draw, add, draw, scale
from headrace.pool.executors.mujoco.signals import joint_parts
from headrace.pool.executors.mujoco.task import MujocoTask
from headrace.pool.mirror import Mirror
from headrace.pool.options import Option, decimal
from headrace.pool.signals import Control, Part, Signals
from headrace.pool.spec import Field

__all__ = [
    "SITE_VELOCITY",
    "Camera",
    "Control",
    "Draw",
    "Field",
    "Mirror",
    "MujocoEnv",
    "MujocoTask",
    "Option",
    "Part",
    "Servo",
    "Signals",
    "Streams",
    "add",
    "decimal",
    "draw",
    "integers",
    "joint_parts",
    "normal",
    "projected_gravity",
    "random_bits",
    "scale",
    "site_velocity",
    "to_frame",
    "to_world",
    "uniform",
    "velocity_arrows",
]
