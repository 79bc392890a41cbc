"""Functions of the tasks that reward forward motion: Ant, HalfCheetah, Hopper, Humanoid, Swimmer and Walker2d.

The reward is forward_reward_weight · velocity along x + healthy_reward while healthy − costs of actions and
contacts. A task defines the position of its body, when it is healthy and what it observes. It reports some of
the info fields, by the names in Gymnasium's version of the task.
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
    """The observation and info fields of these tasks; positions are in m, velocities in m/s.

    A task with further fields has its own struct.
    """

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
    """Returns the velocity along x (m/s) since the last observation, and writes those along x and y to the info.

    ``place`` is the body's current x and y (m).
    """
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
    """Returns a step's (reward, terminated) and writes the parts of the reward to the info.

    ``speed`` is the velocity along x (m/s), ``healthy`` the task's condition, and ``contact_cost`` weighted.
    """
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
    """Stores the body's position for the next step's velocity, and writes positions to the info.

    ``place`` is the body's x and y (m). With ``state.shows_root``, the info is the position of the root joint instead.
    """
    state.place[env] = place
    if state.shows_root:
        place = wp.vec2d(physics.qpos[env, 0], physics.qpos[env, 1])
    view.x_position[env] = place[0]
    view.y_position[env] = place[1]
    view.distance_from_origin[env] = wp.length(place)


def runner_options(xml: str, ctrl_cost_weight: float, reset_noise_scale: float, forward: float = 1.0) -> dict[str, Any]:
    """Returns the options that all of these tasks have, with these defaults; ``xml`` is the model's file."""
    return {
        "xml_file": xml_file(xml),
        "forward_reward_weight": decimal(forward),
        "ctrl_cost_weight": decimal(ctrl_cost_weight),
        "reset_noise_scale": Option(reset_noise_scale),
        "exclude_current_positions_from_observation": True,
    }


def always_alive(version: str, options: Mapping[str, Any]) -> bool:
    """Returns whether unhealthy states are rewarded as healthy: in v4, the terminal step of an episode."""
    return version == "v4" and options["terminate_when_unhealthy"]


def skipped(options: Mapping[str, Any], positions: int) -> int:
    """Returns how many leading positions observations omit: ``positions`` or, if an option includes them, 0."""
    return positions if options["exclude_current_positions_from_observation"] else 0
