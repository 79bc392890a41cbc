"""MountainCarContinuous: MountainCar with a continuous force.

The reward is 100 for reaching the goal, minus 0.1 times the squared action in every step. The reference
implementation is Gymnasium's ``continuous_mountain_car.py``. As there, the state and all computations are
float32, except for the cosine.
"""

# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false

from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np
import warp as wp

from headrace.envs.classic_control import hills
from headrace.pool.executors.kernels import KernelEnv, KernelTask, Streams, decimal, uniform
from headrace.pool.signals import Control, Signals

MIN_POSITION = wp.constant(wp.float32(-1.2))
MAX_POSITION = wp.constant(wp.float32(0.6))
MAX_SPEED = wp.constant(wp.float32(0.07))
GOAL_POSITION = wp.constant(wp.float32(0.45))
POWER = wp.constant(wp.float32(0.0015))
GRAVITY = wp.constant(wp.float64(0.0025))

ACTION = gym.spaces.Box(-1.0, 1.0, (1,), np.float32)
OPTIONS = {"goal_velocity": decimal(0.0)}


@wp.struct
class State:
    """Position along the track, and velocity (position per step)."""

    position: wp.array[wp.float32]
    velocity: wp.array[wp.float32]
    goal_velocity: wp.float32


@wp.struct
class View:
    """The observation: ``obs`` float32[rows, 2], position and velocity."""

    obs: wp.array2d[wp.float32]


@wp.func
def reset(state: State, env: int, streams: Streams):
    state.position[env] = wp.float32(uniform(streams, env, wp.float64(-0.6), wp.float64(-0.4)))
    state.velocity[env] = wp.float32(0.0)


@wp.func
def step(state: State, env: int, actions: wp.array2d[wp.float32], row: int, streams: Streams):
    position = state.position[env]
    velocity = state.velocity[env]
    action = actions[row, 0]
    force = wp.clamp(action, wp.float32(-1.0), wp.float32(1.0))
    slope = wp.float32(GRAVITY * wp.cos(wp.float64(wp.float32(3.0) * position)))
    velocity = wp.clamp(velocity + (force * POWER - slope), -MAX_SPEED, MAX_SPEED)
    position = wp.clamp(position + velocity, MIN_POSITION, MAX_POSITION)
    if position == MIN_POSITION and velocity < wp.float32(0.0):
        velocity = wp.float32(0.0)
    state.position[env] = position
    state.velocity[env] = velocity
    terminated = position >= GOAL_POSITION and velocity >= state.goal_velocity
    prize = wp.where(terminated, wp.float64(100.0), wp.float64(0.0))
    return wp.float32(prize - wp.float64(action) * wp.float64(action) * wp.float64(0.1)), terminated


@wp.func
def observe(state: State, env: int, view: View, row: int):
    view.obs[row, 0] = state.position[env]
    view.obs[row, 1] = state.velocity[env]


def render(state: Mapping[str, Any]) -> np.ndarray:
    return hills.draw(float(state["position"]), goal=float(GOAL_POSITION))


BOUNDS = {"position": (-1.2, 0.6), "velocity": (-0.07, 0.07)}
ENV = KernelEnv("MountainCarContinuous", State, View, reset, step, observe, render, bounds=BOUNDS)
SIGNALS = Signals(hills.SEEN, (Control("acceleration", "1/step²", float(POWER)),))
TASKS = {
    "MountainCarContinuous-v0": KernelTask(
        ENV, hills.OBSERVATION, ACTION, options=OPTIONS, max_episode_steps=999, signals=SIGNALS
    )
}
