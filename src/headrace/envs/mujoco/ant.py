"""Ant."""

# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false

from typing import Any

import numpy as np
import warp as wp

from headrace.envs.mujoco.common import add_normal, add_uniform, box, copy_row, load_model, sum_of_squares
from headrace.pool.executors.kernels.random import Streams
from headrace.pool.executors.mujoco import Field, MujocoEnv, MujocoTask

INFO = (
    "reward_forward",
    "reward_ctrl",
    "reward_contact",
    "reward_survive",
    "x_position",
    "y_position",
    "distance_from_origin",
    "x_velocity",
    "y_velocity",
)


@wp.struct
class State:
    x: wp.array(dtype=wp.float64)
    y: wp.array(dtype=wp.float64)
    dt: wp.float64
    nq: int
    nv: int
    nu: int
    nbody: int
    ctrl_cost_weight: wp.float64
    contact_cost_weight: wp.float64
    reset_noise_scale: wp.float64


@wp.struct
class View:
    obs: wp.array2d(dtype=wp.float64)
    reward_forward: wp.array(dtype=wp.float64)
    reward_ctrl: wp.array(dtype=wp.float64)
    reward_contact: wp.array(dtype=wp.float64)
    reward_survive: wp.array(dtype=wp.float64)
    x_position: wp.array(dtype=wp.float64)
    y_position: wp.array(dtype=wp.float64)
    distance_from_origin: wp.array(dtype=wp.float64)
    x_velocity: wp.array(dtype=wp.float64)
    y_velocity: wp.array(dtype=wp.float64)


@wp.func
def reset(physics: Any, state: State, env: int, streams: Streams):
    add_uniform(physics.qpos, env, state.nq, state.reset_noise_scale, streams)
    add_normal(physics.qvel, env, state.nv, state.reset_noise_scale, streams)


@wp.func
def clipped(force: wp.float64):
    return wp.clamp(force, wp.float64(-1.0), wp.float64(1.0))


@wp.func
def step(physics: Any, state: State, env: int, actions: wp.array2d(dtype=wp.float64), view: View):
    torso = physics.xpos[env, 1]
    x_velocity = (torso[0] - state.x[env]) / state.dt
    y_velocity = (torso[1] - state.y[env]) / state.dt
    healthy = physics.qpos[env, 2] >= wp.float64(0.2) and physics.qpos[env, 2] <= wp.float64(1.0)
    for i in range(state.nq):
        healthy = healthy and wp.isfinite(physics.qpos[env, i])
    for i in range(state.nv):
        healthy = healthy and wp.isfinite(physics.qvel[env, i])
    survive = wp.where(healthy, wp.float64(1.0), wp.float64(0.0))
    ctrl_cost = state.ctrl_cost_weight * sum_of_squares(actions, env, state.nu)
    contact_cost = wp.float64(0.0)
    for body in range(state.nbody):
        force = physics.cfrc_ext[env, body]
        for k in range(6):
            f = clipped(force[k])
            contact_cost += f * f
    contact_cost *= state.contact_cost_weight
    view.x_velocity[env] = x_velocity
    view.y_velocity[env] = y_velocity
    view.reward_forward[env] = x_velocity
    view.reward_ctrl[env] = -ctrl_cost
    view.reward_contact[env] = -contact_cost
    view.reward_survive[env] = survive
    return wp.float32(x_velocity + survive - (ctrl_cost + contact_cost)), not healthy


@wp.func
def observe(physics: Any, state: State, env: int, view: View):
    torso = physics.xpos[env, 1]
    state.x[env] = torso[0]
    state.y[env] = torso[1]
    at = copy_row(physics.qpos, env, 2, state.nq, view.obs, 0)
    at = copy_row(physics.qvel, env, 0, state.nv, view.obs, at)
    for body in range(1, state.nbody):
        force = physics.cfrc_ext[env, body]
        for k in range(6):
            view.obs[env, at + (body - 1) * 6 + k] = clipped(force[k])
    x = physics.qpos[env, 0]
    y = physics.qpos[env, 1]
    view.x_position[env] = x
    view.y_position[env] = y
    view.distance_from_origin[env] = wp.sqrt(x * x + y * y)


def env(options, model):
    return MujocoEnv(
        "Ant",
        ("qpos", "qvel", "xpos", "cfrc_ext"),
        State,
        View,
        reset,
        step,
        observe,
        constants={
            "dt": model.opt.timestep * options["frame_skip"],
            "nq": model.nq,
            "nv": model.nv,
            "nu": model.nu,
            "nbody": model.nbody,
        },
    )


TASKS = {
    "Ant-v5": MujocoTask(
        env,
        lambda o: load_model({"xml_file": "ant.xml"}),
        lambda o, m: box(m.nq - 2 + m.nv + 6 * (m.nbody - 1)),
        tuple(Field(n, np.dtype(np.float64)) for n in INFO),
        {"ctrl_cost_weight": 0.5, "contact_cost_weight": 5e-4, "reset_noise_scale": 0.1},
        frame_skip=5,
    )
}
