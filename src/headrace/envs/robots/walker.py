"""Robots that walk by commands of velocity: what all of them have, whatever their number of legs.

Most tasks are those of MuJoCo Playground (Zakka et al. 2025, https://arxiv.org/abs/2502.08844): their observations,
rewards and ends of episodes are equal step by step. As there, an observation and a reward are of the beginning of the
last substep, except for joints, and the action and the command in an observation are those before the newest.
The reward is a function of a robot's kind, in `quadruped`, `g1` and `t1`; its numbers are a `robot.Robot`.
Tasks of other publishers have functions of their own in their modules, and share what is equal.
"""

# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false
# pyright: reportCallIssue=false, reportReturnType=false

import math
from typing import Any

import warp as wp

from headrace.pool.executors.mujoco import Streams, uniform

F = wp.float64
ZERO = wp.constant(F(0.0))
ONE = wp.constant(F(1.0))
TURN = wp.constant(F(math.tau))
HALF_TURN = wp.constant(F(math.pi))
SIGMA = wp.constant(F(0.25))  # of errors of tracking, m²/s² or rad²/s²
STANDING = wp.constant(F(0.01))  # the greatest command to stand still
LINEAR, TURNING = wp.constant(0), wp.constant(1)  # the first terms of all robots' rewards
ROOT = wp.constant(1)  # the body of the free joint
QPOS = wp.constant(7)  # where joints begin
QVEL = wp.constant(6)


@wp.struct
class State:
    """What an episode remembers (arrays by environment), tables that are the same for all, and numbers."""

    command: wp.array2d[F]  # m/s, m/s, rad/s
    heading: wp.array[F]  # to turn to, where a task has that, rad
    steps: wp.array[wp.int32]  # since the episode began
    until_command: wp.array[wp.int32]  # steps
    until_kick: wp.array[wp.int32]
    kick_every: wp.array[wp.int32]  # steps, if kicks have a direction
    action: wp.array2d[F]  # of this step
    last_action: wp.array2d[F]
    air_time: wp.array2d[F]  # of each foot, s
    touching: wp.array2d[F]  # 1 or 0
    peak: wp.array2d[F]  # the greatest height since the foot left the ground, m
    phase: wp.array2d[F]  # of each leg's stride, rad
    stride: wp.array[F]  # rad in a step
    gait: wp.array[F]  # phase of each leg at the start, rad
    home: wp.array[F]
    low: wp.array[F]
    high: wp.array[F]
    weights: wp.array[F]
    scales: wp.array[F]  # of each term, then of a fall beyond its term
    num_terms: int
    limits: wp.array[F]
    least: wp.array[F]  # command, as `limits` is the greatest
    kept: wp.array[F]
    push: wp.array[F]  # one number, which may change within an episode, as `scales` may, m/s
    sites: wp.array[wp.int32]
    bodies: wp.array[wp.int32]
    sole: wp.array2d[F]
    legs: wp.array[wp.int32]
    geoms: wp.array[wp.int32]  # boxes, then capsules
    sizes: wp.array2d[F]
    forces: wp.array[wp.int32]  # in sensordata
    accelerometer: int  # in sensordata
    num_feet: int
    num_points: int
    nu: int
    driven: int  # servos that actions move: the first ones
    imu: int
    imu_body: int
    torso: int
    torso_body: int
    at_command: int
    at_joints: int
    dt: F
    radius: F
    foot_height: F
    changed: F
    idle: F
    period: F
    regular: bool
    stands: bool
    kick_soon: F
    kick_late: F
    kick_least: F  # m/s, in any direction; or 0 for kicks of both axes
    spread: F
    thrown: F
    slow_stride: F
    fast_stride: F
    upright: F
    action_scale: F
    noise: F
    speed: F
    hold: bool
    alive: F
    clipped: bool
    height: F


@wp.struct
class View:
    """The outputs of all environments."""

    obs: wp.array2d[wp.float32]
    obs_critic: wp.array2d[wp.float32]
    reward_terms: wp.array2d[wp.float32]
    tracking: wp.array[wp.float32]
    command: wp.array2d[wp.float32]
    fell: wp.array[wp.bool]


# ---- motion ---------------------------------------------------------------------------------------------------------


@wp.func
def spin(physics: Any, env: int, body: int) -> wp.vec3d:
    """Returns the angular velocity of a body in the world's frame (rad/s)."""
    motion = physics.cvel[env, body]
    return wp.vec3d(motion[0], motion[1], motion[2])


@wp.func
def velocity(physics: Any, env: int, body: int, site: int) -> wp.vec3d:
    """Returns the velocity of a site of a body in the world's frame (m/s)."""
    motion = physics.cvel[env, body]
    arm = physics.site_xpos[env, site] - physics.subtree_com[env, ROOT]
    return wp.vec3d(motion[3], motion[4], motion[5]) + wp.cross(spin(physics, env, body), arm)


@wp.func
def in_frame(physics: Any, env: int, site: int, vector: wp.vec3d) -> wp.vec3d:
    """Returns a vector of the world in the frame of a site."""
    return wp.transpose(physics.site_xmat[env, site]) * vector


@wp.func
def up(physics: Any, env: int, site: int) -> wp.vec3d:
    """Returns the third axis of a site's frame in the world."""
    frame = physics.site_xmat[env, site]
    return wp.vec3d(frame[0, 2], frame[1, 2], frame[2, 2])


@wp.func
def touches(physics: Any, state: State, env: int, foot: int) -> F:
    """Returns 1 if a foot is on the ground, else 0."""
    site = state.sites[foot]
    frame = physics.site_xmat[env, site]
    least = F(math.inf)
    for i in range(state.num_points):
        point = wp.vec3d(state.sole[i, 0], state.sole[i, 1], state.sole[i, 2])
        least = wp.min(least, wp.dot(wp.vec3d(frame[2, 0], frame[2, 1], frame[2, 2]), point))
    return wp.where(physics.site_xpos[env, site][2] + least <= state.radius, ONE, ZERO)


@wp.func
def feels(physics: Any, state: State, env: int, foot: int) -> F:
    """Returns 1 if the sensor of a foot's contact with the ground has found one, else 0."""
    return wp.where(physics.sensordata[env, state.forces[foot]] > ZERO, ONE, ZERO)


@wp.func
def landed(physics: Any, state: State, env: int, foot: int, on_ground: F) -> bool:
    """Advances a foot's time in the air and greatest height; returns whether it has just come down."""
    first = state.air_time[env, foot] > ZERO and wp.max(on_ground, state.touching[env, foot]) > ZERO
    state.air_time[env, foot] = state.air_time[env, foot] + state.dt
    state.peak[env, foot] = wp.max(state.peak[env, foot], physics.site_xpos[env, state.sites[foot]][2])
    state.touching[env, foot] = on_ground
    return first


@wp.func
def begin_stance(state: State, env: int, foot: int):
    """Begins a foot's time in the air and greatest height anew if it is on the ground."""
    state.air_time[env, foot] = state.air_time[env, foot] * (ONE - state.touching[env, foot])
    state.peak[env, foot] = state.peak[env, foot] * (ONE - state.touching[env, foot])


# ---- commands and kicks ---------------------------------------------------------------------------------------------


@wp.func
def chance(env: int, share: F, streams: Streams) -> bool:
    """Returns whether something of this probability happens."""
    return uniform(streams, env, ZERO, ONE) < share


@wp.func
def waiting(state: State, env: int, streams: Streams) -> int:
    """Returns the number of steps until the next command."""
    seconds = state.period
    if not state.regular:
        seconds = -seconds * wp.log(ONE - uniform(streams, env, ZERO, ONE))
    return int(wp.round(seconds / state.dt))


@wp.func
def draw_command(state: State, env: int, share: F, sparse: bool, streams: Streams):
    """Draws a new command, of which each part takes the place of the old with the probability ``share``."""
    for i in range(3):
        new = state.speed * uniform(streams, env, state.least[i], state.limits[i])
        if sparse and not chance(env, state.kept[i], streams):
            new = ZERO
        if share == ONE or chance(env, share, streams):
            state.command[env, i] = new
    if state.idle > ZERO and chance(env, state.idle, streams):
        for i in range(3):
            state.command[env, i] = ZERO
    state.until_command[env] = waiting(state, env, streams)


@wp.func
def is_commanded(state: State, env: int, least: F) -> bool:
    """Returns whether the command is more than ``least``."""
    return wp.length(wp.vec3d(state.command[env, 0], state.command[env, 1], state.command[env, 2])) > least


@wp.func
def kick(physics: Any, state: State, env: int, streams: Streams):
    """Changes the horizontal velocity: along both axes now and then, or in one direction at equal times."""
    state.until_kick[env] = state.until_kick[env] - 1
    if state.until_kick[env] <= 0:
        if state.kick_least > ZERO:
            angle = uniform(streams, env, ZERO, TURN)
            size = uniform(streams, env, wp.min(state.kick_least, state.push[0]), state.push[0])
            physics.qvel[env, 0] = physics.qvel[env, 0] + size * wp.cos(angle)
            physics.qvel[env, 1] = physics.qvel[env, 1] + size * wp.sin(angle)
            state.until_kick[env] = state.kick_every[env]
        else:
            for i in range(2):
                physics.qvel[env, i] = physics.qvel[env, i] + uniform(streams, env, -state.push[0], state.push[0])
            state.until_kick[env] = int(uniform(streams, env, state.kick_soon, state.kick_late) / state.dt)


@wp.func
def advance_phase(state: State, env: int):
    """Advances the phases of the legs' strides by a step, within ±π; or holds them while the robot is to stand."""
    for foot in range(state.num_feet):
        phase = state.phase[env, foot] + state.stride[env]
        state.phase[env, foot] = wp.where(phase > HALF_TURN, phase - TURN, phase)
        if state.stands and not is_commanded(state, env, STANDING):
            state.phase[env, foot] = HALF_TURN


# ---- episodes -------------------------------------------------------------------------------------------------------


@wp.func
def reset(physics: Any, state: State, env: int, streams: Streams):
    """Begins an episode: anywhere, turned to anywhere, thrown with some velocity."""
    half = uniform(streams, env, ZERO, TURN) * F(0.5)
    physics.qpos[env, 3] = wp.cos(half)
    physics.qpos[env, 6] = wp.sin(half)
    for i in range(2):
        physics.qpos[env, i] = uniform(streams, env, F(-0.5), F(0.5))
    for i in range(QVEL):
        physics.qvel[env, i] = uniform(streams, env, -state.thrown, state.thrown)
    for i in range(state.driven):
        state.action[env, i] = ZERO
        state.last_action[env, i] = ZERO
    for i in range(state.nu):
        if state.spread > ZERO:
            part = ONE + uniform(streams, env, -state.spread, state.spread)
            physics.qpos[env, QPOS + i] = physics.qpos[env, QPOS + i] * part
    for foot in range(state.num_feet):
        state.air_time[env, foot] = ZERO
        state.touching[env, foot] = ZERO
        state.peak[env, foot] = ZERO
        state.phase[env, foot] = state.gait[foot]
    state.stride[env] = TURN * state.dt * uniform(streams, env, state.slow_stride, state.fast_stride)
    state.until_kick[env] = int(uniform(streams, env, state.kick_soon, state.kick_late) / state.dt)
    state.kick_every[env] = state.until_kick[env]
    for i in range(3):
        state.command[env, i] = ZERO
    state.steps[env] = 0
    state.until_command[env] = 0
    if not state.hold:
        draw_command(state, env, ONE, False, streams)


@wp.func
def act(physics: Any, state: State, env: int, actions: wp.array2d[F], streams: Streams):
    """Ends the last step, with a new command where it is time, then kicks and gives the servos their targets."""
    if state.steps[env] > 0:
        advance_phase(state, env)
        if not state.hold:
            state.until_command[env] = state.until_command[env] - 1
            if state.until_command[env] <= 0:
                draw_command(state, env, state.changed, True, streams)
    state.steps[env] = state.steps[env] + 1
    if state.push[0] > ZERO:
        kick(physics, state, env, streams)
    aim(physics, state, env, actions)


@wp.func
def aim(physics: Any, state: State, env: int, actions: wp.array2d[F]):
    """Gives the servos the targets of an action, which becomes the newest; those that it does not move keep theirs."""
    for i in range(state.driven):
        state.last_action[env, i] = state.action[env, i]
        state.action[env, i] = actions[env, i]
        physics.ctrl[env, i] = state.home[i] + state.action_scale * actions[env, i]
    for i in range(state.driven, state.nu):
        physics.ctrl[env, i] = state.home[i]


@wp.func
def term(state: State, env: int, i: int, value: F, view: View) -> F:
    """Shows the value of a term of the reward, and returns its part of the reward."""
    view.reward_terms[env, i] = wp.float32(value)
    return value * state.scales[i]


@wp.func
def follow(state: State, env: int, moving: wp.vec3d, spinning: wp.vec3d, view: View) -> wp.vec2d:
    """Returns how well a velocity and a turning are what was commanded, 0 to 1 each, and shows it as one number."""
    forwards, sideways = state.command[env, 0] - moving[0], state.command[env, 1] - moving[1]
    off = state.command[env, 2] - spinning[2]
    linear = wp.exp(-(forwards * forwards + sideways * sideways) / SIGMA)
    turning = wp.exp(-off * off / SIGMA)
    view.tracking[env] = wp.float32((linear + F(0.5) * turning) / F(1.5))
    return wp.vec2d(linear, turning)


@wp.func
def tracking_terms(physics: Any, state: State, env: int, view: View) -> F:
    """Returns the rewards for the velocity and for turning, and shows how well they are what was commanded, 0 to 1."""
    moving = in_frame(physics, env, state.imu, velocity(physics, env, state.imu_body, state.imu))
    spinning = in_frame(physics, env, state.imu, spin(physics, env, state.imu_body))
    tracked = follow(state, env, moving, spinning, view)
    return term(state, env, LINEAR, tracked[0], view) + term(state, env, TURNING, tracked[1], view)


@wp.func
def is_down(physics: Any, state: State, env: int, upright: F) -> bool:
    """Returns whether the torso is too low or leans too far: ``upright`` is the cosine of how far it leans."""
    too_low = state.height > ZERO and physics.qpos[env, 2] < state.height
    return too_low or upright < state.upright


@wp.func
def has_fallen(physics: Any, state: State, env: int) -> bool:
    """Returns whether the torso is too low or leans too far."""
    return is_down(physics, state, env, up(physics, env, state.torso)[2])


@wp.func
def ending(state: State, env: int, total: F, fell: bool, falling: int, view: View):
    """Shows whether the robot fell; returns the reward of a step, and whether the episode ends.

    The reward is of ``total``, the sum of all terms but that of falling, whose number is ``falling``, and of what a
    fall costs beyond its term.
    """
    view.fell[env] = fell
    reward = (total + term(state, env, falling, wp.where(fell, ONE, ZERO), view) + state.alive) * state.dt
    if state.clipped:
        reward = wp.max(reward, ZERO)
    if fell:
        reward = reward + state.scales[state.num_terms] * state.dt
    return wp.float32(reward), fell
