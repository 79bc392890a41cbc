"""Unitree's Go1 by the settings of mjlab's task Mjlab-Velocity-Flat-Unitree-Go1.

It is that of mjlab 1.6.0 (https://github.com/mujocolab/mjlab) in observation, reward, commands, control and ends of
episodes. As there, a reward is of the beginning of the last physics step, and an observation of the new state. Other
than there only feet collide, the height of a foot in the reward is as old as its velocity rather than a step older,
and contacts are looked at once in a step rather than after each physics step.
"""

# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false
# pyright: reportCallIssue=false, reportReturnType=false

import math
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import warp as wp

from headrace.envs.robots.go1 import GO1
from headrace.envs.robots.robot import Robot, walking
from headrace.envs.robots.sensors import GRAVITY_NOISE, GYRO_NOISE, SPEED_NOISE, noise_bits, noisy, observe_critic
from headrace.envs.robots.signals import of_reach
from headrace.envs.robots.walker import (
    HALF_TURN,
    LINEAR,
    ONE,
    QPOS,
    QVEL,
    ROOT,
    SIGMA,
    TURN,
    TURNING,
    ZERO,
    State,
    View,
    chance,
    ending,
    follow,
    has_fallen,
    in_frame,
    spin,
    term,
    touches,
    velocity,
)
from headrace.pool.executors.mujoco import Draw, Streams, add, draw, projected_gravity, to_frame, uniform
from headrace.pool.executors.mujoco.fields import library
from headrace.pool.options import Option

F = wp.float64
SCALES = {
    "track_linear_velocity": 2.0,
    "track_angular_velocity": 2.0,
    "upright": 1.0,
    "pose": 1.0,
    "dof_pos_limits": -1.0,
    "action_rate_l2": -0.1,
    "foot_clearance": -2.0,
    "foot_swing_height": -0.25,
    "foot_slip": -0.1,
    "soft_landing": -1e-5,
    "termination": 0.0,
}
TERMS = tuple(SCALES)
_, _, UPRIGHT, POSE, AT_LIMITS, RATE, CLEARANCE, HEIGHT, SLIP, LANDING, FALLING = map(wp.constant, range(len(TERMS)))

ROTOR, HERTZ, RATIO = 0.000111842, 10.0, 2.0  # kg m²; of a servo's oscillation, and its damping
GEARS = {"hip": 6.0, "thigh": 6.0, "calf": 9.0}
LIMITS = {"hip": 23.7, "thigh": 23.7, "calf": 35.55}  # Nm
STIFFNESS = {part: ROTOR * gear**2 * (math.tau * HERTZ) ** 2 for part, gear in GEARS.items()}
REACH = wp.constant(F(0.25 * LIMITS["hip"] / STIFFNESS["hip"]))  # rad for a unit of an action
KNEE_REACH = wp.constant(F(0.25 * LIMITS["calf"] / STIFFNESS["calf"]))

LEANING = wp.constant(F(0.2))
STRICT = wp.constant(F(1.0 / 6.0))  # how much less a joint may differ from the pose when standing
STANDING = wp.constant(F(0.05))  # the greatest command to stand still
LINEAR_NOISE, ANGLE_NOISE = wp.constant(F(0.5)), wp.constant(F(0.01))
SHARES = wp.constant(wp.vec3d(0.1, 0.3, 0.2))  # of commands: to stand, to face a direction, to go straight on
LEAST_FORWARDS = wp.constant(F(0.3))  # m/s
SOON, LATE = wp.constant(F(3.0)), wp.constant(F(8.0))  # s to a new command
KICKS = wp.constant(wp.vec3d(0.8, 1.04, 1.56))  # of `push`: upwards; roll and pitch; yaw
LOW, HIGH = wp.constant(F(0.01)), wp.constant(F(0.05))  # m, by which the robot starts higher


@wp.func
def commanded(state: State, env: int) -> F:
    """Returns how much a robot is to move: by its speed and its turning."""
    speed = wp.length(wp.vec2d(state.command[env, 0], state.command[env, 1]))
    return speed + wp.abs(state.command[env, 2])


# ---- reward ---------------------------------------------------------------------------------------------------------


@wp.func
def trunk_terms(physics: Any, state: State, env: int, view: View) -> F:
    motion, frame = physics.cvel[env, ROOT], physics.site_xmat[env, state.imu]
    turning = spin(physics, env, ROOT)
    arm = physics.xpos[env, ROOT] - physics.subtree_com[env, ROOT]
    here = wp.vec3d(motion[3], motion[4], motion[5]) + wp.cross(turning, arm)
    moving, spinning = in_frame(physics, env, state.imu, here), in_frame(physics, env, state.imu, turning)
    tracked = follow(state, env, moving, spinning, view)
    rolling = spinning[0] * spinning[0] + spinning[1] * spinning[1]
    leaning = frame[2, 0] * frame[2, 0] + frame[2, 1] * frame[2, 1]
    linear = tracked[0] * wp.exp(-moving[2] * moving[2] / SIGMA)
    total = term(state, env, LINEAR, linear, view)
    # errors of turning count half as much as in `tracking`
    total += term(state, env, TURNING, wp.sqrt(tracked[1] * wp.exp(-rolling / SIGMA)), view)
    total += term(state, env, UPRIGHT, wp.exp(-leaning / LEANING), view)
    return total


@wp.func
def joint_terms(physics: Any, state: State, env: int, view: View) -> F:
    beyond, pose, rate = F(0.0), F(0.0), F(0.0)
    part = wp.where(commanded(state, env) < STANDING, STRICT, ONE)
    for i in range(state.nu):
        angle, change = physics.qpos[env, QPOS + i], state.action[env, i] - state.last_action[env, i]
        off = (angle - state.home[i]) / (part * state.weights[i])
        beyond += wp.max(state.low[i] - angle, ZERO) + wp.max(angle - state.high[i], ZERO)
        pose += off * off
        rate += change * change
    total = term(state, env, POSE, wp.exp(-pose / F(state.nu)), view)
    total += term(state, env, AT_LIMITS, beyond, view)
    total += term(state, env, RATE, rate, view)
    return total


@wp.func
def force(physics: Any, state: State, env: int, foot: int) -> F:
    """Returns the force between a foot and the ground (N)."""
    at = state.forces[foot]
    x, y, z = physics.sensordata[env, at], physics.sensordata[env, at + 1], physics.sensordata[env, at + 2]
    return wp.length(wp.vec3d(x, y, z))


@wp.func
def feet_terms(physics: Any, state: State, env: int, view: View) -> F:
    clearance, height, slip, landing = F(0.0), F(0.0), F(0.0), F(0.0)
    for foot in range(state.num_feet):
        site = state.sites[foot]
        moving, high = velocity(physics, env, state.bodies[foot], site), physics.site_xpos[env, site][2]
        speed, touching = wp.length(wp.vec2d(moving[0], moving[1])), touches(physics, state, env, foot)
        clearance += wp.abs(high - state.foot_height) * speed
        slip += speed * speed * touching
        if touching == ZERO:
            state.peak[env, foot] = wp.max(state.peak[env, foot], high)
        elif state.touching[env, foot] == ZERO:
            lack = state.peak[env, foot] / state.foot_height - ONE
            height += lack * lack
            landing += force(physics, state, env, foot)
            state.peak[env, foot] = ZERO
        state.touching[env, foot] = touching
    moves = wp.where(commanded(state, env) > STANDING, ONE, ZERO)
    total = term(state, env, CLEARANCE, clearance * moves, view)
    total += term(state, env, HEIGHT, height * moves, view)
    total += term(state, env, SLIP, slip * moves, view)
    total += term(state, env, LANDING, landing * moves, view)
    return total


@wp.func
def step(physics: Any, state: State, env: int, actions: wp.array2d[F], view: View, streams: Streams):
    total = trunk_terms(physics, state, env, view)
    total += joint_terms(physics, state, env, view)
    total += feet_terms(physics, state, env, view)
    if state.push[0] > ZERO:
        kick(physics, state, env, streams)
    if not state.hold:
        state.until_command[env] = state.until_command[env] - 1
        if state.until_command[env] <= 0:
            draw_command(state, env, streams)
        face(physics, state, env)
    return ending(state, env, total, has_fallen(physics, state, env), FALLING, view)


# ---- commands and kicks ---------------------------------------------------------------------------------------------


@wp.func
def kick(physics: Any, state: State, env: int, streams: Streams):
    """Changes all of the trunk's velocity now and then."""
    state.until_kick[env] = state.until_kick[env] - 1
    if state.until_kick[env] <= 0:
        for i in range(QVEL):
            most = state.push[0] * wp.where(i < 2, ONE, wp.where(i == 2, KICKS[0], wp.where(i < 5, KICKS[1], KICKS[2])))
            physics.qvel[env, i] = physics.qvel[env, i] + uniform(streams, env, -most, most)
        state.until_kick[env] = int(uniform(streams, env, state.kick_soon, state.kick_late) / state.dt)


@wp.func
def draw_command(state: State, env: int, streams: Streams):
    """Draws a new command: to stand, to go straight on, to turn or to face a direction."""
    for i in range(3):
        state.command[env, i] = state.speed * uniform(streams, env, state.least[i], state.limits[i])
    state.heading[env] = TURN
    if chance(env, SHARES[1], streams):
        state.heading[env] = uniform(streams, env, -HALF_TURN, HALF_TURN)
    if chance(env, SHARES[2], streams):
        state.command[env, 0] = wp.max(wp.abs(state.command[env, 0]), state.speed * LEAST_FORWARDS)
        state.command[env, 1] = ZERO
        state.command[env, 2] = ZERO
    if chance(env, SHARES[0], streams):
        state.heading[env] = TURN
        for i in range(3):
            state.command[env, i] = ZERO
    state.until_command[env] = int(uniform(streams, env, SOON, LATE) / state.dt)


@wp.func
def face(physics: Any, state: State, env: int):
    """Makes the command turn the robot to where it is to face, if it is."""
    if state.heading[env] < TURN:
        w, x, y, z = (
            physics.qpos[env, 3], physics.qpos[env, 4], physics.qpos[env, 5], physics.qpos[env, 6],
        )  # fmt: skip
        off = state.heading[env] - wp.atan2(F(2.0) * (x * y + w * z), ONE - F(2.0) * (y * y + z * z))
        off = off - TURN * wp.floor(off / TURN + F(0.5))
        most = state.speed * state.limits[2]
        state.command[env, 2] = wp.clamp(F(0.5) * off, -most, most)


# ---- episodes -------------------------------------------------------------------------------------------------------


@wp.func
def reset(physics: Any, state: State, env: int, streams: Streams):
    """Begins an episode: anywhere, turned to anywhere, a little above the ground, at rest."""
    half = uniform(streams, env, ZERO, TURN) * F(0.5)
    physics.qpos[env, 3] = wp.cos(half)
    physics.qpos[env, 6] = wp.sin(half)
    for i in range(2):
        physics.qpos[env, i] = uniform(streams, env, F(-0.5), F(0.5))
    physics.qpos[env, 2] = physics.qpos[env, 2] + uniform(streams, env, LOW, HIGH)
    for i in range(state.nu):
        state.action[env, i] = ZERO
        state.last_action[env, i] = ZERO
    for foot in range(state.num_feet):
        state.touching[env, foot] = ZERO
        state.peak[env, foot] = ZERO
    for i in range(3):
        state.command[env, i] = ZERO
    state.heading[env] = TURN
    state.steps[env] = 0
    state.until_kick[env] = int(uniform(streams, env, state.kick_soon, state.kick_late) / state.dt)
    if not state.hold:
        draw_command(state, env, streams)
        face(physics, state, env)


@wp.func
def act(physics: Any, state: State, env: int, actions: wp.array2d[F]):
    """Gives the servos the targets of an action."""
    state.steps[env] = state.steps[env] + 1
    for i in range(state.nu):
        state.last_action[env, i] = state.action[env, i]
        state.action[env, i] = actions[env, i]
        reach = state.action_scale * wp.where(i % 3 == 2, KNEE_REACH, REACH)
        physics.ctrl[env, i] = state.home[i] + reach * actions[env, i]


@wp.func
def observe(physics: Any, state: State, env: int, view: View, streams: Streams):
    """Writes velocity, angular velocity, gravity, joints, the action and the command, of the new state."""
    quat = wp.quatd(physics.qpos[env, 3], physics.qpos[env, 4], physics.qpos[env, 5], physics.qpos[env, 6])
    spinning = wp.vec3d(physics.qvel[env, 3], physics.qvel[env, 4], physics.qvel[env, 5])
    moving = to_frame(quat, wp.vec3d(physics.qvel[env, 0], physics.qvel[env, 1], physics.qvel[env, 2]))
    moving = moving + wp.cross(spinning, physics.site_pos[env, state.imu])
    down, nu = projected_gravity(quat), state.nu
    for i in range(3):
        bits = noise_bits(state, env, streams)
        view.obs[env, i] = noisy(state, moving[i], LINEAR_NOISE, bits, 0)
        view.obs[env, 3 + i] = noisy(state, spinning[i], GYRO_NOISE, bits, 1)
        view.obs[env, 6 + i] = noisy(state, down[i], GRAVITY_NOISE, bits, 2)
        view.obs[env, 9 + 3 * nu + i] = wp.float32(state.command[env, i])
        view.command[env, i] = wp.float32(state.command[env, i])
    for i in range(nu):
        bits = noise_bits(state, env, streams)
        view.obs[env, 9 + i] = noisy(state, physics.qpos[env, QPOS + i] - state.home[i], ANGLE_NOISE, bits, 0)
        view.obs[env, 9 + nu + i] = noisy(state, physics.qvel[env, QVEL + i], SPEED_NOISE, bits, 1)
        view.obs[env, 9 + 2 * nu + i] = wp.float32(state.action[env, i])


@wp.func
def observe_all(physics: Any, state: State, env: int, view: View, streams: Streams):
    """As `observe`, and for a critic."""
    observe(physics, state, env, view, streams)
    observe_critic(physics, state, env, view)


# ---- model ----------------------------------------------------------------------------------------------------------


def settle(spec: Any) -> None:
    """Gives a model of the robot mjlab's servos, feet and solver, and sensors of the forces in the feet."""
    mj, option = library(), spec.option
    option.timestep, option.impratio, option.cone = 0.005, 10.0, mj.mjtCone.mjCONE_ELLIPTIC
    option.integrator = mj.mjtIntegrator.mjINT_IMPLICITFAST
    option.disableflags &= ~int(mj.mjtDisableBit.mjDSBL_EULERDAMP)
    for servo in spec.actuators:
        part = servo.name.split("_")[1]
        armature, stiffness = ROTOR * GEARS[part] ** 2, STIFFNESS[part]
        joint = spec.joint(servo.target)
        joint.armature, joint.damping[0], joint.frictionloss = armature, 0.0, 0.0
        servo.gainprm[0], servo.biasprm[1] = stiffness, -stiffness
        servo.biasprm[2] = -2 * RATIO * armature * math.tau * HERTZ
        servo.inheritrange, servo.ctrllimited = 0.0, False
        servo.forcerange = (-LIMITS[part], LIMITS[part])
    for name in GO1.feet:
        foot = spec.geom(name)
        foot.condim, foot.priority, foot.friction = 6, 2, (1.0, 5e-3, 5e-4)
        foot.solref, foot.solimp = (0.01, 1.0), (0.9, 0.95, 0.001, 0.5, 2.0)
        spec.add_sensor(
            name=f"{name}_force", type=mj.mjtSensor.mjSENS_CONTACT, objtype=mj.mjtObj.mjOBJ_GEOM, objname=name,
            reftype=mj.mjtObj.mjOBJ_GEOM, refname="floor", intprm=[1 << 1, 3, 1],  # the force, of all contacts
        )  # fmt: skip


def soft_limits(ranges: np.ndarray) -> np.ndarray:
    """Returns the ranges [joints, 2] that the reward keeps joints in: nine tenths, from their middles."""
    return ranges.mean(1, keepdims=True) + 0.9 * (ranges - ranges.mean(1, keepdims=True))


def drawn(robot: Robot, model: Any) -> dict[Any, Draw]:
    """Returns what the option ``randomise`` draws: the feet's friction, the trunk's centre and the joints' zeros."""
    joints = [model.joint(i).name for i in range(1, model.njnt)]
    return {
        "geom_friction": draw(0.3, 1.5, together=True, only=robot.feet, column=0),
        "body_ipos": add(-0.025, 0.025, only=("trunk",)),
        "qpos0": add(-0.015, 0.015, only=joints),
    }


GO1_MJLAB = replace(
    GO1,
    name="Go1Mjlab",
    frame_skip=4,
    limits=(1.0, 1.0, 0.5),
    weights=(0.3, 0.3, 0.6) * 4,
    soft_limits=soft_limits,
    scales=SCALES,
    action_scale=1.0,
    fall=0.0,
    push=0.5,
    forces=tuple(f"{foot}_force" for foot in GO1.feet),
    reads=("xpos", "site_pos"),
    drawn=drawn,
    settle=settle,
)
TASKS = {
    "Go1Mjlab-v0": walking(
        GO1_MJLAB,
        step,
        TERMS,
        (observe, observe_all),
        math.inf,
        reset,
        act,
        partial(of_reach, np.array([REACH, REACH, KNEE_REACH] * 4, float)),
        clipped=False,
        tilt=Option(70.0, 0, 180),
    )
}
