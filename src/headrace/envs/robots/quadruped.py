"""The reward of robots on four legs: that of MuJoCo Playground's Go1JoystickFlatTerrain, term by term."""

# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false
# pyright: reportCallIssue=false, reportReturnType=false

from typing import Any

import numpy as np
import warp as wp

from headrace.envs.robots.walker import (
    ONE,
    QPOS,
    QVEL,
    STANDING,
    ZERO,
    State,
    View,
    begin_stance,
    ending,
    feels,
    has_fallen,
    is_commanded,
    landed,
    spin,
    term,
    touches,
    tracking_terms,
    up,
    velocity,
)

F = wp.float64
SCALES = {
    "tracking_lin_vel": 1.0,
    "tracking_ang_vel": 0.5,
    "lin_vel_z": -0.5,
    "ang_vel_xy": -0.05,
    "orientation": -5.0,
    "dof_pos_limits": -1.0,
    "pose": 0.5,
    "termination": -1.0,
    "stand_still": -1.0,
    "torques": -2e-4,
    "action_rate": -0.01,
    "energy": -1e-3,
    "feet_clearance": -2.0,
    "feet_height": -0.2,
    "feet_slip": -0.1,
    "feet_air_time": 0.1,
}
TERMS = tuple(SCALES)
(
    _, _, BOUNCING, ROLLING, LEANING, AT_LIMITS, POSE, FALLING, FIDGETING, TORQUES, RATE, ENERGY, CLEARANCE,
    HEIGHT, SLIP, AIR_TIME,
) = map(wp.constant, range(len(TERMS)))  # fmt: skip
SHORT = wp.constant(F(0.1))  # s in the air


def soft_limits(ranges: np.ndarray) -> np.ndarray:
    """Returns the ranges [joints, 2] that the reward keeps joints in."""
    return 0.95 * ranges


@wp.func
def trunk_terms(physics: Any, state: State, env: int, view: View) -> F:
    moving, spinning = velocity(physics, env, state.imu_body, state.imu), spin(physics, env, state.imu_body)
    leaning = up(physics, env, state.imu)
    total = tracking_terms(physics, state, env, view)
    total += term(state, env, BOUNCING, moving[2] * moving[2], view)
    total += term(state, env, ROLLING, spinning[0] * spinning[0] + spinning[1] * spinning[1], view)
    total += term(state, env, LEANING, leaning[0] * leaning[0] + leaning[1] * leaning[1], view)
    return total


@wp.func
def joint_terms(physics: Any, state: State, env: int, view: View) -> F:
    beyond, pose, away = F(0.0), F(0.0), F(0.0)
    squares, torques, rate, energy = F(0.0), F(0.0), F(0.0), F(0.0)
    for i in range(state.nu):
        angle, force = physics.qpos[env, QPOS + i], physics.actuator_force[env, i]
        off, change = angle - state.home[i], state.action[env, i] - state.last_action[env, i]
        beyond += wp.max(state.low[i] - angle, ZERO) + wp.max(angle - state.high[i], ZERO)
        pose += off * off * state.weights[i]
        away += wp.abs(off)
        squares += force * force
        torques += wp.abs(force)
        energy += wp.abs(physics.qvel[env, QVEL + i] * force)
        rate += change * change
    total = term(state, env, AT_LIMITS, beyond, view)
    total += term(state, env, POSE, wp.exp(-pose), view)
    total += term(state, env, FIDGETING, wp.where(is_commanded(state, env, STANDING), ZERO, away), view)
    total += term(state, env, TORQUES, wp.sqrt(squares) + torques, view)
    total += term(state, env, RATE, rate, view)
    total += term(state, env, ENERGY, energy, view)
    return total


@wp.func
def foot_terms(physics: Any, state: State, env: int, foot: int, on_ground: F) -> wp.vec4d:
    """Returns what a foot adds to the terms of clearance, height, slip and time in the air."""
    site = state.sites[foot]
    moving = velocity(physics, env, state.bodies[foot], site)
    speed = wp.sqrt(moving[0] * moving[0] + moving[1] * moving[1])
    height, air = F(0.0), F(0.0)
    if landed(physics, state, env, foot, on_ground):
        lack = state.peak[env, foot] / state.foot_height - ONE
        height, air = lack * lack, state.air_time[env, foot] - SHORT
    begin_stance(state, env, foot)
    clearance = wp.abs(physics.site_xpos[env, site][2] - state.foot_height) * wp.sqrt(speed)
    return wp.vec4d(clearance, height, speed * speed * on_ground, air)


@wp.func
def feet_terms(state: State, env: int, feet: wp.vec4d, view: View) -> F:
    moves = wp.where(is_commanded(state, env, STANDING), ONE, ZERO)
    total = term(state, env, CLEARANCE, feet[0], view)
    total += term(state, env, HEIGHT, feet[1] * moves, view)
    total += term(state, env, SLIP, feet[2] * moves, view)
    total += term(state, env, AIR_TIME, feet[3] * moves, view)
    return total


@wp.func
def whole(physics: Any, state: State, env: int, feet: wp.vec4d, view: View):
    """Returns the reward, of which ``feet`` is the sum of `foot_terms`, and whether the episode ends."""
    total = trunk_terms(physics, state, env, view)
    total += joint_terms(physics, state, env, view)
    total += feet_terms(state, env, feet, view)
    return ending(state, env, total, has_fallen(physics, state, env), FALLING, view)


@wp.func
def step(physics: Any, state: State, env: int, actions: wp.array2d[F], view: View):
    """Returns the reward on level ground, and whether the episode ends."""
    feet = wp.vec4d()
    for foot in range(state.num_feet):
        feet += foot_terms(physics, state, env, foot, touches(physics, state, env, foot))
    return whole(physics, state, env, feet, view)


@wp.func
def step_on_rough_ground(physics: Any, state: State, env: int, actions: wp.array2d[F], view: View):
    """Returns the reward, and whether the episode ends, of a robot whose feet have sensors of contact."""
    feet = wp.vec4d()
    for foot in range(state.num_feet):
        feet += foot_terms(physics, state, env, foot, feels(physics, state, env, foot))
    return whole(physics, state, env, feet, view)
