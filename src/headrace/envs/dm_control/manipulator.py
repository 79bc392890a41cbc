"""Manipulator: bring a ball or a peg to a target with a planar arm, or insert it into a cup or a slot."""

# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false
# pyright: reportCallIssue=false

from typing import Any

import warp as wp

from headrace.envs.dm_control.common import (
    AT_MARGIN,
    PI,
    compiled_model,
    excess,
    gaussian,
    suite_env,
    suite_module,
    suite_task,
)
from headrace.envs.dm_control.planar_arm import (
    ARM,
    NUM_JOINTS,
    SIZES,
    joints,
    planar_pose,
    randomize_arm,
    see_arm,
    site_distance,
    turn_about_y,
)
from headrace.pool.executors.kernels.program import FINITE
from headrace.pool.executors.mujoco import MujocoEnv, MujocoTask, Streams, uniform

ZERO = wp.constant(wp.float64(0.0))
CLOSE = wp.constant(wp.float64(0.01))  # m
IN_HAND = wp.constant(wp.float64(0.1))  # probability that the object starts in the hand
IN_TARGET = wp.constant(wp.float64(0.1))  # probability that it starts at the target


@wp.struct
class State:
    """The state of the initialization, and the constants.

    If the object starts in the hand, an episode takes two calls of `reset`, as the hand's position is known after the
    first. ``grasped`` is whether the second is due, ``arm`` the positions of the arm's joints, ``object_at`` the
    object's initial x, z (m) and angle (rad). ``thrown`` is the object's initial velocity (m/s), which persists when
    an initial state is rejected, as in dm_control.

    ``peg`` and ``insert`` are the task's; the object's joints are x, z and its angle.
    """

    grasped: wp.array[wp.bool]
    arm: wp.array2d[wp.float64]
    object_at: wp.array2d[wp.float64]
    thrown: wp.array[wp.float64]
    joints: wp.array[wp.int32]
    peg: wp.bool
    insert: wp.bool
    hand: int
    object: int
    object_joint: int
    target: int
    receptacle: int
    grasp: int
    pinch: int
    object_site: int
    target_site: int
    object_grasp: int
    object_pinch: int
    object_tip: int
    target_tip: int


@wp.struct
class View:
    obs_arm_pos: wp.array3d[wp.float64]
    obs_arm_vel: wp.array2d[wp.float64]
    obs_touch: wp.array2d[wp.float64]
    obs_hand_pos: wp.array2d[wp.float64]
    obs_object_pos: wp.array2d[wp.float64]
    obs_object_vel: wp.array2d[wp.float64]
    obs_target_pos: wp.array2d[wp.float64]


@wp.func
def place_object(state: State, env: int, x: wp.float64, z: wp.float64, angle: wp.float64):
    """Stores the object's initial position (m) and angle (rad)."""
    state.object_at[env, 0] = x
    state.object_at[env, 1] = z
    state.object_at[env, 2] = angle


@wp.func
def place_body(physics: Any, env: int, body: int, x: wp.float64, z: wp.float64, angle: wp.float64):
    """Sets the position (m) and angle (rad) of a fixed body."""
    physics.body_pos[env, body] = wp.vec3d(x, physics.body_pos[env, body][1], z)
    physics.body_quat[env, body] = turn_about_y(angle)


@wp.func
def draw_start(physics: Any, state: State, env: int, streams: Streams):
    """Draws the arm's pose, the target, and the object's initial position."""
    randomize_arm(physics, state.joints, env, streams)
    x = uniform(streams, env, wp.float64(-0.4), wp.float64(0.4))
    z = uniform(streams, env, wp.float64(0.1), wp.float64(0.4))
    most = PI
    if state.insert:
        most = PI / wp.float64(3.0)
    angle = uniform(streams, env, -most, most)
    if state.insert:
        place_body(physics, env, state.receptacle, x, z, angle)
    place_body(physics, env, state.target, x, z, angle)
    where = uniform(streams, env, ZERO, wp.float64(1.0))
    if where < IN_HAND:
        state.grasped[env] = True
        for i in range(NUM_JOINTS):
            state.arm[env, i] = physics.qpos[env, state.joints[i]]
    elif where < IN_HAND + IN_TARGET:
        place_object(state, env, x, z, angle)
    else:
        anywhere = uniform(streams, env, wp.float64(-0.5), wp.float64(0.5))
        height = uniform(streams, env, ZERO, wp.float64(0.7))
        place_object(state, env, anywhere, height, uniform(streams, env, ZERO, wp.float64(2.0) * PI))
        state.thrown[env] = uniform(streams, env, wp.float64(-5.0), wp.float64(5.0))


@wp.func
def reset(physics: Any, state: State, env: int, streams: Streams):
    drawn = state.grasped[env]  # read once: Warp would evaluate it again for the other branch
    state.grasped[env] = False
    if drawn:
        for i in range(NUM_JOINTS):
            physics.qpos[env, state.joints[i]] = state.arm[env, i]
    else:
        draw_start(physics, state, env, streams)
    for i in range(3):
        physics.qpos[env, state.object_joint + i] = state.object_at[env, i]
    physics.qvel[env, state.object_joint] = state.thrown[env]


@wp.func
def accept(physics: Any, state: State, env: int):
    if state.grasped[env]:
        place = physics.site_xpos[env, state.grasp]
        frame = physics.site_xmat[env, state.grasp]
        place_object(state, env, place[0], place[2], PI - wp.atan2(frame[2, 0], frame[0, 0]))
        return False
    if physics.ncon[env] > 0:
        return False
    state.thrown[env] = ZERO
    return True


@wp.func
def closeness(physics: Any, env: int, one: int, other: int) -> wp.float64:
    """Returns the reward for the distance of two sites, 1 if they are close."""
    away = excess(site_distance(physics, env, one, other), ZERO, CLOSE, wp.float64(2.0) * CLOSE)
    return gaussian(away, AT_MARGIN)


@wp.func
def step(physics: Any, state: State, env: int, actions: wp.array2d[wp.float64], view: View):
    reward = closeness(physics, env, state.object_site, state.target_site)
    if state.peg:
        grasping = closeness(physics, env, state.object_grasp, state.grasp)
        grasping = (grasping + closeness(physics, env, state.object_pinch, state.pinch)) / wp.float64(2.0)
        tips = closeness(physics, env, state.target_tip, state.object_tip)
        reward = wp.max((reward + tips) / wp.float64(2.0), grasping / wp.float64(3.0))
    return wp.float32(reward), wp.bool(False)


@wp.func
def observe(physics: Any, state: State, env: int, view: View):
    see_arm(physics, state.joints, state.hand, env, view)
    pose = planar_pose(physics, env, state.object)
    target = planar_pose(physics, env, state.target)
    for i in range(4):
        view.obs_object_pos[env, i] = pose[i]
        view.obs_target_pos[env, i] = target[i]
    for i in range(3):
        view.obs_object_vel[env, i] = physics.qvel[env, state.object_joint + i]


def manipulator(peg: bool, insert: bool) -> MujocoTask:
    """Returns the task to bring or insert a peg, or else a ball."""
    prop, receptacle = ("peg", "slot") if peg else ("ball", "cup")
    sites = {
        "grasp": "grasp",
        "pinch": "pinch",
        "object_site": prop,
        "target_site": f"target_{prop}",
        # not used for a ball
        "object_grasp": "peg_grasp" if peg else "grasp",
        "object_pinch": "peg_pinch" if peg else "grasp",
        "object_tip": "peg_tip" if peg else "grasp",
        "target_tip": "target_peg_tip" if peg else "grasp",
    }

    def env(options: Any, model: Any) -> MujocoEnv:
        target = model.body(f"target_{prop}").id
        constants = {
            "peg": peg,
            "insert": insert,
            "hand": model.body("hand").id,
            "object": model.body(prop).id,
            "object_joint": model.joint(f"{prop}_x").id,
            "target": target,
            "receptacle": model.body(receptacle).id if insert else target,
            **{name: model.site(site).id for name, site in sites.items()},
        }
        return suite_env(
            "Manipulator",
            (*ARM, "site_xmat", "body_pos", "body_quat"),
            State,
            View,
            reset,
            step,
            observe,
            accept=accept,
            varies=("body_pos", "body_quat"),
            constants=constants,
            shapes={"arm": (8,), "object_at": (3,)},
            bounds=dict.fromkeys(("arm", "object_at", "thrown"), FINITE),
            tables=joints(model),
        )

    def model(options: Any) -> Any:
        return compiled_model(*suite_module("manipulator").make_model(use_peg=peg, insert=insert))

    return suite_task(env, model, {**SIZES, "object_pos": 4, "object_vel": 3, "target_pos": 4}, frame_skip=10)


TASKS = {
    "bring_ball": manipulator(peg=False, insert=False),
    "bring_peg": manipulator(peg=True, insert=False),
    "insert_ball": manipulator(peg=False, insert=True),
    "insert_peg": manipulator(peg=True, insert=True),
}
