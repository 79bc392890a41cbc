"""Functions that tasks of robots share: vectors in the frame of a body, and velocities of feet.

Quaternions are MuJoCo's, w first, as in ``physics.xquat[env, body]``; Warp's own functions of quaternions have w last.
"""

# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false

from typing import Any

import warp as wp

SITE_VELOCITY = ("cvel", "subtree_com", "site_xpos", "site_bodyid", "body_rootid")
"""the fields that `site_velocity` reads, to be named in ``reads``"""


@wp.func
def to_world(quat: wp.quatd, vector: wp.vec3d) -> wp.vec3d:
    """Returns a vector of a frame with this orientation in the world's axes."""
    axis = wp.vec3d(quat[1], quat[2], quat[3])
    return vector + wp.float64(2.0) * wp.cross(axis, wp.cross(axis, vector) + quat[0] * vector)


@wp.func
def to_frame(quat: wp.quatd, vector: wp.vec3d) -> wp.vec3d:
    """Returns a vector of the world in the axes of a frame with this orientation."""
    axis = wp.vec3d(quat[1], quat[2], quat[3])
    return vector + wp.float64(2.0) * wp.cross(axis, wp.cross(axis, vector) - quat[0] * vector)


@wp.func
def projected_gravity(quat: wp.quatd) -> wp.vec3d:
    """Returns the direction of gravity, of length 1, in the axes of a frame with this orientation."""
    return to_frame(quat, wp.vec3d(wp.float64(0.0), wp.float64(0.0), wp.float64(-1.0)))


@wp.func
def site_velocity(physics: Any, env: int, site: int) -> wp.vec3d:
    """Returns the velocity of a site, such as a foot, in the world, m/s; `reads` must have `SITE_VELOCITY`."""
    body = physics.site_bodyid[env, site]
    moving = physics.cvel[env, body]  # at the centre of mass of the body's tree
    arm = physics.site_xpos[env, site] - physics.subtree_com[env, physics.body_rootid[env, body]]
    turning = wp.vec3d(moving[0], moving[1], moving[2])
    return wp.vec3d(moving[3], moving[4], moving[5]) + wp.cross(turning, arm)
