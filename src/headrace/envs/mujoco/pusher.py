"""Pusher: an arm of seven joints that is rewarded for pushing an object to a goal.

Gymnasium supports v4 with MuJoCo 2 only: in later versions of MuJoCo, the object, whose density is nearly 0,
moves differently. Here v4 runs with the physics of the installed version.
"""

# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false

from collections.abc import Mapping
from functools import partial
from typing import Any

import warp as wp

from headrace.envs.mujoco.common import (
    add_uniform,
    box,
    check_size,
    copy_row,
    load_model,
    number_of,
    numbers,
    sum_of_squares,
)
from headrace.envs.mujoco.options import xml_file
from headrace.envs.mujoco.signals import pusher
from headrace.pool.executors.kernels.program import FINITE
from headrace.pool.executors.kernels.random import Streams, uniform
from headrace.pool.executors.mujoco import MujocoEnv, MujocoTask
from headrace.pool.options import decimal

ARM = wp.constant(7)  # joints
START_SPEED = wp.constant(wp.float64(0.005))  # rad/s
FARTHEST_X = wp.constant(wp.float64(0.3))  # m from the goal, in −x
FARTHEST_Y = wp.constant(wp.float64(0.2))  # m from the goal, in ±y
NEAREST = wp.constant(wp.float64(0.17))  # m from the goal


@wp.struct
class State:
    """The object's distances (m) to the arm's tip and to the goal at the last observation.

    ``before`` is whether a step is rewarded for the state before it, as in v4.
    """

    to_tip: wp.array[wp.float64]
    to_goal: wp.array[wp.float64]
    nq: int
    nv: int
    nu: int
    tip: int
    thing: int
    goal: int
    before: wp.bool
    reward_near_weight: wp.float64
    reward_dist_weight: wp.float64
    reward_control_weight: wp.float64


@wp.struct
class View:
    obs: wp.array2d[wp.float64]
    reward_dist: wp.array[wp.float64]
    reward_ctrl: wp.array[wp.float64]
    reward_near: wp.array[wp.float64]
    distance: wp.array[wp.float64]
    effort: wp.array[wp.float64]


@wp.func
def reset(physics: Any, state: State, env: int, streams: Streams):
    add_uniform(physics.qvel, env, state.nv - 4, START_SPEED, streams)
    x = uniform(streams, env, -FARTHEST_X, wp.float64(0.0))
    y = uniform(streams, env, -FARTHEST_Y, FARTHEST_Y)
    while x * x + y * y <= NEAREST * NEAREST:
        x = uniform(streams, env, -FARTHEST_X, wp.float64(0.0))
        y = uniform(streams, env, -FARTHEST_Y, FARTHEST_Y)
    physics.qpos[env, state.nq - 4] = x
    physics.qpos[env, state.nq - 3] = y
    physics.qpos[env, state.nq - 2] = wp.float64(0.0)
    physics.qpos[env, state.nq - 1] = wp.float64(0.0)


@wp.func
def between(physics: Any, env: int, one: int, other: int) -> wp.float64:
    """Returns the distance between two bodies (m)."""
    return wp.length(physics.xpos[env, one] - physics.xpos[env, other])


@wp.func
def step(physics: Any, state: State, env: int, actions: wp.array2d[wp.float64], view: View):
    to_tip = state.to_tip[env]
    to_goal = state.to_goal[env]
    if not state.before:
        to_tip = between(physics, env, state.thing, state.tip)
        to_goal = between(physics, env, state.thing, state.goal)
    effort = sum_of_squares(actions, env, state.nu)
    near = -state.reward_near_weight * to_tip
    dist = -state.reward_dist_weight * to_goal
    control = -state.reward_control_weight * effort
    view.reward_near[env] = near
    view.reward_dist[env] = dist
    view.reward_ctrl[env] = control
    view.distance[env] = -to_goal
    view.effort[env] = -effort
    return wp.float32(dist + control + near), False


@wp.func
def observe(physics: Any, state: State, env: int, view: View):
    at = copy_row(physics.qpos, env, 0, ARM, view.obs, 0)
    at = copy_row(physics.qvel, env, 0, ARM, view.obs, at)
    tip = physics.xpos[env, state.tip]
    thing = physics.xpos[env, state.thing]
    goal = physics.xpos[env, state.goal]
    for i in range(3):
        view.obs[env, at + i] = tip[i]
        view.obs[env, at + 3 + i] = thing[i]
        view.obs[env, at + 6 + i] = goal[i]
    state.to_tip[env] = wp.length(thing - tip)
    state.to_goal[env] = wp.length(thing - goal)


REWARDS = ("reward_dist", "reward_ctrl", "reward_near")


def build(version: str, options: Mapping[str, Any], model: Any) -> MujocoEnv:
    check_size(model, 11, 11, "seven of the arm, then x and y of the object, then of the goal")
    scalars = {
        "tip": number_of(model, "tips_arm"),
        "thing": number_of(model, "object"),
        "goal": number_of(model, "goal"),
        "before": version == "v4",  # v4 rewards the state before the action, v5 the state after it
    }
    return MujocoEnv(
        "Pusher",
        ("qpos", "qvel", "xpos"),
        State,
        View,
        reset,
        step,
        observe,
        constants=scalars,
        bounds={"to_tip": FINITE, "to_goal": FINITE},
        # v4 reports the rewards without their weights
        names={"reward_dist": "distance", "reward_ctrl": "effort"} if version == "v4" else {},
    )


TASKS = {
    f"Pusher-{version}": MujocoTask(
        partial(build, version),
        load_model,
        box(23),
        numbers(*REWARDS),
        {
            "xml_file": xml_file(xml),
            "reward_near_weight": decimal(0.5),
            "reward_dist_weight": decimal(1.0),
            "reward_control_weight": decimal(0.1),
        },
        frame_skip=5,
        max_episode_steps=100,
        signals=pusher,
    )
    for version, xml in (("v4", "pusher.xml"), ("v5", "pusher_v5.xml"))
}
