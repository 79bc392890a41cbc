"""Acrobot: swing up the free end of a two-link pendulum by a torque at the joint between the links.

The problem is from Sutton, "Generalization in Reinforcement Learning" (1996), and Sutton and Barto,
"Reinforcement Learning: An Introduction"; the reference implementation is Gymnasium's ``acrobot.py``.
Equations of motion are the book's, with terms collected. Both links have length, mass and moment of
inertia 1, and their centers of mass are at mid-length. A step is one fourth-order Runge-Kutta step of
0.2 s, in float64.
"""

# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false

import math
from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np
import warp as wp

from headrace.envs.drawing import BLACK, Canvas, box
from headrace.pool.executors.kernels import KernelEnv, KernelTask, Streams, sincos, uniform
from headrace.pool.signals import Signals, numbers
from headrace.pool.spec import Field

DT = wp.constant(wp.float64(0.2))  # s
G = wp.constant(wp.float64(9.8))  # m/s²
PI = wp.constant(wp.float64(math.pi))
MAX_SPEED_1 = wp.constant(wp.float64(4 * math.pi))  # rad/s
MAX_SPEED_2 = wp.constant(wp.float64(9 * math.pi))
HALF = wp.constant(wp.float64(0.5))
ONE = wp.constant(wp.float64(1.0))
TWO = wp.constant(wp.float64(2.0))
START = wp.constant(wp.float64(0.1))

HIGH = np.array([1.0, 1.0, 1.0, 1.0, 4 * math.pi, 9 * math.pi], np.float32)
OBSERVATION = gym.spaces.Box(-HIGH, HIGH, dtype=np.float32)
ACTION = gym.spaces.Discrete(3)
INFO = (Field("state", np.dtype(np.float32), (2,)),)


@wp.struct
class State:
    """The state of the two links.

    ``links`` holds the first link's angle (rad, 0 hangs down), the second link's angle relative to the first, and
    their angular velocities (rad/s). ``trig`` caches the sine and cosine of the first angle and of the second,
    which both the observation and the next step use.
    """

    links: wp.array[wp.vec4d]
    trig: wp.array[wp.vec4d]


@wp.struct
class View:
    """The outputs: ``obs`` float32[rows, 6] and EnvPool's info field ``state`` float32[rows, 2].

    Observations are the cosine and sine of the first angle and of the second, then the angular velocities (rad/s).
    ``state`` is the two angles (rad).
    """

    obs: wp.array2d[wp.float32]
    state: wp.array2d[wp.float32]


@wp.func
def _start(streams: Streams, env: int) -> wp.float64:
    return wp.float64(wp.float32(uniform(streams, env, -START, START)))


@wp.func
def reset(state: State, env: int, streams: Streams):
    theta1 = _start(streams, env)
    theta2 = _start(streams, env)
    speed1 = _start(streams, env)
    speed2 = _start(streams, env)
    state.links[env] = wp.vec4d(theta1, theta2, speed1, speed2)
    state.trig[env] = _trig(theta1, theta2)


@wp.func
def _trig(theta1: wp.float64, theta2: wp.float64) -> wp.vec4d:
    sin1, cos1 = sincos(theta1)
    sin2, cos2 = sincos(theta2)
    return wp.vec4d(sin1, cos1, sin2, cos2)


@wp.func
def _derivative(links: wp.vec4d, trig: wp.vec4d, torque: wp.float64) -> wp.vec4d:
    speed1 = links[2]
    speed2 = links[3]
    sin1, cos1, sin2, cos2 = trig[0], trig[1], trig[2], trig[3]
    d1 = wp.float64(3.5) + cos2
    d2 = wp.float64(1.25) + HALF * cos2
    ratio = d2 / d1
    spin = speed2 * (HALF * speed2 + speed1)
    phi2 = HALF * G * (sin1 * cos2 + cos1 * sin2)
    phi1 = wp.float64(1.5) * G * sin1 - sin2 * spin + phi2
    acc2 = (torque - HALF * (speed1 * speed1) * sin2 - phi2 + ratio * phi1) / (wp.float64(1.25) - d2 * ratio)
    acc1 = -(ratio * acc2 + phi1 / d1)
    return wp.vec4d(speed1, speed2, acc1, acc2)


@wp.func
def _derivative_at(links: wp.vec4d, torque: wp.float64) -> wp.vec4d:
    return _derivative(links, _trig(links[0], links[1]), torque)


@wp.func
def _wrap(angle: wp.float64) -> wp.float64:
    while angle > PI:
        angle = angle - TWO * PI
    while angle < -PI:
        angle = angle + TWO * PI
    return angle


@wp.func
def step(state: State, env: int, actions: wp.array[wp.int64], row: int, streams: Streams):
    links = state.links[env]
    torque = wp.float64(actions[row] - wp.int64(1))
    k1 = _derivative(links, state.trig[env], torque)
    k2 = _derivative_at(links + DT * HALF * k1, torque)
    k3 = _derivative_at(links + DT * HALF * k2, torque)
    k4 = _derivative_at(links + DT * k3, torque)
    links = links + DT / wp.float64(6.0) * (k1 + TWO * k2 + TWO * k3 + k4)

    theta1, theta2 = _wrap(links[0]), _wrap(links[1])
    speed1 = wp.clamp(links[2], -MAX_SPEED_1, MAX_SPEED_1)
    speed2 = wp.clamp(links[3], -MAX_SPEED_2, MAX_SPEED_2)
    state.links[env] = wp.vec4d(theta1, theta2, speed1, speed2)
    trig = _trig(theta1, theta2)
    state.trig[env] = trig
    terminated = -trig[1] - (trig[1] * trig[3] - trig[0] * trig[2]) > ONE
    return wp.where(terminated, wp.float32(0.0), wp.float32(-1.0)), terminated


@wp.func
def observe(state: State, env: int, view: View, row: int):
    links = state.links[env]
    trig = state.trig[env]
    view.obs[row, 0] = wp.float32(trig[1])
    view.obs[row, 1] = wp.float32(trig[0])
    view.obs[row, 2] = wp.float32(trig[3])
    view.obs[row, 3] = wp.float32(trig[2])
    view.obs[row, 4] = wp.float32(links[2])
    view.obs[row, 5] = wp.float32(links[3])
    view.state[row, 0] = wp.float32(links[0])
    view.state[row, 1] = wp.float32(links[1])


def render(state: Mapping[str, Any]) -> np.ndarray:
    canvas = Canvas(500, 500)
    scale, half_width = 500 / 4.4, 0.1 * 500 / 4.4
    theta1, theta2 = (float(angle) for angle in state["links"][:2])
    canvas.line([(0, 250 + scale), (500, 250 + scale)], BLACK)
    joint = (250.0, 250.0)
    for angle in (theta1 - math.pi / 2, theta1 + theta2 - math.pi / 2):
        canvas.polygon(box(0, scale, -half_width, half_width, angle, joint), (0, 204, 204))
        canvas.circle(joint, half_width, (204, 204, 0))
        joint = (joint[0] + scale * math.cos(angle), joint[1] + scale * math.sin(angle))
    return canvas.array()


MOST = np.array([math.pi, math.pi, 4 * math.pi, 9 * math.pi])
BOUNDS = {"links": (-MOST, MOST), "trig": (-1.001, 1.001)}  # rounding may take a sine beyond 1
ENV = KernelEnv("Acrobot", State, View, reset, step, observe, render, bounds=BOUNDS)
SEEN = numbers(
    cosine_of_the_first_angle="", sine_of_the_first_angle="", cosine_of_the_second_angle="",
    sine_of_the_second_angle="", first_angular_velocity="rad/s", second_angular_velocity="rad/s",
)  # fmt: skip
SIGNALS = Signals(SEEN, rate_hz=5)
TASKS = {
    "Acrobot-v1": KernelTask(ENV, OBSERVATION, ACTION, INFO, max_episode_steps=500, render_fps=15, signals=SIGNALS)
}
