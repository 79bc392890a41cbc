"""What the rewards of robots on two legs share: those of MuJoCo Playground's joystick tasks of G1 and T1."""

# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false
# pyright: reportCallIssue=false, reportReturnType=false

from typing import Any

import numpy as np
import warp as wp

from headrace.envs.robots.walker import (
    HALF_TURN,
    ONE,
    QPOS,
    TURN,
    ZERO,
    State,
    begin_stance,
    landed,
    touches,
    velocity,
)

F = wp.float64
SHORT, LONG = wp.constant(F(0.2)), wp.constant(F(0.5))  # s in the air that are rewarded
NEAR = wp.constant(F(0.01))  # m², of errors of feet's heights
PARALLEL = wp.constant(F(1e-12))


def soft_limits(ranges: np.ndarray) -> np.ndarray:
    """Returns the ranges [joints, 2] that the reward keeps joints in."""
    low, high = ranges.T
    return np.stack([(low + high - 0.95 * (high - low)) / 2, (low + high + 0.95 * (high - low)) / 2], 1)


# ---- terms ----------------------------------------------------------------------------------------------------------


@wp.func
def deviation(physics: Any, state: State, env: int, joint: int) -> F:
    """Returns by how much a joint differs from the pose of the start (rad)."""
    return wp.abs(physics.qpos[env, QPOS + joint] - state.home[joint])


@wp.func
def knees(physics: Any, state: State, env: int) -> F:
    """Returns the sum of both knees' deviations."""
    return deviation(physics, state, env, state.legs[4]) + deviation(physics, state, env, state.legs[5])


@wp.func
def pose(physics: Any, state: State, env: int) -> wp.vec3d:
    """Returns what joints are beyond their limits, their squared deviations, weighted, and their deviations."""
    beyond, squares, away = F(0.0), F(0.0), F(0.0)
    for i in range(state.nu):
        angle = physics.qpos[env, QPOS + i]
        off = angle - state.home[i]
        beyond += wp.max(state.low[i] - angle, ZERO) + wp.max(angle - state.high[i], ZERO)
        squares += off * off * state.weights[i]
        away += wp.abs(off)
    return wp.vec3d(beyond, squares, away)


@wp.func
def feet(physics: Any, state: State, env: int) -> wp.vec2d:
    """Returns the reward for feet that come down after some time in the air, and the number of those on the ground."""
    air, standing = F(0.0), F(0.0)
    for foot in range(state.num_feet):
        if landed(physics, state, env, foot, touches(physics, state, env, foot)):
            air += wp.min(state.air_time[env, foot], LONG) - SHORT
        standing += state.touching[env, foot]
        begin_stance(state, env, foot)
    return wp.vec2d(air, standing)


@wp.func
def between(start: F, end: F, part: F) -> F:
    """Returns a number on a smooth way from start to end: a Bézier curve of third order."""
    return start + (end - start) * part * part * (F(3.0) - F(2.0) * part)


@wp.func
def striding(physics: Any, state: State, env: int) -> F:
    """Returns the reward for feet at the heights that the phases of their strides want."""
    error = F(0.0)
    for foot in range(state.num_feet):
        part = (state.phase[env, foot] + HALF_TURN) / TURN
        height = between(state.foot_height, ZERO, F(2.0) * part - ONE)
        if part <= F(0.5):
            height = between(ZERO, state.foot_height, F(2.0) * part)
        off = physics.site_xpos[env, state.sites[foot]][2] - height
        error += off * off
    return wp.exp(-error / NEAR)


@wp.func
def horizontal_speed(physics: Any, state: State, env: int) -> F:
    """Returns the horizontal speed of the sensors (m/s)."""
    moving = velocity(physics, env, state.imu_body, state.imu)
    return wp.sqrt(moving[0] * moving[0] + moving[1] * moving[1])


# ---- touch ----------------------------------------------------------------------------------------------------------


@wp.func
def feet_touch(physics: Any, state: State, env: int) -> bool:
    """Returns whether the boxes of both feet overlap: there is no axis along which they are apart."""
    first, second = state.geoms[0], state.geoms[1]
    turn = wp.transpose(physics.geom_xmat[env, first]) * physics.geom_xmat[env, second]
    way = wp.transpose(physics.geom_xmat[env, first]) * (physics.geom_xpos[env, second] - physics.geom_xpos[env, first])
    a = wp.vec3d(state.sizes[0, 0], state.sizes[0, 1], state.sizes[0, 2])
    b = wp.vec3d(state.sizes[1, 0], state.sizes[1, 1], state.sizes[1, 2])
    if wp.length(way) > wp.length(a) + wp.length(b):
        return False
    apart = wp.bool(False)
    for i in range(3):
        along = wp.vec3d(turn[0, i], turn[1, i], turn[2, i])  # the second's axis in the first's frame
        reach = b[0] * wp.abs(turn[i, 0]) + b[1] * wp.abs(turn[i, 1]) + b[2] * wp.abs(turn[i, 2])
        back = a[0] * wp.abs(along[0]) + a[1] * wp.abs(along[1]) + a[2] * wp.abs(along[2])
        apart = apart or wp.abs(way[i]) > a[i] + reach or wp.abs(wp.dot(way, along)) > b[i] + back
        k, h = (i + 1) % 3, (i + 2) % 3
        for j in range(3):  # across both boxes' axes
            m, n = (j + 1) % 3, (j + 2) % 3
            across = wp.abs(way[h] * turn[k, j] - way[k] * turn[h, j])
            both = a[k] * wp.abs(turn[h, j]) + a[h] * wp.abs(turn[k, j])
            both += b[m] * wp.abs(turn[i, n]) + b[n] * wp.abs(turn[i, m])
            apart = apart or across > both + PARALLEL
    return not apart


@wp.func
def axis_of(physics: Any, state: State, env: int, i: int) -> wp.vec3d:
    """Returns half the axis of a capsule, in the world (m)."""
    frame = physics.geom_xmat[env, state.geoms[i]]
    return state.sizes[i, 1] * wp.vec3d(frame[0, 2], frame[1, 2], frame[2, 2])


@wp.func
def capsules_touch(physics: Any, state: State, env: int, i: int) -> bool:
    """Returns whether a capsule and the next touch: how near the nearest points of their axes are."""
    u, v = axis_of(physics, state, env, i), axis_of(physics, state, env, i + 1)
    way = physics.geom_xpos[env, state.geoms[i + 1]] - physics.geom_xpos[env, state.geoms[i]]
    uu, vv, uv = wp.dot(u, u), wp.dot(v, v), wp.dot(u, v)
    flat = uu * vv - uv * uv
    s = F(0.0)
    if flat > PARALLEL:
        s = wp.clamp((wp.dot(way, u) * vv - wp.dot(way, v) * uv) / flat, -ONE, ONE)
    t = wp.clamp((s * uv - wp.dot(way, v)) / vv, -ONE, ONE)
    s = wp.clamp((wp.dot(way, u) + t * uv) / uu, -ONE, ONE)
    t = wp.clamp((s * uv - wp.dot(way, v)) / vv, -ONE, ONE)
    return wp.length(way + t * v - s * u) <= state.sizes[i, 0] + state.sizes[i + 1, 0]
