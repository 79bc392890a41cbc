"""Stacker: stack boxes with a planar arm so that one of them is at the target, and move the hand away."""

# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false
# pyright: reportCallIssue=false

from typing import Any

import warp as wp

from headrace.envs.dm_control.common import (
    AT_MARGIN,
    INFINITY,
    PI,
    compiled_model,
    excess,
    gaussian,
    suite_env,
    suite_module,
    suite_task,
)
from headrace.envs.dm_control.planar_arm import ARM, SIZES, joints, planar_pose, randomize_arm, see_arm, site_distance
from headrace.pool.executors.mujoco import MujocoEnv, MujocoTask, Streams, integers, uniform

ZERO = wp.constant(wp.float64(0.0))
AWAY = wp.constant(wp.float64(0.1))  # m, least distance of the hand from the target
CLOSE = wp.constant(wp.float64(0.01))  # m, margin of that distance


@wp.struct
class State:
    """The constants: ``box_size`` is half the edge of a box (m).

    Numbers of bodies, joints and sites are those of the first box, which the others follow; each has the joints x,
    z and its angle.
    """

    joints: wp.array[wp.int32]
    num_boxes: int
    box_size: wp.float64
    hand: int
    grasp: int
    box: int
    box_joint: int
    box_site: int
    target: int
    target_site: int


@wp.struct
class View:
    obs_arm_pos: wp.array3d[wp.float64]
    obs_arm_vel: wp.array2d[wp.float64]
    obs_touch: wp.array2d[wp.float64]
    obs_hand_pos: wp.array2d[wp.float64]
    obs_box_pos: wp.array3d[wp.float64]
    obs_box_vel: wp.array2d[wp.float64]
    obs_target_pos: wp.array2d[wp.float64]


@wp.func
def reset(physics: Any, state: State, env: int, streams: Streams):
    randomize_arm(physics, state.joints, env, streams)
    height = state.box_size * wp.float64(2 * integers(streams, env, 0, state.num_boxes) + 1)
    x = uniform(streams, env, wp.float64(-0.37), wp.float64(0.37))
    physics.body_pos[env, state.target] = wp.vec3d(x, physics.body_pos[env, state.target][1], height)
    for box in range(state.num_boxes):
        at = state.box_joint + 3 * box
        physics.qpos[env, at] = uniform(streams, env, wp.float64(0.1), wp.float64(0.3))
        physics.qpos[env, at + 1] = uniform(streams, env, ZERO, wp.float64(0.7))
        physics.qpos[env, at + 2] = uniform(streams, env, ZERO, wp.float64(2.0) * PI)


@wp.func
def accept(physics: Any, state: State, env: int):
    return physics.ncon[env] == 0


@wp.func
def step(physics: Any, state: State, env: int, actions: wp.array2d[wp.float64], view: View):
    nearest = site_distance(physics, env, state.box_site, state.target_site)
    for box in range(1, state.num_boxes):
        nearest = wp.min(nearest, site_distance(physics, env, state.box_site + box, state.target_site))
    placed = gaussian(excess(nearest, ZERO, ZERO, wp.float64(2.0) * state.box_size), AT_MARGIN)
    distance = site_distance(physics, env, state.grasp, state.target_site)
    return wp.float32(placed * gaussian(excess(distance, AWAY, INFINITY, CLOSE), AT_MARGIN)), wp.bool(False)


@wp.func
def observe(physics: Any, state: State, env: int, view: View):
    see_arm(physics, state.joints, state.hand, env, view)
    for box in range(state.num_boxes):
        pose = planar_pose(physics, env, state.box + box)
        for i in range(4):
            view.obs_box_pos[env, box, i] = pose[i]
        at = state.box_joint + 3 * box
        view.obs_box_vel[env, 3 * box] = physics.qvel[env, at]
        view.obs_box_vel[env, 3 * box + 1] = physics.qvel[env, at + 2]
        view.obs_box_vel[env, 3 * box + 2] = physics.qvel[env, at + 1]
    place = physics.xpos[env, state.target]
    view.obs_target_pos[env, 0] = place[0]
    view.obs_target_pos[env, 1] = place[2]


def stacker(num_boxes: int) -> MujocoTask:
    """Returns the task with this many boxes."""

    def env(options: Any, model: Any) -> MujocoEnv:
        constants = {
            "num_boxes": num_boxes,
            "box_size": model.geom("target").size[0],
            "hand": model.body("hand").id,
            "grasp": model.site("grasp").id,
            "box": model.body("box0").id,
            "box_joint": model.joint("box0_x").id,
            "box_site": model.site("box0").id,
            "target": model.body("target").id,
            "target_site": model.site("target").id,
        }
        return suite_env(
            "Stacker",
            (*ARM, "body_pos"),
            State,
            View,
            reset,
            step,
            observe,
            accept=accept,
            varies=("body_pos",),
            constants=constants,
            tables=joints(model),
        )

    def model(options: Any) -> Any:
        return compiled_model(*suite_module("stacker").make_model(num_boxes))

    sizes = {**SIZES, "box_pos": (num_boxes, 4), "box_vel": 3 * num_boxes, "target_pos": 2}
    return suite_task(env, model, sizes, frame_skip=10)


TASKS = {"stack_2": stacker(2), "stack_4": stacker(4)}
