"""LQR: bring a chain of masses on springs, of which the first are actuated, to rest, with a quadratic cost.

The springs' stiffnesses are random and differ between environments. dm_control draws them when an environment is
created. Here they are drawn when an environment's random stream begins, so that they are determined by its seed, and
stay the same for all of its episodes.
"""

# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false

from typing import Any

import numpy as np
import warp as wp

from headrace.envs.dm_control.common import copy_row, standard_normal, suite_env, suite_model, suite_task
from headrace.pool.executors.mujoco import MujocoEnv, MujocoTask, Streams, uniform

ZERO = wp.constant(wp.float64(0.0))
HALF = wp.constant(wp.float64(0.5))
CONTROL_COST = wp.constant(wp.float64(0.1))
SOFTEST = wp.constant(wp.float64(15.0))  # N/m
STIFFEST = wp.constant(wp.float64(25.0))
AT_REST = wp.constant(wp.float64(1e-6))  # norm of (qpos, qvel) below which an episode terminates


@wp.struct
class State:
    nv: int
    nu: int


@wp.struct
class View:
    obs_position: wp.array2d[wp.float64]
    obs_velocity: wp.array2d[wp.float64]


@wp.func
def reset(physics: Any, state: State, env: int, streams: Streams):
    if streams.drawn[env] == wp.uint64(0):
        for i in range(state.nv):
            physics.jnt_stiffness[env, i] = uniform(streams, env, SOFTEST, STIFFEST)
    squares = ZERO
    for i in range(state.nv):
        x = standard_normal(streams, env)
        physics.qpos[env, i] = x
        squares += x * x
    for i in range(state.nv):
        physics.qpos[env, i] = physics.qpos[env, i] * wp.sqrt(wp.float64(2.0) / squares)


@wp.func
def step(physics: Any, state: State, env: int, actions: wp.array2d[wp.float64], view: View):
    position = ZERO
    velocity = ZERO
    control = ZERO
    for i in range(state.nv):
        position += physics.qpos[env, i] * physics.qpos[env, i]
        velocity += physics.qvel[env, i] * physics.qvel[env, i]
    for i in range(state.nu):
        control += actions[env, i] * actions[env, i]
    reward = wp.float64(1.0) - (HALF * position + HALF * control * CONTROL_COST)
    return wp.float32(reward), wp.sqrt(position + velocity) < AT_REST


@wp.func
def observe(physics: Any, state: State, env: int, view: View):
    copy_row(physics.qpos, env, 0, state.nv, view.obs_position, 0)
    copy_row(physics.qvel, env, 0, state.nv, view.obs_velocity, 0)


def env(options: Any, model: Any) -> MujocoEnv:
    reads = ("qpos", "qvel", "jnt_stiffness")
    return suite_env("Lqr", reads, State, View, reset, step, observe, varies=("jnt_stiffness",))


def lqr(num_bodies: int, num_driven: int) -> MujocoTask:
    """Returns the task with this many masses, of which the first ``num_driven`` are actuated."""

    def model(options: Any) -> Any:
        return suite_model("lqr", num_bodies, num_driven, np.random.RandomState(0))  # its springs are replaced

    return suite_task(env, model, {"position": num_bodies, "velocity": num_bodies})


TASKS = {"lqr_2_1": lqr(2, 1), "lqr_6_2": lqr(6, 2)}
