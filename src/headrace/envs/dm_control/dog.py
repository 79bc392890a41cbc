"""Dog: a robot of 73 joints that is rewarded for standing, walking, trotting, running or fetching a ball."""

# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false
# pyright: reportCallIssue=false, reportReturnType=false

import math
from typing import Any

import warp as wp

from headrace.envs.dm_control.common import (
    AT_MARGIN,
    INFINITY,
    PI,
    compiled_model,
    copy_row,
    excess,
    gaussian,
    linear,
    reciprocal,
    set_quaternion,
    set_row,
    standard_normal,
    suite_env,
    suite_module,
    suite_task,
)
from headrace.pool.executors.mujoco import MujocoEnv, MujocoTask, Streams, uniform
from headrace.pool.executors.mujoco.fields import library

ZERO = wp.constant(wp.float64(0.0))
ONE = wp.constant(wp.float64(1.0))
TWO = wp.constant(wp.float64(2.0))
UPRIGHT = wp.constant(wp.float64(math.cos(math.radians(30))))
STAND_FRACTION = 0.9  # of the height in the model's initial pose
NOISE = wp.constant(wp.float64(0.05))

# addresses in MuJoCo's arrays, where the dog comes first; all of its joints are hinges
ROOT_QPOS = wp.constant(7)
ROOT_QVEL = wp.constant(6)
HINGES = wp.constant(73)
BALL_QPOS = wp.constant(80)
BALL_QVEL = wp.constant(79)
INERTIAL = wp.constant(9)  # numbers of the sensors: three each of accelerometer, velocimeter and gyroscope
TOUCH = wp.constant(4)
FEET = wp.constant(12)  # three components of the force on each foot


@wp.struct
class State:
    """The constants.

    ``fetch`` is whether the task is to fetch; ``move_speed`` is the target speed (m/s), 0 for none. Heights (m) and
    ``weight`` (N) are the least of a standing robot; sizes and radii are in m, ``gravity`` in m/s².
    """

    fetch: wp.bool
    move_speed: wp.float64
    torso_height: wp.float64
    pelvis_height: wp.float64
    weight: wp.float64
    gravity: wp.float64
    arena_size: wp.float64
    bite_radius: wp.float64
    target_radius: wp.float64
    torso: int
    pelvis: int
    skull: int
    head_site: int
    head_body: int
    upper_bite: int
    lower_bite: int
    ball: int
    ball_body: int
    target: int
    velocity: int
    inertial: int
    feet: int
    touch: int
    nu: int


@wp.struct
class View:
    """The observation, which includes the ball and the target if the task is to fetch."""

    obs_joint_angles: wp.array2d[wp.float64]
    obs_joint_velocites: wp.array2d[wp.float64]
    obs_torso_pelvis_height: wp.array2d[wp.float64]
    obs_z_projection: wp.array2d[wp.float64]
    obs_torso_com_velocity: wp.array2d[wp.float64]
    obs_inertial_sensors: wp.array2d[wp.float64]
    obs_foot_forces: wp.array2d[wp.float64]
    obs_touch_sensors: wp.array2d[wp.float64]
    obs_actuator_state: wp.array2d[wp.float64]
    obs_ball_state: wp.array2d[wp.float64]
    obs_target_position: wp.array2d[wp.float64]


# ---- initial states -----------------------------------------------------------------------------


@wp.func
def throw_ball(physics: Any, state: State, env: int, streams: Streams):
    """Throws the ball from a random point of a circle towards about its center, up to 3 m high."""
    radius = wp.float64(0.75) * state.arena_size
    azimuth = uniform(streams, env, ZERO, TWO * PI)
    height = uniform(streams, env, ZERO, wp.float64(3.0))
    speed = uniform(streams, env, ZERO, wp.float64(5.0))
    physics.qpos[env, BALL_QPOS] = radius * wp.sin(azimuth)
    physics.qpos[env, BALL_QPOS + 1] = radius * wp.cos(azimuth)
    physics.qpos[env, BALL_QPOS + 2] = wp.float64(0.05)
    physics.qvel[env, BALL_QVEL] = speed * (NOISE * standard_normal(streams, env) - wp.sin(azimuth))
    physics.qvel[env, BALL_QVEL + 1] = speed * (NOISE * standard_normal(streams, env) - wp.cos(azimuth))
    physics.qvel[env, BALL_QVEL + 2] = wp.sqrt(TWO * state.gravity * height)


@wp.func
def reset(physics: Any, state: State, env: int, streams: Streams):
    half = uniform(streams, env, ZERO, PI)
    set_quaternion(physics.qpos, env, 3, wp.vec4d(wp.cos(half), ZERO, ZERO, wp.sin(half)))
    physics.qvel[env, 0] = TWO * standard_normal(streams, env)
    physics.qvel[env, 1] = TWO * standard_normal(streams, env)
    physics.qvel[env, 5] = TWO * standard_normal(streams, env)
    for i in range(state.nu):
        bounds = physics.actuator_ctrlrange[env, i]
        physics.act[env, i] = uniform(streams, env, bounds[0], bounds[1])
    if state.fetch:
        throw_ball(physics, state, env, streams)


# ---- rewards ------------------------------------------------------------------------------------


@wp.func
def at_least(x: wp.float64, wanted: wp.float64) -> wp.float64:
    """Returns a reward that is 1 if x is at least ``wanted``, and AT_MARGIN at 0."""
    return gaussian(excess(x, wanted, INFINITY, wanted), AT_MARGIN)


@wp.func
def upright(physics: Any, body: int, env: int) -> wp.float64:
    """Returns a body's reward for being upright."""
    return linear(excess(physics.xmat[env, body][2, 2], UPRIGHT, INFINITY, UPRIGHT + ONE), ZERO)


@wp.func
def standing(physics: Any, state: State, env: int) -> wp.float64:
    """Returns the reward for standing: for heights, for being upright, and for the weight on the feet."""
    reward = at_least(physics.xpos[env, state.torso][2], state.torso_height)
    reward *= at_least(physics.xpos[env, state.pelvis][2], state.pelvis_height)
    reward *= upright(physics, state.skull, env)
    reward *= upright(physics, state.torso, env)
    reward *= upright(physics, state.pelvis, env)
    touch = ZERO
    for i in range(TOUCH):
        touch += physics.sensordata[env, state.touch + i]
    return reward * linear(excess(touch, state.weight, INFINITY, state.weight), wp.float64(0.9))


@wp.func
def torso_velocity(physics: Any, state: State, env: int) -> wp.vec3d:
    """Returns the velocity of the center of mass in the torso's frame (m/s)."""
    at = state.velocity
    world = wp.vec3d(physics.sensordata[env, at], physics.sensordata[env, at + 1], physics.sensordata[env, at + 2])
    return wp.transpose(physics.xmat[env, state.torso]) * world


@wp.func
def moving(physics: Any, state: State, env: int) -> wp.float64:
    """Returns the reward for the forward speed."""
    speed = torso_velocity(physics, state, env)[0]
    off = excess(speed, state.move_speed, TWO * state.move_speed, wp.max(ONE, state.move_speed))
    return (wp.float64(4.0) * linear(off, ZERO) + ONE) / wp.float64(5.0)


@wp.func
def fetching(physics: Any, state: State, env: int) -> wp.float64:
    """Returns the reward for reaching the ball with the mouth and for bringing it to the target."""
    ball = physics.geom_xpos[env, state.ball]
    upper = wp.length(ball - physics.site_xpos[env, state.upper_bite])
    lower = wp.length(ball - physics.site_xpos[env, state.lower_bite])
    to_mouth = excess(wp.float64(0.5) * (upper + lower), ZERO, state.bite_radius, TWO)
    reached = (wp.float64(6.0) * reciprocal(to_mouth, AT_MARGIN) + ONE) / wp.float64(7.0)
    distance = wp.length(ball - physics.geom_xpos[env, state.target])
    policy_preset_values = reciprocal(excess(distance, ZERO, state.target_radius, state.arena_size), AT_MARGIN)
    if distance < TWO * state.target_radius:
        reached = ONE  # near the target, the dog may release the ball
    return reached * (policy_preset_values + ONE) / TWO


@wp.func
def step(physics: Any, state: State, env: int, actions: wp.array2d[wp.float64], view: View):
    reward = standing(physics, state, env)
    if state.move_speed > ZERO:
        reward *= moving(physics, state, env)
    if state.fetch:
        reward *= fetching(physics, state, env)
    return wp.float32(reward), wp.bool(False)


# ---- observations -------------------------------------------------------------------------------


@wp.func
def point_velocity(physics: Any, env: int, body: int, point: wp.vec3d) -> wp.vec3d:
    """Returns the velocity of a point of a body, in the world frame (m/s)."""
    motion = physics.cvel[env, body]  # relative to the center of mass of the kinematic tree
    turning = wp.vec3d(motion[0], motion[1], motion[2])
    going = wp.vec3d(motion[3], motion[4], motion[5])
    return going + wp.cross(turning, point - physics.subtree_com[env, int(physics.body_rootid[env, body])])


@wp.func
def see_ball(physics: Any, state: State, env: int, view: View):
    """Writes the observations of the ball and the target, in the head's frame."""
    inward = wp.transpose(physics.site_xmat[env, state.head_site])
    head = physics.site_xpos[env, state.head_site]
    ball = physics.geom_xpos[env, state.ball]
    ball_velocity = point_velocity(physics, env, state.ball_body, ball)
    set_row(view.obs_ball_state, env, 0, inward * (ball - head))
    set_row(view.obs_ball_state, env, 3, inward * (ball_velocity - point_velocity(physics, env, state.head_body, head)))
    set_row(view.obs_target_position, env, 0, inward * (physics.geom_xpos[env, state.target] - head))


@wp.func
def observe(physics: Any, state: State, env: int, view: View):
    copy_row(physics.qpos, env, ROOT_QPOS, HINGES, view.obs_joint_angles, 0)
    copy_row(physics.qvel, env, ROOT_QVEL, HINGES, view.obs_joint_velocites, 0)
    view.obs_torso_pelvis_height[env, 0] = physics.xpos[env, state.torso][2]
    view.obs_torso_pelvis_height[env, 1] = physics.xpos[env, state.pelvis][2]
    for i in range(3):
        view.obs_z_projection[env, i] = physics.xmat[env, state.skull][2, i]
        view.obs_z_projection[env, 3 + i] = physics.xmat[env, state.torso][2, i]
        view.obs_z_projection[env, 6 + i] = physics.xmat[env, state.pelvis][2, i]
    set_row(view.obs_torso_com_velocity, env, 0, torso_velocity(physics, state, env))
    copy_row(physics.sensordata, env, state.inertial, INERTIAL, view.obs_inertial_sensors, 0)
    copy_row(physics.sensordata, env, state.feet, FEET, view.obs_foot_forces, 0)
    copy_row(physics.sensordata, env, state.touch, TOUCH, view.obs_touch_sensors, 0)
    copy_row(physics.act, env, 0, state.nu, view.obs_actuator_state, 0)
    if state.fetch:
        see_ball(physics, state, env, view)


# ---- tasks --------------------------------------------------------------------------------------

SIZES = {
    "joint_angles": 73,
    "joint_velocites": 73,  # dm_control's spelling
    "torso_pelvis_height": 2,
    "z_projection": 9,
    "torso_com_velocity": 3,
    "inertial_sensors": 9,
    "foot_forces": 12,
    "touch_sensors": 4,
    "actuator_state": 38,
}
FETCH_SIZES = {"ball_state": 6, "target_position": 3}
READS = (
    "qpos",
    "qvel",
    "act",
    "xpos",
    "xmat",
    "site_xpos",
    "site_xmat",
    "geom_xpos",
    "cvel",
    "subtree_com",
    "sensordata",
    "body_rootid",
    "actuator_ctrlrange",
)


def own_heights(model: Any) -> tuple[float, float]:
    """Returns the heights of the torso and the pelvis in the model's initial pose (m)."""
    mujoco = library()
    data = mujoco.MjData(model)
    mujoco.mj_kinematics(model, data)
    return data.body("torso").xpos[2], data.body("pelvis").xpos[2]


def fetch_constants(model: Any) -> dict[str, float | int]:
    """Returns the constants of the task to fetch."""
    head, ball, target = model.site("head"), model.geom("ball"), model.geom("target")
    return {
        "arena_size": model.geom("floor").size[0],
        "bite_radius": model.site("upper_bite").size[0],
        "target_radius": target.size[0],
        "head_site": head.id,
        "head_body": int(head.bodyid[0]),
        "upper_bite": model.site("upper_bite").id,
        "lower_bite": model.site("lower_bite").id,
        "ball": ball.id,
        "ball_body": int(ball.bodyid[0]),
        "target": target.id,
    }


NO_BALL = dict.fromkeys(("arena_size", "bite_radius", "target_radius"), 0.0)
NO_BALL |= dict.fromkeys(("head_site", "head_body", "upper_bite", "lower_bite", "ball", "ball_body", "target"), 0)


def dog(floor_size: int, move_speed: float = 0.0, fetch: bool = False) -> MujocoTask:
    """Returns the task with a floor of this half-size (m) and this target speed (m/s, 0 for none)."""

    def env(options: Any, model: Any) -> MujocoEnv:
        torso_height, pelvis_height = own_heights(model)
        gravity = -model.opt.gravity[2]
        constants = {
            "fetch": fetch,
            "move_speed": move_speed,
            "torso_height": STAND_FRACTION * torso_height,
            "pelvis_height": STAND_FRACTION * pelvis_height,
            "weight": gravity * model.body("torso").subtreemass[0],
            "gravity": gravity,
            **{name: model.body(name).id for name in ("torso", "pelvis", "skull")},
            "velocity": int(model.sensor("torso_linvel").adr[0]),
            "inertial": int(model.sensor("accelerometer").adr[0]),
            "feet": int(model.sensor("foot_L").adr[0]),
            "touch": int(model.sensor("palm_L").adr[0]),
            **(fetch_constants(model) if fetch else NO_BALL),
        }
        shapes = {f"obs_{key}": (size,) for key, size in FETCH_SIZES.items()}
        return suite_env("Dog", READS, State, View, reset, step, observe, constants=constants, shapes=shapes)

    def model(options: Any) -> Any:
        return compiled_model(*suite_module("dog").get_model_and_assets(floor_size, not fetch))

    return suite_task(env, model, {**SIZES, **(FETCH_SIZES if fetch else {})}, frame_skip=3)


# floors are as large as the distance that the robot can move in the 15 s of an episode
TASKS = {
    "stand": dog(floor_size=15),
    "walk": dog(floor_size=15, move_speed=1.0),
    "trot": dog(floor_size=45, move_speed=3.0),
    "run": dog(floor_size=135, move_speed=9.0),
    "fetch": dog(floor_size=10, fetch=True),
}
