"""InvertedDoublePendulum: balance two poles, one hinged on top of the other, on a cart on rails."""

# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false

from collections.abc import Mapping
from functools import partial
from typing import Any

import gymnasium as gym
import warp as wp

from headrace.envs.mujoco.common import box, check_size, copy_clipped, load_model, numbers, start_normal
from headrace.envs.mujoco.options import xml_file
from headrace.envs.mujoco.signals import inverted_double_pendulum
from headrace.errors import OptionError
from headrace.pool.executors.mujoco import MujocoEnv, MujocoTask, Signals
from headrace.pool.options import Option, decimal

MOST = wp.constant(wp.float64(10.0))  # bound of velocities and forces in observations
TOP = wp.constant(wp.float64(2.0))  # m, target height of the upper pole's tip
LOWEST = wp.constant(wp.float64(1.0))  # m, height of the tip at which the episode terminates


@wp.struct
class State:
    nq: int
    nv: int
    seen_forces: int
    rewards_the_end: wp.bool
    healthy_reward: wp.float64
    reset_noise_scale: wp.float64


@wp.struct
class View:
    obs: wp.array2d[wp.float64]
    reward_survive: wp.array[wp.float64]
    distance_penalty: wp.array[wp.float64]
    velocity_penalty: wp.array[wp.float64]


@wp.func
def step(physics: Any, state: State, env: int, actions: wp.array2d[wp.float64], view: View):
    tip = physics.site_xpos[env, 0]
    lower = physics.qvel[env, 1]
    upper = physics.qvel[env, 2]
    lost = tip[2] <= LOWEST
    distance = wp.float64(0.01) * (tip[0] * tip[0]) + (tip[2] - TOP) * (tip[2] - TOP)
    speed = wp.float64(1e-3) * (lower * lower) + wp.float64(5e-3) * (upper * upper)
    survive = wp.where(not lost or state.rewards_the_end, state.healthy_reward, wp.float64(0.0))
    view.reward_survive[env] = survive
    view.distance_penalty[env] = -distance
    view.velocity_penalty[env] = -speed
    return wp.float32(survive - distance - speed), lost


@wp.func
def observe(physics: Any, state: State, env: int, view: View):
    angles = state.nq - 1
    view.obs[env, 0] = physics.qpos[env, 0]
    for i in range(1, state.nq):
        view.obs[env, i] = wp.sin(physics.qpos[env, i])
        view.obs[env, angles + i] = wp.cos(physics.qpos[env, i])
    at = copy_clipped(physics.qvel, env, state.nv, MOST, view.obs, 1 + 2 * angles)
    copy_clipped(physics.qfrc_constraint, env, state.seen_forces, MOST, view.obs, at)


def seen_forces(version: str, model: Any) -> int:
    """Returns the number of constraint forces in an observation: in v5 only the cart's, as the others are always 0."""
    return model.nv if version == "v4" else 1


def build(version: str, options: Mapping[str, Any], model: Any) -> MujocoEnv:
    check_size(model, 3, 3, "the cart's position and the poles' angles")
    if model.nsite < 1:
        raise OptionError("xml_file: the model needs a site, the tip of the upper pole")
    return MujocoEnv(
        "InvertedDoublePendulum",
        ("qpos", "qvel", "site_xpos", "qfrc_constraint"),
        State,
        View,
        start_normal,
        step,
        observe,
        constants={"rewards_the_end": version == "v4", "seen_forces": seen_forces(version, model)},
    )


def observation(version: str, options: Mapping[str, Any], model: Any) -> gym.Space:
    return box(1 + 2 * (model.nq - 1) + model.nv + seen_forces(version, model))


def signals(version: str, options: Mapping[str, Any], model: Any) -> Signals:
    return inverted_double_pendulum(seen_forces(version, model), model)


OPTIONS = {
    "xml_file": xml_file("inverted_double_pendulum.xml"),
    "healthy_reward": decimal(10.0),
    "reset_noise_scale": Option(0.1),
}
TASKS = {
    f"InvertedDoublePendulum-{version}": MujocoTask(
        partial(build, version),
        load_model,
        partial(observation, version),
        numbers(*info),
        OPTIONS,
        5,
        signals=partial(signals, version),
    )
    for version, info in (("v4", ()), ("v5", ("reward_survive", "distance_penalty", "velocity_penalty")))
}
