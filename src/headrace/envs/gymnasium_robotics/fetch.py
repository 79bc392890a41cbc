"""Fetch: an arm of seven joints, whose gripper reaches a place, or brings an object to one.

Actions move the gripper by up to 5 cm along each axis: they displace a body without mass to which the gripper is
welded, and MuJoCo's constraint solver finds the arm's motion. Where the fingers are shut, they are put to zero after
each step, and what is observed is of the new state; else it is of the beginning of the last substep, but for the
joints' positions and velocities.
"""

# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false
# pyright: reportCallIssue=false

from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
import warp as wp

from headrace.envs.gymnasium_robotics.common import DENSE, OPTIONS, assets, goal_parts, goal_space
from headrace.envs.mujoco.common import load_model
from headrace.pool.executors.kernels.program import FINITE
from headrace.pool.executors.mujoco import Camera, Control, MujocoEnv, MujocoTask, Part, Signals, Streams, uniform
from headrace.pool.executors.mujoco.fields import library
from headrace.pool.spec import Field

F = wp.float64
ZERO = wp.constant(F(0.0))
ONE = wp.constant(F(1.0))
REACH = 0.05  # m: how near a goal is reached, and the largest step of the gripper
NEAR = wp.constant(F(REACH))
CLEAR = wp.constant(F(0.1))  # m, of the object from the gripper at the start
IN_THE_AIR = wp.constant(F(0.5))  # the share of goals that are above the table, where there are such
HIGHEST = wp.constant(F(0.45))  # m, of them above the object
UPRIGHT = wp.constant(F(4.0 * np.finfo(np.float64).eps))
FRAME_SKIP = 20
SETTLING = 10 * FRAME_SKIP  # physics steps in which the gripper gets to where episodes start
TO_START = (-0.498, 0.005, -0.431)  # m, from where the model has the gripper
TURN = (1.0, 0.0, 1.0, 0.0)  # of the gripper: down


@wp.struct
class State:
    """The goal (m), the gripper's pose as it was last seen, and constants.

    ``dofs`` are those that move the gripper, then those of the object, from ``object_dof`` on.
    """

    goal: wp.array[wp.vec3d]
    hand: wp.array[wp.vec3d]
    turn: wp.array[wp.quatd]
    start_qpos: wp.array[F]
    start_qvel: wp.array[F]
    dofs: wp.array[wp.int32]
    nq: int
    nv: int
    dt: F
    has_object: wp.bool
    shut: wp.bool
    dense: wp.bool
    in_the_air: wp.bool
    object_joint: int
    object_dof: int
    num_dofs: int
    object_body: int
    object_site: int
    root: int
    link: int
    grip: int
    target: int
    target_body: int
    finger: int
    finger_dof: int
    x: F
    y: F
    z: F
    height: F
    offset: F
    object_range: F
    target_range: F


@wp.struct
class View:
    obs_achieved_goal: wp.array2d[F]
    obs_desired_goal: wp.array2d[F]
    obs_observation: wp.array2d[F]
    is_success: wp.array[wp.float32]


@wp.func
def draw_goal(state: State, env: int, streams: Streams) -> wp.vec3d:
    """Returns a place for the gripper, or for the object on the table or above it (m)."""
    x = state.x + uniform(streams, env, -state.target_range, state.target_range)
    y = state.y + uniform(streams, env, -state.target_range, state.target_range)
    z = state.z + uniform(streams, env, -state.target_range, state.target_range)
    if state.has_object:
        x += state.offset
        z = state.height
        if state.in_the_air and uniform(streams, env, ZERO, ONE) < IN_THE_AIR:
            z += uniform(streams, env, ZERO, HIGHEST)
    return wp.vec3d(x, y, z)


@wp.func
def reset(physics: Any, state: State, env: int, streams: Streams):
    for i in range(state.nq):
        physics.qpos[env, i] = state.start_qpos[i]
    for i in range(state.nv):
        physics.qvel[env, i] = state.start_qvel[i]
    if state.has_object:
        x, y = F(0.0), F(0.0)
        while x * x + y * y < CLEAR * CLEAR:
            x = uniform(streams, env, -state.object_range, state.object_range)
            y = uniform(streams, env, -state.object_range, state.object_range)
        physics.qpos[env, state.object_joint] = state.x + x
        physics.qpos[env, state.object_joint + 1] = state.y + y
    goal = draw_goal(state, env, streams)
    state.goal[env] = goal
    physics.site_pos[env, state.target] = goal - physics.body_pos[env, state.target_body]  # seen in pictures


@wp.func
def act(physics: Any, state: State, env: int, actions: wp.array2d[F]):
    move = wp.vec3d()
    for i in range(3):
        move[i] = NEAR * wp.clamp(actions[env, i], -ONE, ONE)
    turn = state.turn[env]
    physics.mocap_pos[env, 0] = state.hand[env] + move
    physics.mocap_quat[env, 0] = wp.quatd(turn[0] + ONE, turn[1], turn[2] + ONE, turn[3])
    if not state.shut:
        for i in range(2):  # the servos are of the left finger and of the right, the joints the other way round
            by = wp.clamp(actions[env, 3], -ONE, ONE)
            physics.ctrl[env, i] = physics.qpos[env, state.finger + 1 - i] + by


@wp.func
def achieved(physics: Any, state: State, env: int) -> wp.vec3d:
    """Returns the place that is to be at the goal (m)."""
    return physics.site_xpos[env, wp.where(state.has_object, state.object_site, state.grip)]


@wp.func
def step(physics: Any, state: State, env: int, actions: wp.array2d[F], view: View):
    if state.shut:
        for i in range(2):
            physics.qpos[env, state.finger + i] = ZERO
    distance = wp.length(achieved(physics, state, env) - state.goal[env])
    view.is_success[env] = wp.where(distance < NEAR, wp.float32(1.0), wp.float32(0.0))
    reward = wp.where(distance > NEAR, -ONE, ZERO)
    if state.dense:
        reward = -distance
    return wp.float32(reward), wp.bool(False)


@wp.func
def motion(physics: Any, state: State, env: int, first: int, end: int, root: int, site: int) -> wp.spatial_vectord:
    """Returns a site's angular velocity (rad/s), then its velocity (m/s), of the joints that move it: J · qvel."""
    arm = physics.site_xpos[env, site] - physics.subtree_com[env, root]
    turning, moving = wp.vec3d(), wp.vec3d()
    for i in range(first, end):
        dof = state.dofs[i]
        axis = physics.cdof[env, dof]
        turn = wp.vec3d(axis[0], axis[1], axis[2])
        turning += physics.qvel[env, dof] * turn
        moving += physics.qvel[env, dof] * (wp.vec3d(axis[3], axis[4], axis[5]) + wp.cross(turn, arm))
    return wp.spatial_vectord(turning[0], turning[1], turning[2], moving[0], moving[1], moving[2])


@wp.func
def angles(frame: wp.mat33d) -> wp.vec3d:
    """Returns the angles of a rotation about x, y and z, one after the other (rad)."""
    cosine = wp.sqrt(frame[2, 2] * frame[2, 2] + frame[1, 2] * frame[1, 2])
    about_y = -wp.atan2(-frame[0, 2], cosine)
    if cosine > UPRIGHT:
        return wp.vec3d(-wp.atan2(frame[1, 2], frame[2, 2]), about_y, -wp.atan2(frame[0, 1], frame[0, 0]))
    return wp.vec3d(ZERO, about_y, -wp.atan2(-frame[1, 0], frame[1, 1]))


@wp.func
def put(row: wp.array2d[F], env: int, at: int, vector: wp.vec3d) -> int:
    """Writes a vector into ``row[env, at:]``; returns the next free index."""
    for i in range(3):
        row[env, at + i] = vector[i]
    return at + 3


@wp.func
def observe(physics: Any, state: State, env: int, view: View):
    state.hand[env] = physics.xpos[env, state.link]
    state.turn[env] = physics.xquat[env, state.link]
    put(view.obs_achieved_goal, env, 0, achieved(physics, state, env))
    put(view.obs_desired_goal, env, 0, state.goal[env])
    seen = view.obs_observation
    place = physics.site_xpos[env, state.grip]
    moves = motion(physics, state, env, 0, state.object_dof, state.root, state.grip)
    speed = state.dt * wp.vec3d(moves[3], moves[4], moves[5])
    at = put(seen, env, 0, place)
    if state.has_object:
        thing = physics.site_xpos[env, state.object_site]
        at = put(seen, env, at, thing)
        at = put(seen, env, at, thing - place)
    for i in range(2):
        seen[env, at + i] = physics.qpos[env, state.finger + i]
    at += 2
    if state.has_object:
        drift = motion(physics, state, env, state.object_dof, state.num_dofs, state.object_body, state.object_site)
        at = put(seen, env, at, angles(physics.site_xmat[env, state.object_site]))
        at = put(seen, env, at, state.dt * wp.vec3d(drift[3], drift[4], drift[5]) - speed)
        at = put(seen, env, at, state.dt * wp.vec3d(drift[0], drift[1], drift[2]))
    at = put(seen, env, at, speed)
    for i in range(2):
        seen[env, at + i] = state.dt * physics.qvel[env, state.finger_dof + i]


READS = (
    "qpos", "qvel", "ctrl", "mocap_pos", "mocap_quat", "xpos", "xquat", "site_xpos", "site_xmat", "cdof", "subtree_com",
    "site_pos", "body_pos",
)  # fmt: skip


class Numbers(NamedTuple):
    """What the tasks differ in.

    Attributes:
        base: the positions of the robot's base (m).
        thing: where the object is before an episode (m); None without one.
        above: how much higher the gripper starts (m).
        shut: whether the fingers stay shut.
        in_the_air: whether half of the goals are above the table.
        offset: of all goals, along x (m).
        object_range, target_range: of the object, and of goals, along each axis (m).
    """

    base: tuple[float, float, float]
    thing: tuple[float, float, float] | None = None
    above: float = 0.0
    shut: bool = True
    in_the_air: bool = False
    offset: float = 0.0
    object_range: float = 0.15
    target_range: float = 0.15


def model_of(name: str, options: Mapping[str, Any]) -> Any:
    """Returns the model, whose gripper is welded to the body that actions displace."""
    model = load_model({"xml_file": f"{name}.xml"}, assets("fetch"))
    model.eq_data[model.eq_type == int(library().mjtEq.mjEQ_WELD), :7] = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0)
    return model


def settled(numbers: Numbers, model: Any) -> Any:
    """Returns a `mujoco.MjData` of the moment at which the gripper has got to where episodes start."""
    mujoco = library()
    data = mujoco.MjData(model)
    for i, place in enumerate(numbers.base):
        data.joint(f"robot0:slide{i}").qpos[:] = place
    if numbers.thing is not None:
        data.joint("object0:joint").qpos[:] = (*numbers.thing, 1.0, 0.0, 0.0, 0.0)
    mujoco.mj_forward(model, data)
    data.mocap_pos[0] = data.site("robot0:grip").xpos + TO_START + np.array([0.0, 0.0, numbers.above])
    data.mocap_quat[0] = TURN
    mujoco.mj_step(model, data, nstep=SETTLING)
    return data


def movers(model: Any, body: int) -> list[int]:
    """Returns the degrees of freedom that move a body, those of its farthest ancestor first."""
    own = range(model.body_dofadr[body], model.body_dofadr[body] + model.body_dofnum[body])
    return [*movers(model, model.body_parentid[body]), *own] if body else []


def env_of(numbers: Numbers, options: Mapping[str, Any], model: Any) -> MujocoEnv:
    """Returns the task with these numbers."""
    start, has_object = settled(numbers, model), numbers.thing is not None
    link, grip = model.body("robot0:gripper_link").id, start.site("robot0:grip")
    thing = model.body("object0").id if has_object else 0
    finger, target = model.joint("robot0:r_gripper_finger_joint"), model.site("target0")
    reaching, moved = movers(model, link), movers(model, thing)
    constants = {
        "has_object": has_object, "shut": numbers.shut, "dense": options["reward_type"] == DENSE,
        "in_the_air": numbers.in_the_air, "object_joint": int(model.jnt_qposadr[model.body_jntadr[thing]]),
        "object_dof": len(reaching), "num_dofs": len(reaching) + len(moved), "object_body": thing,
        "object_site": model.site("object0").id if has_object else 0, "root": int(model.body_rootid[link]),
        "link": link, "grip": grip.id, "target": target.id, "target_body": int(target.bodyid[0]),
        "finger": int(finger.qposadr[0]), "finger_dof": int(finger.dofadr[0]),
        **dict(zip("xyz", map(float, grip.xpos), strict=True)),
        "height": float(start.site("object0").xpos[2]) if has_object else 0.0,
        "offset": numbers.offset, "object_range": numbers.object_range, "target_range": numbers.target_range,
    }  # fmt: skip
    return MujocoEnv(
        "Fetch", READS, State, View, reset, step, observe, act,
        varies=("site_pos",), fresh=numbers.shut, constants=constants,
        tables={
            "start_qpos": start.qpos.copy(), "start_qvel": start.qvel.copy(),
            "dofs": np.array(reaching + moved, np.int32),
        },
        actions=gym.spaces.Box(-1.0, 1.0, (4,), np.float64),
        bounds=dict.fromkeys(("goal", "hand", "turn"), FINITE),
    )  # fmt: skip


AXES, FINGERS = ("x", "y", "z"), ("right", "left")


def signals_of(numbers: Numbers, options: Mapping[str, Any], model: Any) -> Signals:
    """Returns what the numbers are. Velocities are what is moved in a step of the task's own length, of 0.04 s."""
    hand, thing, drift = Part("place of the gripper", (3,), "m", AXES), (), ()
    if numbers.thing is not None:
        thing = tuple(Part(f"place of the object{what}", (3,), "m", AXES) for what in ("", " from the gripper"))
        drift = (
            Part("angles of the object", (3,), "rad", AXES),
            Part("velocity of the object from the gripper", (3,), "m/step", AXES),
            Part("angular velocity of the object", (3,), "rad/step", AXES),
        )
    fingers = Part("places of the fingers", (2,), "m", FINGERS)
    speeds = (
        Part("velocity of the gripper", (3,), "m/step", AXES),
        Part("velocities of the fingers", (2,), "m/step", FINGERS),
    )
    grasp = Control("fingers, which stay shut") if numbers.shut else Control("change of the fingers' places", "m")
    moves = (Control(f"change of the gripper's place along {axis}", "m", REACH) for axis in AXES)
    return Signals((*goal_parts(AXES), hand, *thing, fingers, *drift, *speeds), (*moves, grasp))


def goal_reward(
    options: Mapping[str, Any], achieved: np.ndarray, desired: np.ndarray
) -> tuple[np.ndarray, np.ndarray | None]:
    """Returns what pairs of goals [B, 3] earn, float32[B]; none ends an episode."""
    distance = np.linalg.norm(achieved - desired, axis=-1)
    cost = distance if options["reward_type"] == DENSE else distance > REACH
    return -cost.astype(np.float32), None


TABLE = (0.405, 0.48, 0.0)
KINDS = {
    "Reach": ("reach", Numbers((0.4049, 0.48, 0.0), above=0.2)),
    "Push": ("push", Numbers(TABLE, (1.25, 0.53, 0.4))),
    "Slide": (
        "slide",
        Numbers((0.05, 0.48, 0.0), (1.7, 1.1, 0.41), above=-0.02, offset=0.4, object_range=0.1, target_range=0.3),
    ),
    "PickAndPlace": ("pick_and_place", Numbers(TABLE, (1.25, 0.53, 0.4), above=0.2, shut=False, in_the_air=True)),
}
VIEWED = Camera(distance=2.5, azimuth=132.0, elevation=-14.0, lookat=(1.3, 0.75, 0.55))
TASKS = {
    f"Fetch{name}-v4": MujocoTask(
        partial(env_of, numbers), partial(model_of, model), goal_space(3, 10 if numbers.thing is None else 25),
        (Field("is_success", np.dtype(np.float32)),), OPTIONS,
        frame_skip=FRAME_SKIP, max_episode_steps=50, camera=VIEWED, goal_reward=goal_reward,
        signals=partial(signals_of, numbers),
    )
    for name, (model, numbers) in KINDS.items()
}  # fmt: skip
