"""What the tasks share that reward moving forward: Ant, HalfCheetah, Hopper, Humanoid, Swimmer and Walker2d.

Reward = forward_reward_weight · speed along x + healthy_reward while healthy − costs of actions and contacts.
A task says where its body is, when it is healthy and what it observes. Of the info fields it
shows some, by the names that Gymnasium's version of it has.
"""

# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false, reportCallIssue=false

from collections.abc import Mapping
from typing import Any

import warp as wp

from headrace.envs.mujoco.common import sum_of_squares
from headrace.envs.mujoco.options import xml_file
from headrace.pool.options import Option, decimal


@wp.struct
class View:
    """What these tasks show; a task may have a struct of its own with more."""

    obs: wp.array2d[wp.float64]
    x_position: wp.array[wp.float64]
    y_position: wp.array[wp.float64]
    z_distance_from_origin: wp.array[wp.float64]
    distance_from_origin: wp.array[wp.float64]
    x_velocity: wp.array[wp.float64]
    y_velocity: wp.array[wp.float64]
    reward_forward: wp.array[wp.float64]
    reward_ctrl: wp.array[wp.float64]
    reward_contact: wp.array[wp.float64]
    reward_survive: wp.array[wp.float64]


@wp.func
def velocity(state: Any, env: int, place: wp.vec2d, view: Any) -> wp.float64:
    """The speed along x since the last observation, now that the body is at this place."""
    speed = (place - state.place[env]) / state.dt
    view.x_velocity[env] = speed[0]
    view.y_velocity[env] = speed[1]
    return speed[0]


@wp.func
def earned(
    state: Any,
    env: int,
    actions: wp.array2d[wp.float64],
    speed: wp.float64,
    healthy: bool,
    contact_cost: wp.float64,
    view: Any,
):
    """(reward, terminated) of a step."""
    forward = state.forward_reward_weight * speed
    survive = wp.where(healthy or state.always_alive, state.healthy_reward, wp.float64(0.0))
    ctrl_cost = state.ctrl_cost_weight * sum_of_squares(actions, env, state.nu)
    view.reward_forward[env] = forward
    view.reward_ctrl[env] = -ctrl_cost
    view.reward_contact[env] = -contact_cost
    view.reward_survive[env] = survive
    return wp.float32((forward + survive) - (ctrl_cost + contact_cost)), state.terminate_when_unhealthy and not healthy


@wp.func
def show_place(physics: Any, state: Any, env: int, place: wp.vec2d, view: Any):
    """Remember the body's place for the next step's speed, and show it, or the root's where that is shown."""
    state.place[env] = place
    if state.shows_root:
        place = wp.vec2d(physics.qpos[env, 0], physics.qpos[env, 1])
    view.x_position[env] = place[0]
    view.y_position[env] = place[1]
    view.distance_from_origin[env] = wp.length(place)


def runner_options(xml: str, ctrl_cost_weight: float, reset_noise_scale: float, forward: float = 1.0) -> dict[str, Any]:
    """The options that all of these tasks have."""
    return {
        "xml_file": xml_file(xml),
        "forward_reward_weight": decimal(forward),
        "ctrl_cost_weight": decimal(ctrl_cost_weight),
        "reset_noise_scale": Option(reset_noise_scale),
        "exclude_current_positions_from_observation": True,
    }


def always_alive(version: str, options: Mapping[str, Any]) -> bool:
    """In v4 the last step of an episode, which is unhealthy, is rewarded as healthy."""
    return version == "v4" and options["terminate_when_unhealthy"]


def skipped(options: Mapping[str, Any], positions: int) -> int:
    """How many of the first positions are left out of observations."""
    return positions if options["exclude_current_positions_from_observation"] else 0
