"""Pendulum: swing up a pendulum and keep it upright, by a torque too weak to lift it directly.

Version v1 follows Gymnasium's ``pendulum.py``, v0 that of OpenAI Gym, which updates the angle before it
clips the angular velocity. Mass and length are 1. The torque is rounded to float32 where Gymnasium rounds
it; everything else is float64.
"""

# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false

import math
from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np
import warp as wp

from headrace.envs.drawing import BLACK, Canvas, box
from headrace.pool.executors.kernels import KernelEnv, KernelTask, Streams, decimal, sincos, uniform
from headrace.pool.signals import Control, Signals, numbers

MAX_SPEED = wp.constant(wp.float64(8.0))  # rad/s
MAX_TORQUE = wp.constant(wp.float32(2.0))  # N m
DT = wp.constant(wp.float64(0.05))  # s
PI = wp.constant(wp.float64(math.pi))
TWO_PI = wp.constant(wp.float64(2 * math.pi))

HIGH = np.array([1.0, 1.0, 8.0], np.float32)
OBSERVATION = gym.spaces.Box(-HIGH, HIGH, dtype=np.float32)
ACTION = gym.spaces.Box(-2.0, 2.0, (1,), np.float32)
OPTIONS = {"g": decimal(10.0)}


@wp.struct
class State:
    """Angle (rad, 0 is upright, not wrapped), angular velocity (rad/s), and the last torque (N m), for rendering."""

    theta: wp.array[wp.float64]
    theta_dot: wp.array[wp.float64]
    torque: wp.array[wp.float32]
    g: wp.float64  # m/s²
    limits_speed_first: wp.bool  # whether the velocity is clipped before the angle is updated, as in v1


@wp.struct
class View:
    """The observation: ``obs`` float32[rows, 3], the angle's cosine and sine and the angular velocity (rad/s)."""

    obs: wp.array2d[wp.float32]


@wp.func
def reset(state: State, env: int, streams: Streams):
    state.theta[env] = uniform(streams, env, -PI, PI)
    state.theta_dot[env] = uniform(streams, env, wp.float64(-1.0), wp.float64(1.0))
    state.torque[env] = wp.float32(0.0)


@wp.func
def step(state: State, env: int, actions: wp.array2d[wp.float32], row: int, streams: Streams):
    theta = state.theta[env]
    speed = state.theta_dot[env]
    torque = wp.clamp(actions[row, 0], -MAX_TORQUE, MAX_TORQUE)

    turned = theta + PI
    off = turned - TWO_PI * wp.floor(turned / TWO_PI) - PI  # theta in [-π, π)
    effort = wp.float64(wp.float32(0.001) * (torque * torque))
    cost = off * off + wp.float64(0.1) * (speed * speed) + effort

    push = wp.float64(wp.float32(3.0) * torque)
    sin, _cos = sincos(theta)
    speed = speed + (wp.float64(3.0) * state.g / wp.float64(2.0) * sin + push) * DT
    limited = wp.clamp(speed, -MAX_SPEED, MAX_SPEED)
    state.theta[env] = theta + wp.where(state.limits_speed_first, limited, speed) * DT
    state.theta_dot[env] = limited
    state.torque[env] = torque
    return wp.float32(-cost), wp.bool(False)


@wp.func
def observe(state: State, env: int, view: View, row: int):
    sin, cos = sincos(state.theta[env])
    view.obs[row, 0] = wp.float32(cos)
    view.obs[row, 1] = wp.float32(sin)
    view.obs[row, 2] = wp.float32(state.theta_dot[env])


def render(state: Mapping[str, Any]) -> np.ndarray:
    canvas = Canvas(500, 500)
    scale, center = 500 / 4.4, (250.0, 250.0)
    angle, half_width, red = float(state["theta"]) + math.pi / 2, 0.1 * scale, (204, 77, 77)
    end = (250 + scale * math.cos(angle), 250 + scale * math.sin(angle))
    canvas.polygon(box(0, scale, -half_width, half_width, angle, center), red)
    canvas.circle(center, half_width, red)
    canvas.circle(end, half_width, red)
    canvas.circle(center, 0.05 * scale, BLACK)
    _draw_torque(canvas, float(state["torque"]), scale)
    return canvas.array()


def _draw_torque(canvas: Canvas, torque: float, scale: float) -> None:
    """Draws an arrow around the axle in the torque's direction, with a length proportional to the torque."""
    if abs(torque) < 0.01:
        return
    radius, sweep = 0.3 * scale, 0.75 * math.pi * torque
    angles = np.linspace(0, sweep, 24) + math.pi / 2
    arc = [(250 + radius * math.cos(a), 250 + radius * math.sin(a)) for a in angles]
    canvas.line(arc, BLACK, 3)
    tip = box(-6, 6, -6, 6, angles[-1] + math.copysign(math.pi / 2, torque), arc[-1])
    canvas.polygon([tip[0], tip[1], ((tip[2][0] + tip[3][0]) / 2, (tip[2][1] + tip[3][1]) / 2)], BLACK)


# more turns than an episode makes, and not so many that `sincos` overflows
BOUNDS = {"theta": (-1e9, 1e9), "theta_dot": (-8, 8), "torque": (-2, 2)}
SEEN = numbers(cosine_of_the_angle="", sine_of_the_angle="", angular_velocity="rad/s")
SIGNALS = Signals(SEEN, (Control("torque", "N m"),), rate_hz=20)
TASKS = {
    f"Pendulum-{version}": KernelTask(
        KernelEnv(
            "Pendulum",
            State,
            View,
            reset,
            step,
            observe,
            render,
            constants={"limits_speed_first": first},
            bounds=BOUNDS,
        ),
        OBSERVATION,
        ACTION,
        options=OPTIONS,
        max_episode_steps=200,
        render_fps=20,
        signals=SIGNALS,
    )
    for version, first in (("v0", False), ("v1", True))
}
