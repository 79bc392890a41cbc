"""HumanoidStandup: a humanoid robot that lies on its back and is rewarded for standing up."""

# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false

from collections.abc import Mapping
from functools import partial
from math import inf
from typing import Any

import warp as wp

from headrace.envs.mujoco.common import ends, load_model, start_uniform, sum_of_squared_forces, sum_of_squares
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
from headrace.envs.mujoco.options import number_range, xml_file
from headrace.pool.executors.mujoco import MujocoEnv, MujocoTask
from headrace.pool.options import Option, decimal

ALIVE = wp.constant(wp.float64(1.0))


@wp.struct
class State:
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
    start_z: wp.float64
    timestep: wp.float64
    uph_cost_weight: wp.float64
    ctrl_cost_weight: wp.float64
    impact_cost_weight: wp.float64
    impact_cost_min: wp.float64
    impact_cost_max: wp.float64
    reset_noise_scale: wp.float64


@wp.struct
class View:
    obs: wp.array2d[wp.float64]
    x_position: wp.array[wp.float64]
    y_position: wp.array[wp.float64]
    z_distance_from_origin: wp.array[wp.float64]
    reward_linup: wp.array[wp.float64]
    reward_quadctrl: wp.array[wp.float64]
    reward_impact: wp.array[wp.float64]
    reward_alive: wp.array[wp.float64]
    tendon_length: wp.array2d[wp.float64]
    tendon_velocity: wp.array2d[wp.float64]


@wp.func
def step(physics: Any, state: State, env: int, actions: wp.array2d[wp.float64], view: View):
    unlimited = wp.float64(wp.inf)
    up = state.uph_cost_weight * (physics.qpos[env, 2] / state.timestep)
    ctrl_cost = state.ctrl_cost_weight * sum_of_squares(actions, env, state.nu)
    impact = sum_of_squared_forces(physics.cfrc_ext, env, state.nbody, -unlimited, unlimited)
    impact = wp.clamp(state.impact_cost_weight * impact, state.impact_cost_min, state.impact_cost_max)
    view.reward_linup[env] = up
    view.reward_quadctrl[env] = -ctrl_cost
    view.reward_impact[env] = -impact
    return wp.float32(up - ctrl_cost - impact + ALIVE), False


@wp.func
def observe(physics: Any, state: State, env: int, view: View):
    observe_body(physics, state, env, view)
    view.x_position[env] = physics.qpos[env, 0]
    view.y_position[env] = physics.qpos[env, 1]
    view.reward_alive[env] = ALIVE
    view.z_distance_from_origin[env] = physics.qpos[env, 2] - state.start_z


def build(version: str, options: Mapping[str, Any], model: Any) -> MujocoEnv:
    body = body_of(version, options, model)
    heights = {"start_z": model.qpos0[2], "timestep": model.opt.timestep}
    return MujocoEnv(
        "HumanoidStandup",
        SEEN,
        State,
        View,
        start_uniform,
        step,
        observe,
        constants=heights | body | ends(options),
        forces=options["impact_cost_weight"] != 0.0 or body["contact_from"] < model.nbody,
        shapes=TENDONS,
    )


OPTIONS = {
    "xml_file": xml_file("humanoidstandup.xml"),
    "uph_cost_weight": decimal(1.0),
    "ctrl_cost_weight": decimal(0.1),
    "impact_cost_weight": decimal(5e-7),
    "impact_cost_range": number_range(-inf, 10.0),
    "reset_noise_scale": Option(0.01),
    "exclude_current_positions_from_observation": True,
}
REWARDS = ("reward_linup", "reward_quadctrl", "reward_impact", "reward_alive")
SHOWN = {"v4": REWARDS, "v5": ("x_position", "y_position", "z_distance_from_origin", *TENDONS, *REWARDS)}

TASKS = {
    f"HumanoidStandup-{version}": MujocoTask(
        partial(build, version),
        load_model,
        partial(observation, version),
        fields(*info),
        options,
        5,
        signals=partial(signals, version),
    )
    for (version, info), options in zip(SHOWN.items(), (OPTIONS, OPTIONS | V5_OPTIONS), strict=True)
}
