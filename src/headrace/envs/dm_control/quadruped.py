"""Quadruped: a four-legged robot that is rewarded for walking, running, escaping from a bowl or fetching a ball."""

# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false
# pyright: reportCallIssue=false

import math
from typing import Any

import warp as wp

from headrace.envs.dm_control import terrain
from headrace.envs.dm_control.common import (
    INFINITY,
    PI,
    arsinh,
    compiled_model,
    copy_row,
    excess,
    linear,
    random_rotation,
    set_quaternion,
    set_row,
    standard_normal,
    suite_env,
    suite_module,
    suite_task,
)
from headrace.pool.executors.kernels.program import FINITE
from headrace.pool.executors.mujoco import MujocoEnv, MujocoTask, Streams, uniform

ZERO = wp.constant(wp.float64(0.0))
ONE = wp.constant(wp.float64(1.0))
HALF = wp.constant(wp.float64(0.5))
RISE = wp.constant(wp.float64(0.01))  # m
BALL_HEIGHT = wp.constant(wp.float64(2.0))  # m
BALL_SPEED = wp.constant(wp.float64(5.0))  # m/s

MOVE = wp.constant(0)
ESCAPE = wp.constant(1)
FETCH = wp.constant(2)

# The phases of initialization. An episode begins at the lowest height, in steps of `RISE`, at which the robot has no
# contacts: each call of `reset` tries the next height, and one more call adds the ball, if there is one.
BEGIN = wp.constant(0)
RISING = wp.constant(1)
CLEAR = wp.constant(2)

# addresses in MuJoCo's arrays, where the quadruped comes first
ROOT_QPOS = wp.constant(7)
ROOT_QVEL = wp.constant(6)
BALL_QPOS = wp.constant(23)
BALL_QVEL = wp.constant(22)
HINGES = wp.constant(16)
IMU = wp.constant(6)  # numbers of the sensors: three each of accelerometer and gyroscope
FORCE_TORQUE = wp.constant(24)
RANGEFINDERS = wp.constant(20)


@wp.struct
class State:
    """The state of the initialization, and the constants.

    ``phase`` is the phase, ``place`` the torso's position (m), and ``turn`` its quaternion; ``bumps``, ``profile``,
    ``spline`` and ``bowl`` are those of `terrain`. ``task`` is `MOVE`, `ESCAPE` or `FETCH`, ``desired_speed`` in m/s,
    and ``upright`` the least cosine of an upright torso's angle. Sizes and radii are in m.
    """

    phase: wp.array[wp.int32]
    place: wp.array2d[wp.float64]
    turn: wp.array2d[wp.float64]
    bumps: wp.array3d[wp.float64]
    profile: wp.array2d[wp.float64]
    spline: wp.array2d[wp.float64]
    bowl: wp.array2d[wp.float64]
    task: int
    desired_speed: wp.float64
    upright: wp.float64
    terrain_size: wp.float64
    arena_size: wp.float64
    reach: wp.float64
    target_radius: wp.float64
    torso: int
    workspace: int
    ball: int
    target: int
    velocimeter: int
    imu: int
    force_torque: int
    rangefinder: int
    na: int


@wp.struct
class View:
    """The observation, which includes origin and rangefinders to escape, and ball and target to fetch."""

    obs_egocentric_state: wp.array2d[wp.float64]
    obs_torso_velocity: wp.array2d[wp.float64]
    obs_torso_upright: wp.array[wp.float64]
    obs_imu: wp.array2d[wp.float64]
    obs_force_torque: wp.array2d[wp.float64]
    obs_origin: wp.array2d[wp.float64]
    obs_rangefinder: wp.array2d[wp.float64]
    obs_ball_state: wp.array2d[wp.float64]
    obs_target_position: wp.array2d[wp.float64]


# ---- initial states -----------------------------------------------------------------------------


@wp.func
def anywhere(state: State, env: int, streams: Streams) -> wp.float64:
    """Returns a random coordinate within the arena (m)."""
    side = wp.float64(0.9) * state.arena_size
    return uniform(streams, env, -side, side)


@wp.func
def draw_start(physics: Any, state: State, env: int, streams: Streams):
    """Draws the torso's initial pose and, to escape, the terrain."""
    for i in range(3):
        state.place[env, i] = ZERO
    if state.task == FETCH:
        half = uniform(streams, env, ZERO, PI)
        set_quaternion(state.turn, env, 0, wp.vec4d(wp.cos(half), ZERO, ZERO, wp.sin(half)))
        for i in range(2):
            state.place[env, i] = anywhere(state, env, streams)
    else:
        if state.task == ESCAPE:
            terrain.draw_terrain(physics, state, env, streams)
        set_quaternion(state.turn, env, 0, random_rotation(streams, env))
    state.phase[env] = RISING


@wp.func
def throw_ball(physics: Any, state: State, env: int, streams: Streams):
    """Drops the ball from a random position with a random horizontal velocity."""
    for i in range(2):
        physics.qpos[env, BALL_QPOS + i] = anywhere(state, env, streams)
        physics.qvel[env, BALL_QVEL + i] = BALL_SPEED * standard_normal(streams, env)
    physics.qpos[env, BALL_QPOS + 2] = BALL_HEIGHT


@wp.func
def reset(physics: Any, state: State, env: int, streams: Streams):
    if state.phase[env] == BEGIN:
        draw_start(physics, state, env, streams)
    copy_row(state.place, env, 0, 3, physics.qpos, 0)
    copy_row(state.turn, env, 0, 4, physics.qpos, 3)
    if state.phase[env] == CLEAR:
        throw_ball(physics, state, env, streams)


@wp.func
def accept(physics: Any, state: State, env: int):
    if state.phase[env] == RISING:
        if physics.ncon[env] > 0:
            state.place[env, 2] = state.place[env, 2] + RISE
            return False
        if state.task == FETCH:
            state.phase[env] = CLEAR
            return False
    state.phase[env] = BEGIN
    return True


# ---- rewards ------------------------------------------------------------------------------------


@wp.func
def flat_distance(one: wp.vec3d, other: wp.vec3d) -> wp.float64:
    """Returns the horizontal distance of two points (m)."""
    return wp.length(wp.vec2d(other[0] - one[0], other[1] - one[1]))


@wp.func
def fetching(physics: Any, state: State, env: int) -> wp.float64:
    """Returns the reward for reaching the ball and for bringing it to the target."""
    ball = physics.xpos[env, state.ball]
    margin = state.arena_size * wp.sqrt(wp.float64(2.0))
    to_ball = flat_distance(physics.site_xpos[env, state.workspace], ball)
    to_target = flat_distance(physics.site_xpos[env, state.target], ball)
    reached = linear(excess(to_ball, ZERO, state.reach, margin), ZERO)
    fetched = linear(excess(to_target, ZERO, state.target_radius, margin), ZERO)
    return reached * (HALF + HALF * fetched)


@wp.func
def step(physics: Any, state: State, env: int, actions: wp.array2d[wp.float64], view: View):
    up = physics.xmat[env, state.torso][2, 2]
    reward = linear(excess(up, state.upright, INFINITY, ONE + state.upright), ZERO)
    if state.task == MOVE:
        speed = physics.sensordata[env, state.velocimeter]
        reward *= linear(excess(speed, state.desired_speed, INFINITY, state.desired_speed), HALF)
    elif state.task == ESCAPE:
        distance = wp.length(physics.site_xpos[env, state.workspace])
        reward *= linear(excess(distance, state.terrain_size, INFINITY, state.terrain_size), ZERO)
    else:
        reward *= fetching(physics, state, env)
    return wp.float32(reward), wp.bool(False)


# ---- observations -------------------------------------------------------------------------------


@wp.func
def velocity(physics: Any, env: int, first: int) -> wp.vec3d:
    """Returns three numbers of qvel from index ``first`` on."""
    return wp.vec3d(physics.qvel[env, first], physics.qvel[env, first + 1], physics.qvel[env, first + 2])


@wp.func
def observe(physics: Any, state: State, env: int, view: View):
    at = copy_row(physics.qpos, env, ROOT_QPOS, HINGES, view.obs_egocentric_state, 0)
    at = copy_row(physics.qvel, env, ROOT_QVEL, HINGES, view.obs_egocentric_state, at)
    copy_row(physics.act, env, 0, state.na, view.obs_egocentric_state, at)
    copy_row(physics.sensordata, env, state.velocimeter, 3, view.obs_torso_velocity, 0)
    torso = physics.xmat[env, state.torso]
    view.obs_torso_upright[env] = torso[2, 2]
    copy_row(physics.sensordata, env, state.imu, IMU, view.obs_imu, 0)
    for i in range(FORCE_TORQUE):
        view.obs_force_torque[env, i] = arsinh(physics.sensordata[env, state.force_torque + i])
    place = physics.xpos[env, state.torso]
    inward = wp.transpose(torso)
    if state.task == ESCAPE:
        set_row(view.obs_origin, env, 0, -(inward * place))
        for i in range(RANGEFINDERS):
            reading = physics.sensordata[env, state.rangefinder + i]
            view.obs_rangefinder[env, i] = wp.where(reading == -ONE, ONE, wp.tanh(reading))
    if state.task == FETCH:
        moving = velocity(physics, env, BALL_QVEL) - velocity(physics, env, 0)
        set_row(view.obs_ball_state, env, 0, inward * (physics.xpos[env, state.ball] - place))
        set_row(view.obs_ball_state, env, 3, inward * moving)
        set_row(view.obs_ball_state, env, 6, inward * velocity(physics, env, BALL_QVEL + 3))
        set_row(view.obs_target_position, env, 0, inward * (physics.site_xpos[env, state.target] - place))


# ---- tasks --------------------------------------------------------------------------------------

SIZES = {"egocentric_state": 44, "torso_velocity": 3, "torso_upright": None, "imu": 6, "force_torque": 24}
SIZES_OF = {int(MOVE): {}, int(ESCAPE): {"origin": 3, "rangefinder": 20}}
SIZES_OF[int(FETCH)] = {"ball_state": 9, "target_position": 3}
SHAPES = {
    "place": (3,),
    "turn": (4,),
    "bumps": (terrain.BUMPS, terrain.BUMPS),
    "profile": (terrain.BUMPS,),
    **{f"obs_{key}": (size,) for sizes in SIZES_OF.values() for key, size in sizes.items()},
}


def quadruped(task: int, desired_speed: float = 0.0, angle: float = 0.0, **kind: Any) -> MujocoTask:
    """Returns a task of the quadruped.

    Args:
        task: `MOVE`, `ESCAPE` or `FETCH`.
        desired_speed: target speed (m/s) of `MOVE`.
        angle: largest angle of an upright torso (degrees).
        kind: arguments of dm_control's ``make_model``.
    """

    def sensor(model: Any, name: str) -> int:
        return int(model.sensor(name).adr[0])

    def env(options: Any, model: Any) -> MujocoEnv:
        workspace, fetch = model.site("workspace"), task == FETCH
        constants = {
            "task": task,
            "desired_speed": desired_speed,
            "upright": math.cos(math.radians(angle)),
            "terrain_size": model.hfield_size[0, 0],
            "arena_size": model.geom("floor").size[0],
            "reach": workspace.size[0] + model.geom("ball").size[0] if fetch else 0.0,
            "target_radius": model.site("target").size[0] if fetch else 0.0,
            "torso": model.body("torso").id,
            "workspace": workspace.id,
            "ball": model.body("ball").id if fetch else 0,
            "target": model.site("target").id if fetch else 0,
            "velocimeter": sensor(model, "velocimeter"),
            "imu": sensor(model, "imu_accel"),
            "force_torque": sensor(model, "force_toe_front_left"),
            "rangefinder": sensor(model, "rf_00") if task == ESCAPE else 0,
        }
        return suite_env(
            "Quadruped",
            ("qpos", "qvel", "act", "xpos", "xmat", "site_xpos", "sensordata", "ncon", "hfield_data"),
            State,
            View,
            reset,
            step,
            observe,
            accept=accept,
            varies=("hfield_data",) if task == ESCAPE else (),
            constants=constants,
            shapes=SHAPES,
            bounds=dict.fromkeys(("place", "turn", "bumps", "profile"), FINITE) | {"phase": (BEGIN, CLEAR)},
            tables=terrain.tables(model.hfield_nrow[0]),
        )

    def model(options: Any) -> Any:
        module = suite_module("quadruped")
        return compiled_model(module.make_model(**kind), module.common.ASSETS)

    return suite_task(env, model, {**SIZES, **SIZES_OF[int(task)]}, frame_skip=4)


# floors are as large as the distance that the robot can move in the 20 s of an episode
TASKS = {
    "walk": quadruped(MOVE, desired_speed=0.5, floor_size=10),
    "run": quadruped(MOVE, desired_speed=5.0, floor_size=100),
    "escape": quadruped(ESCAPE, angle=20.0, floor_size=40, terrain=True, rangefinders=True),
    "fetch": quadruped(FETCH, walls_and_ball=True),
}
