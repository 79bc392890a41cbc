"""HalfCheetah, Hopper and Walker2d: robots in a vertical plane that are rewarded for running in the +x direction."""

# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false

from collections.abc import Mapping, Sequence
from functools import partial
from math import inf
from typing import Any

import warp as wp

from headrace.envs.mujoco.common import (
    box,
    check_size,
    copy_clipped,
    copy_row,
    ends,
    load_model,
    numbers,
    start_normal,
    start_uniform,
    within,
)
from headrace.envs.mujoco.forward import View, always_alive, earned, runner_options, show_place, skipped, velocity
from headrace.envs.mujoco.options import number_range, xml_file
from headrace.envs.mujoco.signals import joints
from headrace.pool.executors.kernels.program import FINITE
from headrace.pool.executors.kernels.random import Streams
from headrace.pool.executors.mujoco import MujocoEnv, MujocoTask
from headrace.pool.options import decimal


@wp.struct
class State:
    """The body's x and z (m) at the last observation, and the model's sizes, options and constants."""

    place: wp.array[wp.vec2d]
    dt: wp.float64
    nq: int
    nv: int
    nu: int
    skipped: int
    start_z: wp.float64
    most_speed: wp.float64
    shows_root: wp.bool
    normal_speeds: wp.bool
    forward_reward_weight: wp.float64
    ctrl_cost_weight: wp.float64
    healthy_reward: wp.float64
    always_alive: wp.bool
    terminate_when_unhealthy: wp.bool
    healthy_state_min: wp.float64
    healthy_state_max: wp.float64
    healthy_z_min: wp.float64
    healthy_z_max: wp.float64
    healthy_angle_min: wp.float64
    healthy_angle_max: wp.float64
    reset_noise_scale: wp.float64


@wp.func
def reset(physics: Any, state: State, env: int, streams: Streams):
    if state.normal_speeds:
        start_normal(physics, state, env, streams)
    else:
        start_uniform(physics, state, env, streams)


@wp.func
def is_healthy(physics: Any, state: State, env: int):
    """Returns whether the body's height and angle and the rest of its state are within their ranges."""
    healthy = within(physics.qpos[env, 1], state.healthy_z_min, state.healthy_z_max)
    healthy = healthy and within(physics.qpos[env, 2], state.healthy_angle_min, state.healthy_angle_max)
    for i in range(2, state.nq):
        healthy = healthy and within(physics.qpos[env, i], state.healthy_state_min, state.healthy_state_max)
    for i in range(state.nv):
        healthy = healthy and within(physics.qvel[env, i], state.healthy_state_min, state.healthy_state_max)
    return healthy


@wp.func
def root(physics: Any, env: int) -> wp.vec2d:
    """Returns the root joint's x and z (m)."""
    return wp.vec2d(physics.qpos[env, 0], physics.qpos[env, 1])


@wp.func
def step(physics: Any, state: State, env: int, actions: wp.array2d[wp.float64], view: View):
    speed = velocity(state, env, root(physics, env), view)
    return earned(state, env, actions, speed, is_healthy(physics, state, env), wp.float64(0.0), view)


@wp.func
def observe(physics: Any, state: State, env: int, view: View):
    at = copy_row(physics.qpos, env, state.skipped, state.nq, view.obs, 0)
    copy_clipped(physics.qvel, env, state.nv, state.most_speed, view.obs, at)
    show_place(physics, state, env, root(physics, env), view)
    view.z_distance_from_origin[env] = physics.qpos[env, 1] - state.start_z


UNLIMITED = {
    f"healthy_{what}_{end}": limit for what in ("state", "z", "angle") for end, limit in (("min", -inf), ("max", inf))
}


def alive(version: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the constants that depend on whether the task has a healthy condition, which HalfCheetah lacks."""
    if "healthy_reward" not in options:
        no_health = {"healthy_reward": 0.0, "terminate_when_unhealthy": False, "always_alive": False}
        return {"normal_speeds": True, **no_health}
    return {"normal_speeds": False, "always_alive": always_alive(version, options)}


def build(version: str, most_speed: float, options: Mapping[str, Any], model: Any) -> MujocoEnv:
    check_size(model, 3, 3, "along x and z, and the angle of a body in that plane")
    fixed = {"skipped": skipped(options, 1), "start_z": model.qpos0[1], "most_speed": most_speed, "shows_root": False}
    return MujocoEnv(
        "PlanarRunner",
        ("qpos", "qvel"),
        State,
        View,
        reset,
        step,
        observe,
        constants=UNLIMITED | fixed | alive(version, options) | ends(options),
        bounds={"place": FINITE},
        names={"reward_run": "reward_forward"},
    )


def task(
    version: str, info: Sequence[str], most_speed: float, frame_skip: int, options: Mapping[str, Any]
) -> MujocoTask:
    """Returns a task with these info fields, in whose observations velocities are clipped to ±``most_speed``."""
    return MujocoTask(
        partial(build, version, most_speed),
        load_model,
        lambda chosen, model: box(model.nq - skipped(chosen, 1) + model.nv),
        numbers(*info),
        options,
        frame_skip,
        signals=joints(1),
    )


def health(**ranges: tuple[float, float]) -> dict[str, Any]:
    """Returns the options of a task with a healthy condition: of Hopper and Walker2d."""
    options = {f"healthy_{name}_range": number_range(*limits) for name, limits in ranges.items()}
    return {"healthy_reward": decimal(1.0), "terminate_when_unhealthy": True, **options}


HALF_CHEETAH = runner_options("half_cheetah.xml", 0.1, 0.1)
HOPPER = runner_options("hopper.xml", 1e-3, 5e-3) | health(state=(-100.0, 100.0), z=(0.7, inf), angle=(-0.2, 0.2))
WALKER = runner_options("walker2d.xml", 1e-3, 5e-3) | health(z=(0.8, 2.0), angle=(-1.0, 1.0))
WALKER_V5 = WALKER | {"xml_file": xml_file("walker2d_v5.xml")}
PLACE = ("x_position", "x_velocity")
REWARDS = ("reward_forward", "reward_ctrl", "reward_survive")

TASKS = {
    "HalfCheetah-v4": task("v4", (*PLACE, "reward_run", "reward_ctrl"), inf, 5, HALF_CHEETAH),
    "HalfCheetah-v5": task("v5", (*PLACE, "reward_forward", "reward_run", "reward_ctrl"), inf, 5, HALF_CHEETAH),
    "Hopper-v4": task("v4", PLACE, 10.0, 4, HOPPER),
    "Hopper-v5": task("v5", (*PLACE, "z_distance_from_origin", *REWARDS), 10.0, 4, HOPPER),
    "Walker2d-v4": task("v4", PLACE, 10.0, 4, WALKER),
    "Walker2d-v5": task("v5", (*PLACE, "z_distance_from_origin", *REWARDS), 10.0, 4, WALKER_V5),
}
