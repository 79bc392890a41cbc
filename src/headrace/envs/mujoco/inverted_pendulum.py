"""InvertedPendulum: balance a pole on a cart on rails."""

# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false

from collections.abc import Mapping
from functools import partial
from typing import Any

import warp as wp

from headrace.envs.mujoco.common import box, check_size, copy_row, load_model, numbers, start_uniform
from headrace.envs.mujoco.options import xml_file
from headrace.envs.mujoco.signals import joints
from headrace.pool.executors.mujoco import MujocoEnv, MujocoTask
from headrace.pool.options import Option

MOST_ANGLE = wp.constant(wp.float64(0.2))  # rad


@wp.struct
class State:
    nq: int
    nv: int
    rewards_the_end: wp.bool
    reset_noise_scale: wp.float64


@wp.struct
class View:
    obs: wp.array2d[wp.float64]
    reward_survive: wp.array[wp.float64]


@wp.func
def step(physics: Any, state: State, env: int, actions: wp.array2d[wp.float64], view: View):
    upright = wp.abs(physics.qpos[env, 1]) <= MOST_ANGLE
    for i in range(state.nq):
        upright = upright and wp.isfinite(physics.qpos[env, i])
    for i in range(state.nv):
        upright = upright and wp.isfinite(physics.qvel[env, i])
    reward = wp.where(upright or state.rewards_the_end, wp.float64(1.0), wp.float64(0.0))
    view.reward_survive[env] = reward
    return wp.float32(reward), not upright


@wp.func
def observe(physics: Any, state: State, env: int, view: View):
    at = copy_row(physics.qpos, env, 0, state.nq, view.obs, 0)
    copy_row(physics.qvel, env, 0, state.nv, view.obs, at)


def build(version: str, options: Mapping[str, Any], model: Any) -> MujocoEnv:
    check_size(model, 2, 2, "the cart's position and the pole's angle")
    return MujocoEnv(
        "InvertedPendulum",
        ("qpos", "qvel"),
        State,
        View,
        start_uniform,
        step,
        observe,
        constants={"rewards_the_end": version == "v4"},
    )


TASKS = {
    f"InvertedPendulum-{version}": MujocoTask(
        partial(build, version),
        load_model,
        lambda options, model: box(model.nq + model.nv),
        numbers(*info),
        {"xml_file": xml_file("inverted_pendulum.xml"), "reset_noise_scale": Option(0.01)},
        2,
        signals=joints(),
    )
    for version, info in (("v4", ()), ("v5", ("reward_survive",)))
}
