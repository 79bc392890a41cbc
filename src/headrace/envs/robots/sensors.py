"""What the sensors of a robot that walks see, with their noise, and what only a critic sees."""

# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false
# pyright: reportCallIssue=false, reportReturnType=false

from typing import Any

import warp as wp

from headrace.envs.robots.walker import ONE, QPOS, QVEL, ZERO, State, View, in_frame, spin, velocity
from headrace.pool.executors.mujoco import Streams, random_bits

F = wp.float64

# of the noise of a sensor, at most: m/s, rad/s, part of gravity, rad, rad/s
LINEAR_NOISE = wp.constant(F(0.1))
GYRO_NOISE = wp.constant(F(0.2))
GRAVITY_NOISE = wp.constant(F(0.05))
ANGLE_NOISE = wp.constant(F(0.03))
SPEED_NOISE = wp.constant(F(1.5))
PIECE = wp.constant(wp.uint64(0xFFFF))  # 16 bits of 64 are random enough for noise
TO_SIGN = wp.constant(F(2.0**-15))


@wp.func
def noisy(state: State, value: F, most: F, bits: wp.uint64, piece: int) -> wp.float32:
    """Returns a value with noise, uniform in ±``most``, from one of the four pieces of 64 random bits."""
    part = (bits >> wp.uint64(16 * piece)) & PIECE
    return wp.float32(value + state.noise * most * ((F(part) + F(0.5)) * TO_SIGN - ONE))


@wp.func
def noise_bits(state: State, env: int, streams: Streams) -> wp.uint64:
    """Returns 64 random bits, if there is noise to be made of them."""
    bits = wp.uint64(0)
    if state.noise > ZERO:
        bits = random_bits(streams, env)
    return bits


@wp.func
def observe_joints(physics: Any, state: State, env: int, at: int, view: View, streams: Streams):
    """Writes what sensors of joints see into an observation: angles from the pose of the start, and speeds."""
    for i in range(state.nu):
        bits = noise_bits(state, env, streams)
        view.obs[env, at + i] = noisy(state, physics.qpos[env, QPOS + i] - state.home[i], ANGLE_NOISE, bits, 0)
        view.obs[env, at + state.nu + i] = noisy(state, physics.qvel[env, QVEL + i], SPEED_NOISE, bits, 1)


@wp.func
def observe_critic(physics: Any, state: State, env: int, view: View):
    """Writes what Playground shows a critic, which sensors do not see, or not without noise."""
    spinning, moving = spin(physics, env, state.imu_body), velocity(physics, env, state.imu_body, state.imu)
    gyro, local = in_frame(physics, env, state.imu, spinning), in_frame(physics, env, state.imu, moving)
    down = in_frame(physics, env, state.imu, wp.vec3d(ZERO, ZERO, -ONE))
    for i in range(3):
        view.obs_critic[env, i] = wp.float32(gyro[i])
        view.obs_critic[env, 3 + i] = wp.float32(physics.sensordata[env, state.accelerometer + i])
        view.obs_critic[env, 6 + i] = wp.float32(down[i])
        view.obs_critic[env, 9 + i] = wp.float32(local[i])
        view.obs_critic[env, 12 + i] = wp.float32(spinning[i])
    view.obs_critic[env, 15] = wp.float32(physics.qpos[env, 2])
    kick_in = wp.where(state.push[0] > ZERO, F(state.until_kick[env]) * state.dt, ZERO)
    view.obs_critic[env, 16] = wp.float32(kick_in)
    for i in range(state.nu):
        view.obs_critic[env, 17 + i] = wp.float32(physics.qpos[env, QPOS + i] - state.home[i])
        view.obs_critic[env, 17 + state.nu + i] = wp.float32(physics.qvel[env, QVEL + i])
        view.obs_critic[env, 17 + 2 * state.nu + i] = wp.float32(physics.actuator_force[env, i])
    at = 17 + 3 * state.nu
    for foot in range(state.num_feet):
        view.obs_critic[env, at + foot] = wp.float32(state.touching[env, foot])
        view.obs_critic[env, at + state.num_feet + foot] = wp.float32(state.air_time[env, foot])
        motion = velocity(physics, env, state.bodies[foot], state.sites[foot])
        for i in range(3):
            view.obs_critic[env, at + 2 * state.num_feet + 3 * foot + i] = wp.float32(motion[i])


@wp.func
def observe(physics: Any, state: State, env: int, view: View, streams: Streams):
    """Writes what sensors of velocity, gyroscope, gravity and joints see, the action before, command and phase."""
    spinning = in_frame(physics, env, state.imu, spin(physics, env, state.imu_body))
    moving = in_frame(physics, env, state.imu, velocity(physics, env, state.imu_body, state.imu))
    down = in_frame(physics, env, state.imu, wp.vec3d(ZERO, ZERO, -ONE))
    for i in range(3):
        bits = noise_bits(state, env, streams)
        view.obs[env, i] = noisy(state, moving[i], LINEAR_NOISE, bits, 0)
        view.obs[env, 3 + i] = noisy(state, spinning[i], GYRO_NOISE, bits, 1)
        view.obs[env, 6 + i] = noisy(state, down[i], GRAVITY_NOISE, bits, 2)
        view.obs[env, state.at_command + i] = wp.float32(state.command[env, i])
        view.command[env, i] = wp.float32(state.command[env, i])
    at = state.at_joints
    observe_joints(physics, state, env, at, view, streams)
    for i in range(state.driven):
        view.obs[env, at + 2 * state.nu + i] = wp.float32(state.last_action[env, i])
    at = at + 2 * state.nu + state.driven
    if state.fast_stride > ZERO:
        for foot in range(state.num_feet):
            view.obs[env, at + foot] = wp.float32(wp.cos(state.phase[env, foot]))
            view.obs[env, at + state.num_feet + foot] = wp.float32(wp.sin(state.phase[env, foot]))


@wp.func
def observe_all(physics: Any, state: State, env: int, view: View, streams: Streams):
    """As `observe`, and for a critic."""
    observe(physics, state, env, view, streams)
    observe_critic(physics, state, env, view)
