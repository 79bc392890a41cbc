"""Reacher: a planar arm of two links that is rewarded for moving its fingertip to a target."""

# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false

from collections.abc import Mapping
from functools import partial
from typing import Any

import gymnasium as gym
import warp as wp

from headrace.envs.mujoco.common import (
    add_uniform,
    box,
    check_size,
    copy_row,
    load_model,
    number_of,
    numbers,
    sum_of_squares,
)
from headrace.envs.mujoco.options import xml_file
from headrace.envs.mujoco.signals import reacher
from headrace.pool.executors.kernels.program import FINITE
from headrace.pool.executors.kernels.random import Streams, uniform
from headrace.pool.executors.mujoco import MujocoEnv, MujocoTask, Signals
from headrace.pool.options import decimal

START = wp.constant(wp.float64(0.1))  # rad
START_SPEED = wp.constant(wp.float64(0.005))  # rad/s
REACH = wp.constant(wp.float64(0.2))  # m


@wp.struct
class State:
    """The fingertip's distance (m) to the target at the last observation.

    ``before`` is whether a step is rewarded for the state before it, as in v4.
    """

    distance: wp.array[wp.float64]
    nq: int
    nv: int
    nu: int
    fingertip: int
    target: int
    seen_axes: int
    before: wp.bool
    reward_dist_weight: wp.float64
    reward_control_weight: wp.float64


@wp.struct
class View:
    obs: wp.array2d[wp.float64]
    reward_dist: wp.array[wp.float64]
    reward_ctrl: wp.array[wp.float64]


@wp.func
def reset(physics: Any, state: State, env: int, streams: Streams):
    add_uniform(physics.qpos, env, state.nq - 2, START, streams)
    add_uniform(physics.qvel, env, state.nv - 2, START_SPEED, streams)
    x = uniform(streams, env, -REACH, REACH)
    y = uniform(streams, env, -REACH, REACH)
    while x * x + y * y >= REACH * REACH:
        x = uniform(streams, env, -REACH, REACH)
        y = uniform(streams, env, -REACH, REACH)
    physics.qpos[env, state.nq - 2] = x
    physics.qpos[env, state.nq - 1] = y


@wp.func
def distance_of(physics: Any, state: State, env: int) -> wp.float64:
    """Returns the fingertip's distance to the target (m)."""
    return wp.length(physics.xpos[env, state.fingertip] - physics.xpos[env, state.target])


@wp.func
def step(physics: Any, state: State, env: int, actions: wp.array2d[wp.float64], view: View):
    distance = state.distance[env]
    if not state.before:
        distance = distance_of(physics, state, env)
    near = -state.reward_dist_weight * distance
    control = -state.reward_control_weight * sum_of_squares(actions, env, state.nu)
    view.reward_dist[env] = near
    view.reward_ctrl[env] = control
    return wp.float32(near + control), False


@wp.func
def observe(physics: Any, state: State, env: int, view: View):
    for i in range(2):
        view.obs[env, i] = wp.cos(physics.qpos[env, i])
        view.obs[env, 2 + i] = wp.sin(physics.qpos[env, i])
    at = copy_row(physics.qpos, env, 2, state.nq, view.obs, 4)
    at = copy_row(physics.qvel, env, 0, 2, view.obs, at)
    way = physics.xpos[env, state.fingertip] - physics.xpos[env, state.target]
    for i in range(state.seen_axes):
        view.obs[env, at + i] = way[i]
    state.distance[env] = distance_of(physics, state, env)


def seen_axes(version: str) -> int:
    """Returns how many coordinates of the vector to the target are observed; v5 omits z, which is always 0."""
    return 3 if version == "v4" else 2


def build(version: str, options: Mapping[str, Any], model: Any) -> MujocoEnv:
    check_size(model, 4, 4, "two angles of the arm, and the target's x and y")
    scalars = {
        "fingertip": number_of(model, "fingertip"),
        "target": number_of(model, "target"),
        "seen_axes": seen_axes(version),
        "before": version == "v4",  # v4 rewards the state before the action, v5 the state after it
    }
    return MujocoEnv(
        "Reacher",
        ("qpos", "qvel", "xpos"),
        State,
        View,
        reset,
        step,
        observe,
        constants=scalars,
        bounds={"distance": FINITE},
    )


def observation(version: str, options: Mapping[str, Any], model: Any) -> gym.Space:
    return box(4 + model.nq - 2 + 2 + seen_axes(version))


def signals(version: str, options: Mapping[str, Any], model: Any) -> Signals:
    return reacher(seen_axes(version), model)


OPTIONS = {
    "xml_file": xml_file("reacher.xml"),
    "reward_dist_weight": decimal(1.0),
    "reward_control_weight": decimal(1.0),
}
TASKS = {
    f"Reacher-{version}": MujocoTask(
        partial(build, version),
        load_model,
        partial(observation, version),
        numbers("reward_dist", "reward_ctrl"),
        OPTIONS,
        frame_skip=2,
        max_episode_steps=50,
        signals=partial(signals, version),
    )
    for version in ("v4", "v5")
}
