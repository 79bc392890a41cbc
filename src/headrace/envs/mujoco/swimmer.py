"""Swimmer: a planar robot of three links that is rewarded for swimming in the +x direction in a viscous fluid."""

# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false

from collections.abc import Mapping
from typing import Any

import warp as wp

from headrace.envs.mujoco.common import box, check_size, copy_row, load_model, numbers, start_uniform
from headrace.envs.mujoco.forward import View, earned, runner_options, show_place, skipped, velocity
from headrace.envs.mujoco.signals import joints
from headrace.pool.executors.kernels.program import FINITE
from headrace.pool.executors.mujoco import MujocoEnv, MujocoTask


@wp.struct
class State:
    """The first link's x and y (m) at the last observation, and the model's sizes, options and constants."""

    place: wp.array[wp.vec2d]
    dt: wp.float64
    nq: int
    nv: int
    nu: int
    skipped: int
    shows_root: wp.bool
    forward_reward_weight: wp.float64
    ctrl_cost_weight: wp.float64
    healthy_reward: wp.float64
    always_alive: wp.bool
    terminate_when_unhealthy: wp.bool
    reset_noise_scale: wp.float64


@wp.func
def place_of(physics: Any, env: int) -> wp.vec2d:
    """Returns the first link's x and y (m)."""
    return wp.vec2d(physics.qpos[env, 0], physics.qpos[env, 1])


@wp.func
def step(physics: Any, state: State, env: int, actions: wp.array2d[wp.float64], view: View):
    speed = velocity(state, env, place_of(physics, env), view)
    return earned(state, env, actions, speed, True, wp.float64(0.0), view)


@wp.func
def observe(physics: Any, state: State, env: int, view: View):
    at = copy_row(physics.qpos, env, state.skipped, state.nq, view.obs, 0)
    copy_row(physics.qvel, env, 0, state.nv, view.obs, at)
    show_place(physics, state, env, place_of(physics, env), view)


def build(options: Mapping[str, Any], model: Any) -> MujocoEnv:
    check_size(model, 2, 0, "the first two positions are the body's x and y")
    immortal = {"healthy_reward": 0.0, "always_alive": False, "terminate_when_unhealthy": False}
    return MujocoEnv(
        "Swimmer",
        ("qpos", "qvel"),
        State,
        View,
        start_uniform,
        step,
        observe,
        constants={"skipped": skipped(options, 2), "shows_root": False, **immortal},
        bounds={"place": FINITE},
        names={"reward_fwd": "reward_forward", "forward_reward": "reward_forward"},
    )


PLACE = ("x_position", "y_position", "distance_from_origin", "x_velocity", "y_velocity")
TASKS = {
    f"Swimmer-{version}": MujocoTask(
        build,
        load_model,
        lambda options, model: box(model.nq - skipped(options, 2) + model.nv),
        numbers(*info),
        runner_options("swimmer.xml", 1e-4, 0.1),
        4,
        signals=joints(2),
    )
    for version, info in (
        ("v4", (*PLACE, "reward_fwd", "reward_ctrl", "forward_reward")),
        ("v5", (*PLACE, "reward_forward", "reward_fwd", "reward_ctrl")),
    )
}
