"""Humanoid: a two-legged robot of 21 joints that is rewarded for standing, walking or running."""

# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false

from collections.abc import Callable
from typing import Any

import warp as wp

from headrace.envs.dm_control.common import (
    AT_MARGIN,
    INFINITY,
    JOINTS,
    copy_row,
    excess,
    gaussian,
    linear,
    randomize_joints,
    set_row,
    small_control,
    suite_env,
    suite_model,
    suite_task,
)
from headrace.pool.executors.mujoco import MujocoEnv, MujocoTask, Streams

ZERO = wp.constant(wp.float64(0.0))
ONE = wp.constant(wp.float64(1.0))
STAND_HEIGHT = wp.constant(wp.float64(1.4))  # m, of the head
FREE_JOINT = wp.constant(7)  # length of the root joint's position, which precedes the other joints'


@wp.struct
class State:
    """The constants.

    ``move_speed`` is the target speed (m/s), 0 to stand; ``pure_state`` is whether the observation is qpos and qvel
    only; ``up`` is the number of the torso's axis that points up when the robot stands.
    """

    move_speed: wp.float64
    pure_state: wp.bool
    up: int
    torso: int
    head: int
    left_hand: int
    left_foot: int
    right_hand: int
    right_foot: int
    velocity: int
    nq: int
    nv: int
    nu: int
    njnt: int


@wp.struct
class View:
    """The observation: position and velocity with ``pure_state``, or else all fields except the position."""

    obs_position: wp.array2d[wp.float64]
    obs_joint_angles: wp.array2d[wp.float64]
    obs_head_height: wp.array[wp.float64]
    obs_extremities: wp.array2d[wp.float64]
    obs_torso_vertical: wp.array2d[wp.float64]
    obs_com_velocity: wp.array2d[wp.float64]
    obs_velocity: wp.array2d[wp.float64]


@wp.func
def reset(physics: Any, state: State, env: int, streams: Streams):
    randomize_joints(physics, env, state.njnt, streams)


@wp.func
def accept(physics: Any, state: State, env: int):
    return physics.ncon[env] == 0


@wp.func
def moving(physics: Any, state: State, env: int) -> wp.float64:
    """Returns the reward for the horizontal speed of the center of mass."""
    x = physics.sensordata[env, state.velocity]
    y = physics.sensordata[env, state.velocity + 1]
    if state.move_speed == ZERO:
        still_x = gaussian(excess(x, ZERO, ZERO, wp.float64(2.0)), AT_MARGIN)
        still_y = gaussian(excess(y, ZERO, ZERO, wp.float64(2.0)), AT_MARGIN)
        return (still_x + still_y) / wp.float64(2.0)
    slower = excess(wp.sqrt(x * x + y * y), state.move_speed, INFINITY, state.move_speed)
    return (wp.float64(5.0) * linear(slower, ZERO) + ONE) / wp.float64(6.0)


@wp.func
def step(physics: Any, state: State, env: int, actions: wp.array2d[wp.float64], view: View):
    height = physics.xpos[env, state.head][2]
    standing = gaussian(excess(height, STAND_HEIGHT, INFINITY, STAND_HEIGHT / wp.float64(4.0)), AT_MARGIN)
    up = physics.xmat[env, state.torso][2, state.up]
    upright = linear(excess(up, wp.float64(0.9), INFINITY, wp.float64(1.9)), ZERO)
    gentle = (wp.float64(4.0) + small_control(actions, env, state.nu)) / wp.float64(5.0)
    return wp.float32(gentle * standing * upright * moving(physics, state, env)), wp.bool(False)


@wp.func
def see_limb(physics: Any, state: State, env: int, limb: int, view: View, at: int):
    """Writes a limb's position in the torso's frame (m) into the observation, from index ``at`` on."""
    way = physics.xpos[env, limb] - physics.xpos[env, state.torso]
    set_row(view.obs_extremities, env, at, wp.transpose(physics.xmat[env, state.torso]) * way)


@wp.func
def observe(physics: Any, state: State, env: int, view: View):
    copy_row(physics.qvel, env, 0, state.nv, view.obs_velocity, 0)
    if state.pure_state:
        copy_row(physics.qpos, env, 0, state.nq, view.obs_position, 0)
    else:
        copy_row(physics.qpos, env, FREE_JOINT, state.nq - FREE_JOINT, view.obs_joint_angles, 0)
        view.obs_head_height[env] = physics.xpos[env, state.head][2]
        see_limb(physics, state, env, state.left_hand, view, 0)
        see_limb(physics, state, env, state.left_foot, view, 3)
        see_limb(physics, state, env, state.right_hand, view, 6)
        see_limb(physics, state, env, state.right_foot, view, 9)
        frame = physics.xmat[env, state.torso]
        for i in range(3):
            view.obs_torso_vertical[env, i] = frame[2, i]
        copy_row(physics.sensordata, env, state.velocity, 3, view.obs_com_velocity, 0)


def sizes(model: Any, pure_state: bool) -> dict[str, int | None]:
    """Returns the lengths of the observation's arrays, None for a scalar."""
    if pure_state:
        return {"position": model.nq, "velocity": model.nv}
    return {
        "joint_angles": model.nq - 7,
        "head_height": None,
        "extremities": 12,
        "torso_vertical": 3,
        "com_velocity": 3,
        "velocity": model.nv,
    }


SHAPES = {
    "obs_position": ("nq",),
    "obs_joint_angles": ("nu",),
    "obs_extremities": (12,),
    "obs_torso_vertical": (3,),
    "obs_com_velocity": (3,),
}


def humanoid(
    model: Callable[[Any], Any],
    torso: str,
    up: int,
    sides: tuple[str, str],
    frame_skip: int,
    move_speed: float,
    pure_state: bool = False,
) -> MujocoTask:
    """Returns a task of a humanoid.

    Args:
        model: a function options → compiled model.
        torso: name of the torso's body.
        up: number of the torso's axis that points up when the robot stands.
        sides: prefixes of the left and right limbs' names.
        frame_skip: physics steps in an agent step.
        move_speed: target speed (m/s), 0 to stand.
        pure_state: whether the observation is qpos and qvel only.
    """

    def env(options: Any, model: Any) -> MujocoEnv:
        left, right = sides
        velocity = torso + "_subtreelinvel"
        constants = {
            "move_speed": move_speed,
            "pure_state": pure_state,
            "up": up,
            "torso": model.body(torso).id,
            "head": model.body("head").id,
            "left_hand": model.body(left + "hand").id,
            "left_foot": model.body(left + "foot").id,
            "right_hand": model.body(right + "hand").id,
            "right_foot": model.body(right + "foot").id,
            "velocity": int(model.sensor(velocity).adr[0]),
        }
        return suite_env(
            "Humanoid",
            (*JOINTS, "qvel", "xpos", "xmat", "sensordata", "ncon"),
            State,
            View,
            reset,
            step,
            observe,
            accept=accept,
            constants=constants,
            shapes=SHAPES,
            sensors=(velocity,),
        )

    return suite_task(env, model, lambda _, model: sizes(model, pure_state), frame_skip)


def simple(move_speed: float, pure_state: bool = False) -> MujocoTask:
    """Returns a task of dm_control's domain ``humanoid``."""
    return humanoid(lambda _: suite_model("humanoid"), "torso", 2, ("left_", "right_"), 5, move_speed, pure_state)


TASKS = {"stand": simple(0.0), "walk": simple(1.0), "run": simple(10.0), "run_pure_state": simple(10.0, True)}
