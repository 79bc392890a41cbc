"""Humanoid: a two-legged robot that is rewarded for walking in the +x direction without falling."""

# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false

from collections.abc import Mapping
from functools import partial
from math import inf
from typing import Any

import warp as wp

from headrace.envs.mujoco.common import ends, load_model, start_uniform, sum_of_squared_forces, within
from headrace.envs.mujoco.forward import always_alive, earned, runner_options, show_place, velocity
from headrace.envs.mujoco.humanoid_body import (
    SEEN,
    TENDONS,
    V5_OPTIONS,
    body_of,
    fields,
    observation,
    observe_body,
    signals,
)
from headrace.envs.mujoco.options import number_range
from headrace.pool.executors.kernels.program import FINITE
from headrace.pool.executors.mujoco import MujocoEnv, MujocoTask
from headrace.pool.options import decimal


@wp.struct
class State:
    """The center of mass's x and y (m) at the last observation, and the model's sizes, options and constants."""

    place: wp.array[wp.vec2d]
    dt: wp.float64
    nq: int
    nv: int
    nu: int
    nbody: int
    ntendon: int
    skipped: int
    inertia_from: int
    velocity_from: int
    actuator_from: int
    contact_from: int
    total_mass: wp.float64
    shows_root: wp.bool
    forward_reward_weight: wp.float64
    ctrl_cost_weight: wp.float64
    contact_cost_weight: wp.float64
    contact_cost_min: wp.float64
    contact_cost_max: wp.float64
    healthy_reward: wp.float64
    always_alive: wp.bool
    terminate_when_unhealthy: wp.bool
    healthy_z_min: wp.float64
    healthy_z_max: wp.float64
    reset_noise_scale: wp.float64


@wp.struct
class View:
    """The observation and info fields: positions (m), velocities (m/s), parts of the reward, and the tendons."""

    obs: wp.array2d[wp.float64]
    x_position: wp.array[wp.float64]
    y_position: wp.array[wp.float64]
    distance_from_origin: wp.array[wp.float64]
    x_velocity: wp.array[wp.float64]
    y_velocity: wp.array[wp.float64]
    reward_forward: wp.array[wp.float64]
    reward_ctrl: wp.array[wp.float64]
    reward_contact: wp.array[wp.float64]
    reward_survive: wp.array[wp.float64]
    tendon_length: wp.array2d[wp.float64]
    tendon_velocity: wp.array2d[wp.float64]


@wp.func
def centre_of_mass(physics: Any, state: State, env: int) -> wp.vec2d:
    """Returns the x and y (m) of the center of mass of all bodies."""
    weighted = wp.vec2d(wp.float64(0.0), wp.float64(0.0))
    for i in range(state.nbody):
        at = physics.xipos[env, i]
        weighted += physics.body_mass[env, i] * wp.vec2d(at[0], at[1])
    return weighted / state.total_mass


@wp.func
def step(physics: Any, state: State, env: int, actions: wp.array2d[wp.float64], view: View):
    speed = velocity(state, env, centre_of_mass(physics, state, env), view)
    unlimited = wp.float64(wp.inf)
    contact_cost = sum_of_squared_forces(physics.cfrc_ext, env, state.nbody, -unlimited, unlimited)
    contact_cost = wp.clamp(state.contact_cost_weight * contact_cost, state.contact_cost_min, state.contact_cost_max)
    healthy = within(physics.qpos[env, 2], state.healthy_z_min, state.healthy_z_max)
    return earned(state, env, actions, speed, healthy, contact_cost, view)


@wp.func
def observe(physics: Any, state: State, env: int, view: View):
    observe_body(physics, state, env, view)
    show_place(physics, state, env, centre_of_mass(physics, state, env), view)


def build(version: str, options: Mapping[str, Any], model: Any) -> MujocoEnv:
    # v4 has no contact cost
    rewards = {"contact_cost_weight": 0.0, "contact_cost_min": 0.0, "contact_cost_max": 0.0}
    scalars = {
        "total_mass": model.body_mass.sum(),
        "shows_root": version == "v5",
        "always_alive": always_alive(version, options),
    }
    body = body_of(version, options, model)
    costly = options.get("contact_cost_weight", 0.0) != 0.0
    return MujocoEnv(
        "Humanoid",
        (*SEEN, "xipos", "body_mass"),
        State,
        View,
        start_uniform,
        step,
        observe,
        constants=rewards | scalars | body | ends(options),
        bounds={"place": FINITE},
        forces=costly or body["contact_from"] < model.nbody,
        names=NAMES,
        shapes=TENDONS,
    )


NAMES = {
    "forward_reward": "reward_forward",
    "reward_linvel": "reward_forward",
    "reward_quadctrl": "reward_ctrl",
    "reward_alive": "reward_survive",
    "reward_impact": "reward_contact",
}
IN_ENVPOOL = ("reward_linvel", "reward_quadctrl", "reward_alive", "reward_impact")
OPTIONS = runner_options("humanoid.xml", 0.1, 0.01, forward=1.25) | {
    "healthy_reward": decimal(5.0),
    "terminate_when_unhealthy": True,
    "healthy_z_range": number_range(1.0, 2.0),
}
IN_V5 = V5_OPTIONS | {"contact_cost_weight": decimal(5e-7), "contact_cost_range": number_range(-inf, 10.0)}
PLACE = ("x_position", "y_position", "distance_from_origin", "x_velocity", "y_velocity")
SHOWN = {
    "v4": (*PLACE, "forward_reward", *IN_ENVPOOL),
    "v5": (*PLACE, *TENDONS, "reward_survive", "reward_forward", "reward_ctrl", "reward_contact", *IN_ENVPOOL),
}

TASKS = {
    f"Humanoid-{version}": MujocoTask(
        partial(build, version),
        load_model,
        partial(observation, version),
        fields(*info),
        options,
        5,
        signals=partial(signals, version),
    )
    for (version, info), options in zip(SHOWN.items(), (OPTIONS, OPTIONS | IN_V5), strict=True)
}
