"""CartPole: keep a pole upright on a cart by pushing the cart left or right.

The problem is from Barto, Sutton and Anderson, "Neuronlike adaptive elements that can solve difficult
learning control problems" (1983). Its dynamics are integrated by Euler's method in float64, as in
Gymnasium's ``cartpole.py``. See also R. Florian, "Correct equations for the dynamics of the cart-pole
system" (2005).
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
from headrace.pool.executors.kernels.trigonometry import sincos_near_zero
from headrace.pool.signals import Signals, numbers

GRAVITY = wp.constant(wp.float64(9.8))  # m/s²
POLE_MASS = wp.constant(wp.float64(0.1))  # kg
TOTAL_MASS = wp.constant(wp.float64(0.1 + 1.0))
HALF_LENGTH = wp.constant(wp.float64(0.5))  # m, half the pole's length
POLE_MASS_LENGTH = wp.constant(wp.float64(0.1 * 0.5))
FORCE = wp.constant(wp.float64(10.0))  # N
TAU = wp.constant(wp.float64(0.02))  # s, duration of a step
FOUR_THIRDS = wp.constant(wp.float64(4.0 / 3.0))
X_LIMIT = wp.constant(wp.float64(2.4))  # m
THETA_LIMIT = wp.constant(wp.float64(12 * 2 * math.pi / 360))  # rad
SMALL = wp.constant(wp.float64(math.pi / 4))
START = wp.constant(wp.float64(0.05))

HIGH = np.array([2 * float(X_LIMIT), np.inf, 2 * float(THETA_LIMIT), np.inf], np.float32)
OBSERVATION = gym.spaces.Box(-HIGH, HIGH, dtype=np.float32)
ACTION = gym.spaces.Discrete(2)
OPTIONS = {"sutton_barto_reward": False}


@wp.struct
class State:
    """The cart's position (m) and velocity (m/s), and the pole's angle (rad, 0 is upright) and angular velocity."""

    x: wp.array[wp.float64]
    x_dot: wp.array[wp.float64]
    theta: wp.array[wp.float64]
    theta_dot: wp.array[wp.float64]
    sutton_barto_reward: wp.bool


@wp.struct
class View:
    """The observation: ``obs`` float32[rows, 4], the four numbers of the state in their order."""

    obs: wp.array2d[wp.float32]


@wp.func
def reset(state: State, env: int, streams: Streams):
    state.x[env] = uniform(streams, env, -START, START)
    state.x_dot[env] = uniform(streams, env, -START, START)
    state.theta[env] = uniform(streams, env, -START, START)
    state.theta_dot[env] = uniform(streams, env, -START, START)


@wp.func
def step(state: State, env: int, actions: wp.array[wp.int64], row: int, streams: Streams):
    x = state.x[env]
    x_dot = state.x_dot[env]
    theta = state.theta[env]
    theta_dot = state.theta_dot[env]
    force = wp.where(actions[row] == wp.int64(1), FORCE, -FORCE)
    sin, cos = sincos_near_zero(theta)
    if wp.abs(theta) > SMALL:  # only possible in a state that was loaded
        sin, cos = sincos(theta)

    temp = (force + POLE_MASS_LENGTH * (theta_dot * theta_dot) * sin) / TOTAL_MASS
    theta_acc = (GRAVITY * sin - cos * temp) / (HALF_LENGTH * (FOUR_THIRDS - POLE_MASS * (cos * cos) / TOTAL_MASS))
    x_acc = temp - POLE_MASS_LENGTH * theta_acc * cos / TOTAL_MASS

    x = x + TAU * x_dot
    theta = theta + TAU * theta_dot
    state.x[env] = x
    state.x_dot[env] = x_dot + TAU * x_acc
    state.theta[env] = theta
    state.theta_dot[env] = theta_dot + TAU * theta_acc

    terminated = wp.abs(x) > X_LIMIT or wp.abs(theta) > THETA_LIMIT
    reward = wp.float32(1.0)
    if state.sutton_barto_reward:
        reward = wp.where(terminated, wp.float32(-1.0), wp.float32(0.0))
    return reward, terminated


@wp.func
def observe(state: State, env: int, view: View, row: int):
    view.obs[row, 0] = wp.float32(state.x[env])
    view.obs[row, 1] = wp.float32(state.x_dot[env])
    view.obs[row, 2] = wp.float32(state.theta[env])
    view.obs[row, 3] = wp.float32(state.theta_dot[env])


def render(state: Mapping[str, Any]) -> np.ndarray:
    canvas = Canvas(600, 400)
    scale = 600 / (2 * float(X_LIMIT))
    x, axle = 300 + state["x"] * scale, 100 + 30 / 4
    canvas.line([(0, 100), (600, 100)], BLACK)
    canvas.polygon(box(-25, 25, -15, 15, at=(x, 100)), BLACK)
    canvas.polygon(box(-5, 5, -5, scale - 5, -state["theta"], (x, axle)), (202, 152, 101))
    canvas.circle((x, axle), 5, (129, 132, 203))
    return canvas.array()


# farther than an episode gets, and not so far that a step overflows
BOUNDS = dict.fromkeys(("x", "x_dot", "theta", "theta_dot"), (-1e6, 1e6))
ENV = KernelEnv("CartPole", State, View, reset, step, observe, render, bounds=BOUNDS)
SEEN = numbers(cart_position="m", cart_velocity="m/s", pole_angle="rad", pole_angular_velocity="rad/s")
SIGNALS = Signals(SEEN, rate_hz=50)
TASKS = {
    f"CartPole-{version}": KernelTask(
        ENV, OBSERVATION, ACTION, options=OPTIONS, max_episode_steps=limit, render_fps=50, signals=SIGNALS
    )
    for version, limit in (("v0", 200), ("v1", 500))
}
