"""Booster's T1: MuJoCo Playground's T1JoystickFlatTerrain."""

# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false
# pyright: reportCallIssue=false, reportReturnType=false

from typing import Any

import warp as wp

from headrace.envs.robots.humanoid import (
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
    ZERO,
    State,
    View,
    ending,
    has_fallen,
    in_frame,
    is_commanded,
    spin,
    term,
    tracking_terms,
    up,
)
from headrace.pool.options import decimal

F = wp.float64
SCALES = {
    "tracking_lin_vel": 1.0,
    "tracking_ang_vel": 0.5,
    "ang_vel_xy": -0.15,
    "orientation": -1.0,
    "feet_air_time": 2.0,
    "feet_slip": -0.25,
    "feet_phase": 1.0,
    "termination": 0.0,
    "joint_deviation_knee": -0.1,
    "joint_deviation_hip": -0.1,
    "dof_pos_limits": -1.0,
    "pose": -1.0,
    "feet_distance": -1.0,
    "collision": -1.0,
}
TERMS = tuple(SCALES)
(
    _, _, ROLLING, LEANING, AIR_TIME, SLIP, PHASE, FALLING, KNEES, HIPS, AT_LIMITS, POSE, DISTANCE, TOUCHING,
) = map(wp.constant, range(len(TERMS)))  # fmt: skip
STEPPING = wp.constant(F(0.1))  # the least command for which steps are rewarded, and to the side, for which hips are
APART = wp.constant(F(0.2))  # m, of the feet
LEAST = wp.constant(F(0.1))  # m


@wp.func
def trunk_terms(physics: Any, state: State, env: int, view: View) -> F:
    spinning = in_frame(physics, env, state.imu, spin(physics, env, state.imu_body))
    leaning = up(physics, env, state.imu)
    total = tracking_terms(physics, state, env, view)
    total += term(state, env, ROLLING, spinning[0] * spinning[0] + spinning[1] * spinning[1], view)
    total += term(state, env, LEANING, leaning[0] * leaning[0] + leaning[1] * leaning[1], view)
    return total


@wp.func
def joint_terms(physics: Any, state: State, env: int, view: View) -> F:
    bent, hips = pose(physics, state, env), F(0.0)
    if wp.abs(state.command[env, 1]) > STEPPING:
        for i in range(4):
            hips += deviation(physics, state, env, state.legs[i])
    total = term(state, env, AT_LIMITS, bent[0], view)
    total += term(state, env, POSE, bent[1], view)
    total += term(state, env, KNEES, knees(physics, state, env), view)
    total += term(state, env, HIPS, hips, view)
    return total


@wp.func
def narrowness(physics: Any, state: State, env: int) -> F:
    """Returns by how much the feet are nearer to each other, sideways, than they should be (m)."""
    frame = physics.site_xmat[env, state.imu]
    heading = wp.atan2(frame[1, 0], frame[0, 0])
    way = physics.site_xpos[env, state.sites[0]] - physics.site_xpos[env, state.sites[1]]
    return wp.clamp(APART - wp.abs(wp.cos(heading) * way[1] - wp.sin(heading) * way[0]), ZERO, LEAST)


@wp.func
def feet_terms(physics: Any, state: State, env: int, view: View) -> F:
    steps = feet(physics, state, env)
    touching = wp.where(feet_touch(physics, state, env), ONE, ZERO)
    stepping = wp.where(is_commanded(state, env, STEPPING), ONE, ZERO)
    total = term(state, env, SLIP, horizontal_speed(physics, state, env) * steps[1], view)
    total += term(state, env, AIR_TIME, steps[0] * stepping, view)
    total += term(state, env, PHASE, striding(physics, state, env), view)
    total += term(state, env, DISTANCE, narrowness(physics, state, env), view)
    total += term(state, env, TOUCHING, touching, view)
    return total


@wp.func
def step(physics: Any, state: State, env: int, actions: wp.array2d[F], view: View):
    total = trunk_terms(physics, state, env, view)
    total += joint_terms(physics, state, env, view)
    total += feet_terms(physics, state, env, view)
    return ending(state, env, total, has_fallen(physics, state, env), FALLING, view)


LEG = (0.01, 1.0, 1.0, 0.01, 1.0, 1.0)
ARM = (0.1, 1.0, 1.0, 1.0)
T1 = Robot(
    name="T1",
    model="t1.xml",
    start="home",
    frame_skip=10,
    feet=("left_foot", "right_foot"),
    sole=tuple((x, y, -0.02) for x in (-0.1015, 0.1015) for y in (-0.04, 0.04)),
    radius=0.01,
    limits=(1.0, 0.8, 1.0),
    idle=0.1,
    kicks=(5.0, 10.0),
    kick_least=0.1,
    push=1.0,
    spread=0.5,
    weights=(1.0, 1.0, *ARM, *ARM, 1.0, *LEG, *LEG),
    soft_limits=soft_limits,
    foot_height=0.12,
    scales=SCALES,
    action_scale=1.0,
    fall=0.0,
    command_first=True,
    strides=(1.25, 1.75),
    gait=(0.0, 0.5),
    phases=2,
    stands=True,
    legs=("Left_Hip_Roll", "Left_Hip_Yaw", "Right_Hip_Roll", "Right_Hip_Yaw", "Left_Knee_Pitch", "Right_Knee_Pitch"),
    boxes=("left_foot", "right_foot"),
    reads=("geom_xpos", "geom_xmat"),
)
TASKS = {"T1Flat-v0": walking(T1, step, TERMS, alive=decimal(0.25))}
