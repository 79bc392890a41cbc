"""Unitree's G1 whose legs walk to a clock while its arms are held: the reward of nanoG1.

nanoG1 (https://github.com/kingjulio8238/nanoG1, MIT) has such a humanoid walk after some 75 million steps; its weights
are those of its recipe, and the pose and the legs' servos those of its deploy/deploy_g1.py. Physics, observations and
commands are those of `walker`, as for all robots here. Actions may be four times as large as nanoG1's.
"""

# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false
# pyright: reportCallIssue=false, reportReturnType=false

from dataclasses import replace
from typing import Any

import warp as wp

from headrace.envs.robots.g1 import G1
from headrace.envs.robots.robot import walking
from headrace.envs.robots.walker import (
    ONE,
    QPOS,
    TURN,
    ZERO,
    State,
    View,
    ending,
    has_fallen,
    spin,
    term,
    touches,
    tracking_terms,
    up,
    velocity,
)

F = wp.float64
SCALES = {
    "tracking_lin_vel": 2.5,
    "tracking_ang_vel": 2.5,
    "lin_vel_z": -2.0,
    "ang_vel_xy": -1.7,
    "orientation": -10.0,
    "torques": -2e-5,
    "action_rate": -0.3,
    "feet_contact": 0.5,
    "feet_height": -20.0,
    "joint_deviation_hip": -4.0,
    "base_height": -10.0,
    "termination": -50.0,
    "feet_slip": 0.0,
}
TERMS = tuple(SCALES)
_, _, BOUNCING, ROLLING, LEANING, TORQUES, RATE, CLOCK, HEIGHT, HIPS, CROUCHING, FALLING, SLIP = map(
    wp.constant, range(len(TERMS))
)
SERVOS = {
    "hip_pitch": (100, 2), "hip_roll": (100, 2), "hip_yaw": (100, 2), "knee": (150, 4), "ankle_pitch": (40, 2),
    "ankle_roll": (40, 2),
}  # fmt: skip
"""part of a leg → stiffness, Nm/rad, and damping, Nms/rad"""
STANCE = wp.constant(F(0.55))  # the part of a stride in which a foot is to stand
MOST = 4.0  # the greatest action: within nanoG1's 1, hips stay at their bounds, and no leg is swung forwards
BASE_HEIGHT = wp.constant(F(0.78))  # m
LEANT, STEEPNESS = wp.constant(F(0.75)), wp.constant(F(4.0))  # how upright leaning is penalised, and how soon wholly


@wp.func
def torso_terms(physics: Any, state: State, env: int, view: View) -> F:
    spinning, axis = spin(physics, env, state.imu_body), up(physics, env, state.imu)
    moving = velocity(physics, env, state.imu_body, state.imu)
    gate = wp.clamp((axis[2] - LEANT) * STEEPNESS, ZERO, ONE)
    low = physics.qpos[env, 2] - BASE_HEIGHT
    total = tracking_terms(physics, state, env, view)
    total += term(state, env, BOUNCING, moving[2] * moving[2], view)
    total += term(state, env, ROLLING, gate * (spinning[0] * spinning[0] + spinning[1] * spinning[1]), view)
    total += term(state, env, LEANING, gate * (axis[0] * axis[0] + axis[1] * axis[1]), view)
    total += term(state, env, CROUCHING, low * low, view)
    return total


@wp.func
def joint_terms(physics: Any, state: State, env: int, view: View) -> F:
    torques, rate, hips = F(0.0), F(0.0), F(0.0)
    for i in range(state.nu):
        torques += physics.actuator_force[env, i] * physics.actuator_force[env, i]
    for i in range(state.driven):
        change = state.action[env, i] - state.last_action[env, i]
        rate += change * change
    for i in range(4):
        off = physics.qpos[env, QPOS + state.legs[i]] - state.home[state.legs[i]]
        hips += off * off
    total = term(state, env, TORQUES, torques, view)
    total += term(state, env, RATE, rate, view)
    total += term(state, env, HIPS, hips, view)
    return total


@wp.func
def feet_terms(physics: Any, state: State, env: int, view: View) -> F:
    right, height, slip = F(0.0), F(0.0), F(0.0)
    for foot in range(state.num_feet):
        site = state.sites[foot]
        part = state.phase[env, foot] / TURN
        part = wp.where(part < ZERO, part + ONE, part)
        on_ground = touches(physics, state, env, foot) > ZERO
        state.touching[env, foot] = wp.where(on_ground, ONE, ZERO)
        if (part < STANCE) == on_ground:
            right += ONE
        if on_ground:
            moving = velocity(physics, env, state.bodies[foot], site)
            slip += moving[0] * moving[0] + moving[1] * moving[1]
        else:
            off = physics.site_xpos[env, site][2] - state.foot_height
            height += off * off
    total = term(state, env, CLOCK, right, view)
    total += term(state, env, HEIGHT, height, view)
    total += term(state, env, SLIP, slip, view)
    return total


@wp.func
def step(physics: Any, state: State, env: int, actions: wp.array2d[F], view: View):
    total = torso_terms(physics, state, env, view)
    total += joint_terms(physics, state, env, view)
    total += feet_terms(physics, state, env, view)
    return ending(state, env, total, has_fallen(physics, state, env), FALLING, view)


def settle(spec: Any) -> None:
    """Gives the model nanoG1's step, and the legs servos of Unitree's own policies."""
    spec.option.timestep = 0.004
    for side in ("left", "right"):
        for part, (stiffness, damping) in SERVOS.items():
            name = f"{side}_{part}_joint"
            servo = spec.actuator(name)
            servo.gainprm[0], servo.biasprm[1] = stiffness, -stiffness
            spec.joint(name).damping[0] = damping


NANO = replace(
    G1,
    frame_skip=5,
    settle=settle,
    start="home",
    driven=12,
    limits=(1.0, 0.6, 1.0),
    spread=0.1,
    thrown=0.1,
    foot_height=0.08,
    scales=SCALES,
    action_scale=0.25,
    fall=50.0,
    push=0.0,
    torso="imu_in_pelvis",
    strides=(1.25, 1.25),
    boxes=(),
    capsules=(),
    forces=(),
    reads=(),
)
TASKS = {
    "G1Nano-v0": walking(NANO, step, TERMS, most=MOST, clipped=False, noise=0.0, alive=3.0, tilt=53.13, height=0.35)
}
