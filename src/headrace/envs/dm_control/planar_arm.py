"""The planar arm with a two-fingered hand that the domains manipulator and stacker share."""

# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false
# pyright: reportCallIssue=false

from typing import Any

import numpy as np
import warp as wp

from headrace.envs.dm_control.common import PI, log1p
from headrace.pool.executors.mujoco import Streams, uniform

# in the order of sampling and observations; each joint has one number in qpos and in qvel, at the same index
JOINT_NAMES = ("arm_root", "arm_shoulder", "arm_elbow", "arm_wrist", "finger", "fingertip", "thumb", "thumbtip")
NUM_JOINTS = wp.constant(8)
FINGER = wp.constant(4)
THUMB = wp.constant(6)
NUM_TOUCH = wp.constant(5)  # touch sensors, the first in sensordata

ARM = ("qpos", "qvel", "jnt_limited", "jnt_range", "xpos", "xquat", "site_xpos", "sensordata", "ncon")
SIZES = {"arm_pos": (8, 2), "arm_vel": 8, "touch": 5, "hand_pos": 4}


def joints(model: Any) -> dict[str, np.ndarray]:
    """Returns the table ``joints``, int32[8], of the numbers of the arm's joints, all of them hinges."""
    return {"joints": np.array([model.joint(name).id for name in JOINT_NAMES], np.int32)}


@wp.func
def randomize_arm(physics: Any, joints: wp.array[wp.int32], env: int, streams: Streams):
    """Draws random joint angles within their limits, with symmetric fingers; reads `ARM`."""
    for i in range(NUM_JOINTS):
        j = joints[i]
        bounds = wp.vec2d(-PI, PI)
        if int(physics.jnt_limited[env, j]) != 0:
            bounds = physics.jnt_range[env, j]
        physics.qpos[env, j] = uniform(streams, env, bounds[0], bounds[1])
    physics.qpos[env, joints[FINGER]] = physics.qpos[env, joints[THUMB]]


@wp.func
def see_arm(physics: Any, joints: wp.array[wp.int32], hand: int, env: int, view: Any):
    """Writes the observations of the arm; reads `ARM`."""
    for i in range(NUM_JOINTS):
        angle = physics.qpos[env, joints[i]]
        view.obs_arm_pos[env, i, 0] = wp.sin(angle)
        view.obs_arm_pos[env, i, 1] = wp.cos(angle)
        view.obs_arm_vel[env, i] = physics.qvel[env, joints[i]]
    for i in range(NUM_TOUCH):
        view.obs_touch[env, i] = log1p(physics.sensordata[env, i])
    pose = planar_pose(physics, env, hand)
    for i in range(4):
        view.obs_hand_pos[env, i] = pose[i]


@wp.func
def planar_pose(physics: Any, env: int, body: int) -> wp.vec4d:
    """Returns a body's x and z (m), and w and y of its quaternion."""
    place = physics.xpos[env, body]
    turn = physics.xquat[env, body]
    return wp.vec4d(place[0], place[2], turn[0], turn[2])


@wp.func
def turn_about_y(angle: wp.float64) -> wp.quatd:
    """Returns the quaternion (w first) of a rotation about y (rad)."""
    half = angle * wp.float64(0.5)
    return wp.quatd(wp.cos(half), wp.float64(0.0), wp.sin(half), wp.float64(0.0))


@wp.func
def site_distance(physics: Any, env: int, one: int, other: int) -> wp.float64:
    """Returns the distance between two sites (m)."""
    return wp.length(physics.site_xpos[env, other] - physics.site_xpos[env, one])
