"""A task over any model: what is seen is its state."""

# pyright: reportGeneralTypeIssues=false, reportAttributeAccessIssue=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false

from typing import Any

import warp as wp

from headrace.mujoco import MujocoEnv, Streams, normal


@wp.struct
class State:
    nq: int
    nv: int


@wp.struct
class View:
    obs: wp.array2d[wp.float64]


@wp.func
def reset(physics: Any, state: State, env: int, streams: Streams):
    for i in range(state.nv):
        physics.qvel[env, i] = normal(streams, env, wp.float64(0.0), wp.float64(0.1))


@wp.func
def step(physics: Any, state: State, env: int, actions: wp.array2d[wp.float64], view: View):
    return wp.float32(0.0), wp.bool(False)


@wp.func
def observe(physics: Any, state: State, env: int, view: View):
    for i in range(state.nq):
        view.obs[env, i] = physics.qpos[env, i]
    for i in range(state.nv):
        view.obs[env, state.nq + i] = physics.qvel[env, i]


GENERIC = MujocoEnv("Generic", ("qpos", "qvel"), State, View, reset, step, observe)
