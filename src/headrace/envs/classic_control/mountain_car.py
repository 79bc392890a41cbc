"""MountainCar: drive a car up a hill with an engine so weak that the car must first gain momentum.

The problem is from A. Moore's thesis (1990); the reference implementation is Gymnasium's
``mountain_car.py``. Actions 0, 1 and 2 accelerate to the left, not at all, and to the right. The reward is
−1 for every step until the goal is reached. The state is float64.
"""

# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false

from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np
import warp as wp

from headrace.envs.classic_control import hills
from headrace.pool.executors.kernels import KernelEnv, KernelTask, Streams, decimal, uniform
from headrace.pool.signals import Signals

MIN_POSITION = wp.constant(wp.float64(-1.2))
MAX_POSITION = wp.constant(wp.float64(0.6))
MAX_SPEED = wp.constant(wp.float64(0.07))
GOAL_POSITION = wp.constant(wp.float64(0.5))
FORCE = wp.constant(wp.float64(0.001))
GRAVITY = wp.constant(wp.float64(0.0025))

ACTION = gym.spaces.Discrete(3)
OPTIONS = {"goal_velocity": decimal(0.0)}


@wp.struct
class State:
    """Position along the track, and velocity (position per step)."""

    position: wp.array[wp.float64]
    velocity: wp.array[wp.float64]
    goal_velocity: wp.float64


@wp.struct
class View:
    """The observation: ``obs`` float32[rows, 2], position and velocity."""

    obs: wp.array2d[wp.float32]


@wp.func
def reset(state: State, env: int, streams: Streams):
    state.position[env] = uniform(streams, env, wp.float64(-0.6), wp.float64(-0.4))
    state.velocity[env] = wp.float64(0.0)


@wp.func
def step(state: State, env: int, actions: wp.array[wp.int64], row: int, streams: Streams):
    position = state.position[env]
    velocity = state.velocity[env]
    direction = wp.float64(actions[row] - wp.int64(1))
    velocity = velocity + (direction * FORCE - wp.cos(wp.float64(3.0) * position) * GRAVITY)
    velocity = wp.clamp(velocity, -MAX_SPEED, MAX_SPEED)
    position = wp.clamp(position + velocity, MIN_POSITION, MAX_POSITION)
    if position == MIN_POSITION and velocity < wp.float64(0.0):
        velocity = wp.float64(0.0)
    state.position[env] = position
    state.velocity[env] = velocity
    return wp.float32(-1.0), position >= GOAL_POSITION and velocity >= state.goal_velocity


@wp.func
def observe(state: State, env: int, view: View, row: int):
    view.obs[row, 0] = wp.float32(state.position[env])
    view.obs[row, 1] = wp.float32(state.velocity[env])


def render(state: Mapping[str, Any]) -> np.ndarray:
    return hills.draw(float(state["position"]), goal=float(GOAL_POSITION))


BOUNDS = {"position": (-1.2, 0.6), "velocity": (-0.07, 0.07)}
ENV = KernelEnv("MountainCar", State, View, reset, step, observe, render, bounds=BOUNDS)
TASKS = {
    "MountainCar-v0": KernelTask(
        ENV, hills.OBSERVATION, ACTION, options=OPTIONS, max_episode_steps=200, signals=Signals(hills.SEEN)
    )
}
