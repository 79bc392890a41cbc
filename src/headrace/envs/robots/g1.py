"""Unitree's G1 with 29 joints: MuJoCo Playground's G1JoystickFlatTerrain."""

# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false
# pyright: reportCallIssue=false, reportReturnType=false

from typing import Any

import warp as wp

from headrace.envs.robots.humanoid import (
    capsules_touch,
    deviation,
    feet,
    feet_touch,
    horizontal_speed,
    knees,
    pose,
    soft_limits,
    striding,
)
from headrace.envs.robots.robot import Robot, walking
from headrace.envs.robots.walker import (
    ONE,
    STANDING,
    ZERO,
    State,
    View,
    ending,
    has_fallen,
    is_commanded,
    spin,
    term,
    tracking_terms,
    up,
)

F = wp.float64
SCALES = {
    "tracking_lin_vel": 1.0,
    "tracking_ang_vel": 0.75,
    "ang_vel_xy": -0.15,
    "orientation": -2.0,
    "feet_air_time": 2.0,
    "feet_slip": -0.25,
    "feet_phase": 1.0,
    "stand_still": -1.0,
    "termination": -100.0,
    "collision": -0.1,
    "contact_force": -0.01,
    "joint_deviation_knee": -0.1,
    "joint_deviation_hip": -0.25,
    "dof_pos_limits": -1.0,
    "pose": -0.1,
}
TERMS = tuple(SCALES)
(
    _, _, ROLLING, LEANING, AIR_TIME, SLIP, PHASE, FIDGETING, FALLING, TOUCHING, FORCE, KNEES, HIPS,
    AT_LIMITS, POSE,
) = map(wp.constant, range(len(TERMS)))  # fmt: skip
LEAN = wp.constant(F(0.073))  # of the torso to the front
MOVING = wp.constant(F(0.1))  # m/s, rad/s
SIDEWAYS = wp.constant(F(0.1))  # m/s
HARD = wp.constant(F(500.0))  # N


@wp.func
def torso_terms(physics: Any, state: State, env: int, view: View) -> F:
    spinning, axis = spin(physics, env, state.torso_body), up(physics, env, state.torso)
    off = axis - wp.vec3d(LEAN, ZERO, ONE)
    total = tracking_terms(physics, state, env, view)
    total += term(state, env, ROLLING, spinning[0] * spinning[0] + spinning[1] * spinning[1], view)
    total += term(state, env, LEANING, wp.dot(off, off), view)
    return total


@wp.func
def joint_terms(physics: Any, state: State, env: int, view: View) -> F:
    bent, hips = pose(physics, state, env), F(0.0)
    for i in range(4):  # each counts fourfold or twice: Playground multiplies all by the weights of all
        hips += deviation(physics, state, env, state.legs[i])
    hips *= wp.where(state.command[env, 1] > SIDEWAYS, F(2.0), F(4.0))
    total = term(state, env, AT_LIMITS, bent[0], view)
    total += term(state, env, POSE, bent[1], view)
    total += term(state, env, FIDGETING, wp.where(is_commanded(state, env, STANDING), ZERO, bent[2]), view)
    total += term(state, env, KNEES, knees(physics, state, env), view)
    total += term(state, env, HIPS, hips, view)
    return total


@wp.func
def contact_terms(physics: Any, state: State, env: int, view: View) -> F:
    force, moves = F(0.0), wp.where(is_commanded(state, env, STANDING), ONE, ZERO)
    for foot in range(state.num_feet):
        force += wp.max(wp.abs(physics.sensordata[env, state.forces[foot] + 2]) - HARD, ZERO)
    speed, steps = horizontal_speed(physics, state, env), feet(physics, state, env)
    if speed > MOVING or wp.abs(spin(physics, env, state.imu_body)[2]) > MOVING:
        moves = ONE
    touching = capsules_touch(physics, state, env, 2) or capsules_touch(physics, state, env, 4)
    total = term(state, env, FORCE, force, view)
    total += term(state, env, SLIP, speed * steps[1], view)
    total += term(state, env, AIR_TIME, steps[0], view)
    total += term(state, env, PHASE, striding(physics, state, env) * moves, view)
    total += term(state, env, TOUCHING, wp.where(touching, ONE, ZERO), view)
    return total


@wp.func
def step(physics: Any, state: State, env: int, actions: wp.array2d[F], view: View):
    total = torso_terms(physics, state, env, view)
    total += joint_terms(physics, state, env, view)
    total += contact_terms(physics, state, env, view)
    return ending(state, env, total, has_fallen(physics, state, env) or feet_touch(physics, state, env), FALLING, view)


G1 = Robot(
    name="G1",
    model="g1.xml",
    start="knees_bent",
    frame_skip=10,
    feet=("left_foot", "right_foot"),
    sole=tuple((x, y, z) for x in (-0.05, 0.13) for y in (-0.03, 0.03) for z in (-0.037, -0.021)),
    radius=0.0,
    limits=(1.0, 0.5, 1.0),
    idle=0.1,
    kicks=(5.0, 10.0),
    kick_least=0.1,
    push=2.0,
    spread=0.5,
    weights=(1.0,) * 29,
    soft_limits=soft_limits,
    foot_height=0.15,
    scales=SCALES,
    action_scale=0.5,
    fall=100.0,
    imu="imu_in_pelvis",
    torso="imu_in_torso",
    command_first=True,
    strides=(1.25, 1.5),
    gait=(0.0, 0.5),
    phases=2,
    legs=(
        "left_hip_roll_joint",
        "left_hip_yaw_joint",
        "right_hip_roll_joint",
        "right_hip_yaw_joint",
        "left_knee_joint",
        "right_knee_joint",
    ),
    boxes=("left_foot", "right_foot"),
    capsules=("left_hand_collision", "left_thigh", "right_hand_collision", "right_thigh"),
    forces=("left_foot_force", "right_foot_force"),
    accelerometer="accelerometer_pelvis",
    reads=("geom_xpos", "geom_xmat", "sensordata"),
)
TASKS = {"G1Flat-v0": walking(G1, step, TERMS, clipped=False)}
