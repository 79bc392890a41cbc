"""Unitree's Go2 by the settings of UniLab's task go2_joystick_flat, for PPO: a trot by a clock.

It is that of UniLab 1.5.2 (Jia et al. 2026, https://arxiv.org/abs/2605.30313) in physics, observation, reward and ends
of episodes. Its clock runs on from episode to episode, where this one begins with each.
"""

# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false
# pyright: reportCallIssue=false, reportReturnType=false

import math
from dataclasses import replace
from typing import Any

import warp as wp

from headrace.envs.robots.go2 import GO2
from headrace.envs.robots.robot import Robot, walking
from headrace.envs.robots.sensors import GRAVITY_NOISE, GYRO_NOISE, noise_bits, noisy, observe_critic, observe_joints
from headrace.envs.robots.signals import of_clocked
from headrace.envs.robots.walker import (
    LINEAR,
    ONE,
    QPOS,
    TURN,
    TURNING,
    ZERO,
    State,
    View,
    ending,
    follow,
    in_frame,
    is_down,
    spin,
    term,
    touches,
    up,
    velocity,
)
from headrace.pool.executors.mujoco import Draw, Streams, scale
from headrace.pool.options import Option

F = wp.float64
SCALES = {
    "tracking_lin_vel": 1.0,
    "tracking_ang_vel": 0.2,
    "lin_vel_z": -5.0,
    "ang_vel_xy": -0.1,
    "base_height": -100.0,
    "action_rate": -0.005,
    "similar_to_default": -0.1,
    "contact": 0.24,
    "swing_feet_z": 4.0,
    "termination": 0.0,
}
TERMS = tuple(SCALES)
_, _, BOUNCING, ROLLING, HEIGHT, RATE, AWAY, CONTACT, SWING, FALLING = map(wp.constant, range(len(TERMS)))
STANDING_HEIGHT = wp.constant(F(0.3))  # m
NEAR = wp.constant(F(0.01))  # m², of errors of feet's heights
STANCE = wp.constant(F(0.6))  # of a stride
ROUNDING = wp.constant(F(1e-9))  # so that the clock's 25 ticks are where they should be


@wp.func
def clock(state: State, env: int, foot: int) -> F:
    """Returns which part of its stride a foot is in, from 0 to 1, of which the first are on the ground."""
    phase = state.phase[env, foot]
    if state.steps[env] > 0:  # `act` has made it that of the step's beginning
        phase += state.stride[env]
    part = phase / TURN + ROUNDING
    return part - wp.floor(part)


@wp.func
def trunk_terms(physics: Any, state: State, env: int, view: View) -> F:
    moving = in_frame(physics, env, state.imu, velocity(physics, env, state.imu_body, state.imu))
    spinning = in_frame(physics, env, state.imu, spin(physics, env, state.imu_body))
    tracked, off = follow(state, env, moving, spinning, view), physics.qpos[env, 2] - STANDING_HEIGHT
    total = term(state, env, LINEAR, wp.sqrt(tracked[0]), view)  # whose errors count half as much as in `tracking`
    total += term(state, env, TURNING, wp.sqrt(tracked[1]), view)
    total += term(state, env, BOUNCING, moving[2] * moving[2], view)
    total += term(state, env, ROLLING, spinning[0] * spinning[0] + spinning[1] * spinning[1], view)
    total += term(state, env, HEIGHT, off * off, view)
    return total


@wp.func
def leg_terms(physics: Any, state: State, env: int, view: View) -> F:
    rate, away, kept, swing = F(0.0), F(0.0), F(0.0), F(0.0)
    for i in range(state.nu):
        change = state.action[env, i] - state.last_action[env, i]
        rate += change * change
        away += wp.abs(physics.qpos[env, QPOS + i] - state.home[i])
    for foot in range(state.num_feet):
        standing = clock(state, env, foot) < STANCE
        off = physics.site_xpos[env, state.sites[foot]][2] - state.foot_height
        kept += wp.where((touches(physics, state, env, foot) > ZERO) == standing, ONE, ZERO)
        swing += wp.where(standing, ZERO, wp.exp(-off * off / NEAR))
    feet = F(state.num_feet)
    total = term(state, env, RATE, rate, view)
    total += term(state, env, AWAY, away, view)
    total += term(state, env, CONTACT, kept / feet, view)
    total += term(state, env, SWING, swing / feet, view)
    return total


@wp.func
def step(physics: Any, state: State, env: int, actions: wp.array2d[F], view: View):
    x, y = physics.qpos[env, 4], physics.qpos[env, 5]
    total = trunk_terms(physics, state, env, view)
    total += leg_terms(physics, state, env, view)
    return ending(state, env, total, is_down(physics, state, env, ONE - F(2.0) * (x * x + y * y)), FALLING, view)


@wp.func
def observe(physics: Any, state: State, env: int, view: View, streams: Streams):
    """Writes what gyroscope and joints see, the action, the command and the clock.

    In place of gravity in the trunk's frame there is the trunk's axis in the world's, as UniLab has it.
    """
    spinning = in_frame(physics, env, state.imu, spin(physics, env, state.imu_body))
    down = -up(physics, env, state.imu)
    end = 6 + 3 * state.nu
    for i in range(3):
        bits = noise_bits(state, env, streams)
        view.obs[env, i] = noisy(state, spinning[i], GYRO_NOISE, bits, 1)
        view.obs[env, 3 + i] = noisy(state, down[i], GRAVITY_NOISE, bits, 2)
        view.obs[env, end + i] = wp.float32(state.command[env, i])
        view.command[env, i] = wp.float32(state.command[env, i])
    observe_joints(physics, state, env, 6, view, streams)
    for i in range(state.nu):
        view.obs[env, 6 + 2 * state.nu + i] = wp.float32(state.action[env, i])
    for foot in range(state.num_feet):
        view.obs[env, end + 3 + foot] = wp.float32(clock(state, env, foot))


@wp.func
def observe_all(physics: Any, state: State, env: int, view: View, streams: Streams):
    """As `observe`, and for a critic."""
    observe(physics, state, env, view, streams)
    observe_critic(physics, state, env, view)


def drawn(robot: Robot, model: Any) -> dict[Any, Draw]:
    """Returns what the option ``randomise`` draws: stiffness and damping of each servo, by one factor of both."""
    return {("actuator_gainprm", "actuator_biasprm"): scale(0.9, 1.1)}


GO2_UNILAB = replace(
    GO2,
    name="Go2UniLab",
    model="go2_unilab.xml",
    frame_skip=2,
    radius=0.023,
    limits=(1.0, 0.4, 0.8),
    least=(-0.6, -0.4, -0.8),
    kept=(1.0, 1.0, 1.0),
    changed=1.0,
    period=20.0,
    regular=True,
    scales=SCALES,
    action_scale=0.25,
    fall=0.0,
    strides=(2.0, 2.0),
    gait=(0.5, 0.0, 0.0, 0.5),
    phases=1,
    sees_velocity=False,
    drawn=drawn,
)
TASKS = {
    "Go2UniLab-v0": walking(
        GO2_UNILAB,
        step,
        TERMS,
        (observe, observe_all),
        math.inf,
        noise=0.0,
        clipped=False,
        tilt=Option(60.0, 0, 180),
        randomise=True,
        signals=of_clocked,
    )
}
