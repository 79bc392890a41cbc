"""Ant: a four-legged robot that is rewarded for running in the +x direction."""

# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false

from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

import gymnasium as gym
import warp as wp

from headrace.envs.mujoco.common import (
    box,
    check_size,
    copy_row,
    ends,
    load_model,
    number_of,
    numbers,
    start_normal,
    sum_of_squared_forces,
)
from headrace.envs.mujoco.forward import View, always_alive, earned, runner_options, show_place, skipped, velocity
from headrace.envs.mujoco.options import body, number_range
from headrace.envs.mujoco.signals import FORCES, of_bodies
from headrace.pool.executors.kernels.program import FINITE
from headrace.pool.executors.mujoco import MujocoEnv, MujocoTask, Signals, joint_parts
from headrace.pool.options import decimal


@wp.struct
class State:
    """The main body's x and y (m) at the last observation, and the model's sizes, options and constants."""

    place: wp.array[wp.vec2d]
    dt: wp.float64
    nq: int
    nv: int
    nu: int
    nbody: int
    skipped: int
    followed: int
    first_body: int
    shows_root: wp.bool
    forward_reward_weight: wp.float64
    ctrl_cost_weight: wp.float64
    contact_cost_weight: wp.float64
    contact_force_min: wp.float64
    contact_force_max: wp.float64
    healthy_reward: wp.float64
    always_alive: wp.bool
    terminate_when_unhealthy: wp.bool
    healthy_z_min: wp.float64
    healthy_z_max: wp.float64
    reset_noise_scale: wp.float64


@wp.func
def is_healthy(physics: Any, state: State, env: int):
    """Returns whether the torso's height is within its range and the state is finite."""
    height = physics.qpos[env, 2]
    healthy = state.healthy_z_min <= height and height <= state.healthy_z_max
    for i in range(state.nq):
        healthy = healthy and wp.isfinite(physics.qpos[env, i])
    for i in range(state.nv):
        healthy = healthy and wp.isfinite(physics.qvel[env, i])
    return healthy


@wp.func
def place_of(physics: Any, state: State, env: int) -> wp.vec2d:
    """Returns the main body's x and y (m)."""
    at = physics.xpos[env, state.followed]
    return wp.vec2d(at[0], at[1])


@wp.func
def step(physics: Any, state: State, env: int, actions: wp.array2d[wp.float64], view: View):
    speed = velocity(state, env, place_of(physics, state, env), view)
    low, high = state.contact_force_min, state.contact_force_max
    contact_cost = state.contact_cost_weight * sum_of_squared_forces(physics.cfrc_ext, env, state.nbody, low, high)
    return earned(state, env, actions, speed, is_healthy(physics, state, env), contact_cost, view)


@wp.func
def observe(physics: Any, state: State, env: int, view: View):
    at = copy_row(physics.qpos, env, state.skipped, state.nq, view.obs, 0)
    at = copy_row(physics.qvel, env, 0, state.nv, view.obs, at)
    for i in range(state.first_body, state.nbody):
        force = physics.cfrc_ext[env, i]
        for k in range(6):
            f = wp.clamp(force[k], state.contact_force_min, state.contact_force_max)
            view.obs[env, at + (i - state.first_body) * 6 + k] = f
    show_place(physics, state, env, place_of(physics, state, env), view)


class Forces(NamedTuple):
    """How contact forces are used.

    Attributes:
        first: number of the first body whose contact forces are observed.
        observed: whether contact forces are part of the observation.
        cost: whether contact forces reduce the reward.
    """

    first: int
    observed: bool
    cost: bool


def forces_of(version: str, options: Mapping[str, Any]) -> Forces:
    """Returns how a version with these options uses contact forces."""
    if version == "v4":
        return Forces(0, options["use_contact_forces"], options["use_contact_forces"])
    return Forces(1, options["include_cfrc_ext_in_observation"], options["contact_cost_weight"] != 0.0)


def build(version: str, options: Mapping[str, Any], model: Any) -> MujocoEnv:
    check_size(model, 3, 0, "the third position is the body's height")
    forces = forces_of(version, options)
    names = {"forward_reward": "reward_forward"}
    if version == "v4" and forces.cost:
        names["reward_ctrl"] = "reward_contact"  # as in Gymnasium
    scalars = {
        "skipped": skipped(options, 2),
        "followed": number_of(model, options.get("main_body", "torso")),
        "first_body": forces.first if forces.observed else model.nbody,
        "shows_root": version == "v5",
        "always_alive": always_alive(version, options),
    }
    return MujocoEnv(
        "Ant",
        ("qpos", "qvel", "xpos", "cfrc_ext"),
        State,
        View,
        start_normal,
        step,
        observe,
        constants=scalars | ends(options),
        bounds={"place": FINITE},
        forces=forces.observed or forces.cost,
        names=names,
    )


def observation(version: str, options: Mapping[str, Any], model: Any) -> gym.Space:
    forces = forces_of(version, options)
    return box(model.nq - skipped(options, 2) + model.nv + forces.observed * 6 * (model.nbody - forces.first))


def signals(version: str, options: Mapping[str, Any], model: Any) -> Signals:
    forces = forces_of(version, options)
    first = forces.first if forces.observed else model.nbody
    touched = of_bodies(model, first, f"{FORCES}, clipped", 6, "N m, N")
    return Signals((*joint_parts(model, skipped(options, 2)), *touched))


OPTIONS = runner_options("ant.xml", 0.5, 0.1) | {
    "contact_cost_weight": decimal(5e-4),
    "contact_force_range": number_range(-1.0, 1.0),
    "healthy_reward": decimal(1.0),
    "terminate_when_unhealthy": True,
    "healthy_z_range": number_range(0.2, 1.0),
}
IN_V4 = {"use_contact_forces": False}
IN_V5 = {"main_body": body(1), "include_cfrc_ext_in_observation": True}
PLACE = ("x_position", "y_position", "distance_from_origin", "x_velocity", "y_velocity")
REWARDS = ("reward_forward", "reward_ctrl", "reward_survive")

TASKS = {
    f"Ant-{version}": MujocoTask(
        partial(build, version),
        load_model,
        partial(observation, version),
        numbers(*info),
        OPTIONS | more,
        5,
        signals=partial(signals, version),
    )
    for version, more, info in (
        ("v4", IN_V4, (*PLACE, *REWARDS, "reward_contact", "forward_reward")),
        ("v5", IN_V5, (*PLACE, *REWARDS, "reward_contact")),
    )
}
