"""A Crazyflie that is to hover at the origin, or to follow a curve, by commands to its four rotors 100 times a second.

Observations, rewards, ends and initial states are those of RLtools (rl-tools/rl-tools, rl/zoo/l2f), as is the curve.

Options:
    action_history: number of last actions in an observation, the latest first.
    least_action: the least that a rotor is told, in place of -1. A policy begins in the middle of what it may do, which
        is hovering at 0.22.
    alive: what a step earns that does not end the episode, before costs.
    hardness: how far initial states are spread, as a factor: at 0 all episodes begin at the target, hovering.
    mass_spread: the mass, and the inertia with it, is uniform in 1 ± this times the craft's, drawn for an episode.
    thrust_spread: the same of each rotor's thrust.
    lag_spread: the same of each rotor's time constants.
    force: deviation (N) of a normally distributed force along each axis, constant within an episode.
    torque: deviation (N m) of a torque about the body's x and y, and a hundred times that about z.
    period: s in which the curve is flown once.
    curve_x, curve_y, curve_z: m, the curve's extents: x twice in a period, y and z once.
"""

# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportIndexIssue=false
# pyright: reportOperatorIssue=false, reportCallIssue=false

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
import warp as wp

from headrace.envs.crazyflie import flight
from headrace.envs.crazyflie.drawing import picture
from headrace.envs.crazyflie.flight import Craft, Motion
from headrace.pool.executors.kernels import Field, KernelEnv, KernelTask, Option, Streams, normal, uniform
from headrace.pool.executors.kernels.program import FINITE
from headrace.pool.mirror import Mirror
from headrace.pool.signals import Control, Part, Signals

TWO_PI = wp.constant(2.0 * math.pi)
AHEAD = wp.constant(0.2)  # s between the points of the curve that are observed
POINTS = 3  # of these
BODY = 18  # numbers of an observation before the actions

# of initial states
AT_REST = wp.constant(wp.float64(0.1))  # share that begins at the target, upright and at rest
MOST_APART = wp.constant(wp.float64(0.5))  # m
MOST_TILTED = wp.constant(wp.float64(math.pi / 2))  # rad
MOST_SPEED = wp.constant(wp.float64(1.0))  # m/s
MOST_SPIN = wp.constant(wp.float64(1.0))  # rad/s
MOST_ROTORS = wp.constant(wp.float64(0.5))
LIFTING = wp.constant(0.80615)  # the speed of rotors that carry the craft: its thrust is a quarter of the weight

# beyond which an episode ends, along one axis
FAR = wp.constant(1.0)  # m
FAST = wp.constant(10.0)  # m/s
SPINNING = wp.constant(35.0)  # rad/s

# what a step earns, and costs
SCALE = wp.constant(0.1)
COST_APART = wp.constant(10.0)
COST_TURNED = wp.constant(2.5)
COST_SPEED = wp.constant(0.05)
COST_ACTION = wp.constant(0.1)


@wp.struct
class State:
    """The motions of all craft, and what is particular to them."""

    place: wp.array[wp.vec3]
    attitude: wp.array[wp.vec4]
    velocity: wp.array[wp.vec3]
    spin: wp.array[wp.vec3]
    rotors: wp.array[wp.vec4]
    actions: wp.array2d[wp.vec4]  # the last ones, the latest first
    phase: wp.array[wp.float32]  # of the target's way along the curve, [0, 1)
    mass: wp.array[wp.float32]  # factors
    thrust: wp.array[wp.vec4]
    lag: wp.array[wp.vec4]
    push: wp.array[wp.vec3]  # N
    twist: wp.array[wp.vec3]  # N m
    hard: wp.array[wp.float64]  # the option hardness, a table, as it may change during a run
    action_history: int
    least_action: wp.float64
    alive: wp.float64
    mass_spread: wp.float64
    thrust_spread: wp.float64
    lag_spread: wp.float64
    force: wp.float64
    torque: wp.float64
    points: int  # of the curve that are observed: 0 if the target is the origin
    period: wp.float64
    curve_x: wp.float64
    curve_y: wp.float64
    curve_z: wp.float64


@wp.struct
class View:
    """The observation, and the info: m from the target."""

    obs: wp.array2d[wp.float32]
    distance: wp.array[wp.float32]


@wp.func
def target(state: State, phase: float) -> wp.vec3:
    """Returns the place where the craft is to be."""
    if state.points == 0:
        return wp.vec3()
    angle = TWO_PI * phase
    return wp.vec3(
        wp.float32(state.curve_x) * wp.sin(2.0 * angle),
        wp.float32(state.curve_y) * wp.sin(angle),
        wp.float32(state.curve_z) * wp.sin(angle),
    )


@wp.func
def target_velocity(state: State, phase: float) -> wp.vec3:
    if state.points == 0:
        return wp.vec3()
    angle = TWO_PI * phase
    rate = TWO_PI / wp.float32(state.period)
    return wp.vec3(
        2.0 * rate * wp.float32(state.curve_x) * wp.cos(2.0 * angle),
        rate * wp.float32(state.curve_y) * wp.cos(angle),
        rate * wp.float32(state.curve_z) * wp.cos(angle),
    )


@wp.func
def anywhere(streams: Streams, env: int, within: wp.float64) -> wp.vec3:
    x = wp.float32(uniform(streams, env, -within, within))
    y = wp.float32(uniform(streams, env, -within, within))
    z = wp.float32(uniform(streams, env, -within, within))
    return wp.vec3(x, y, z)


@wp.func
def any_attitude(streams: Streams, env: int, within: wp.float64) -> wp.vec4:
    """Returns a rotation about a uniformly distributed axis, by an angle that is uniform in [0, within) rad."""
    around = wp.float32(uniform(streams, env, wp.float64(0.0), wp.float64(2.0 * math.pi)))
    z = wp.float32(uniform(streams, env, wp.float64(-1.0), wp.float64(1.0)))
    half = 0.5 * wp.float32(uniform(streams, env, wp.float64(0.0), within))
    s = wp.sin(half)
    aside = s * wp.sqrt(1.0 - z * z)
    return wp.vec4(wp.cos(half), aside * wp.cos(around), aside * wp.sin(around), s * z)


@wp.func
def factor(streams: Streams, env: int, spread: wp.float64) -> float:
    return float(uniform(streams, env, wp.float64(1.0) - spread, wp.float64(1.0) + spread))


@wp.func
def disturbance(streams: Streams, env: int, deviation: wp.float64) -> float:
    return float(normal(streams, env, wp.float64(0.0), deviation))


@wp.func
def draw_craft(state: State, env: int, streams: Streams):
    """Draws what is particular to a craft."""
    state.mass[env] = factor(streams, env, state.mass_spread)
    thrust, lag = wp.vec4(), wp.vec4()
    for i in range(4):
        thrust[i] = factor(streams, env, state.thrust_spread)
        lag[i] = factor(streams, env, state.lag_spread)
    state.thrust[env] = thrust
    state.lag[env] = lag
    push, twist = wp.vec3(), wp.vec3()
    for i in range(3):
        push[i] = disturbance(streams, env, state.force)
        twist[i] = disturbance(streams, env, state.torque) * wp.where(i == 2, 0.01, 1.0)
    state.push[env] = push
    state.twist[env] = twist


@wp.func
def reset(state: State, env: int, streams: Streams):
    draw_craft(state, env, streams)
    phase = wp.float32(0.0)
    if state.points > 0:
        phase = wp.float32(uniform(streams, env, wp.float64(0.0), wp.float64(1.0)))
    place, velocity, spin = wp.vec3(), wp.vec3(), wp.vec3()
    attitude = wp.vec4(1.0, 0.0, 0.0, 0.0)
    hardness = state.hard[0]
    if uniform(streams, env, wp.float64(0.0), wp.float64(1.0)) >= AT_REST:
        place = anywhere(streams, env, MOST_APART * hardness)
        attitude = any_attitude(streams, env, MOST_TILTED * hardness)
        velocity = anywhere(streams, env, MOST_SPEED * hardness)
        spin = anywhere(streams, env, MOST_SPIN * hardness)
    rotors = wp.vec4()
    for i in range(4):
        slow = wp.float32(hardness * uniform(streams, env, wp.float64(0.0), MOST_ROTORS))
        rotors[i] = slow + (1.0 - wp.float32(hardness)) * LIFTING
    state.phase[env] = phase
    state.place[env] = target(state, phase) + place
    state.attitude[env] = attitude
    state.velocity[env] = target_velocity(state, phase) + velocity
    state.spin[env] = spin
    state.rotors[env] = rotors
    for i in range(state.action_history):  # those that would have led to these speeds
        state.actions[env, i] = 2.0 * rotors - wp.vec4(1.0)


@wp.func
def motion_of(state: State, env: int) -> Motion:
    motion = Motion()
    motion.place = state.place[env]
    motion.attitude = state.attitude[env]
    motion.velocity = state.velocity[env]
    motion.spin = state.spin[env]
    motion.rotors = state.rotors[env]
    return motion


@wp.func
def craft_of(state: State, env: int) -> Craft:
    craft = Craft()
    craft.mass = state.mass[env]
    craft.thrust = state.thrust[env]
    craft.lag = state.lag[env]
    craft.force = state.push[env]
    craft.torque = state.twist[env]
    return craft


@wp.func
def cost(apart: wp.vec3, speed: wp.vec3, attitude: wp.vec4, command: wp.vec4) -> float:
    """Returns the cost of a motion and a command. Of the attitude, the turn about z counts."""
    turned = 2.0 * wp.acos(1.0 - wp.abs(attitude[3]))
    off = command - wp.vec4(flight.HOVERING)
    moved = COST_APART * wp.length(apart) + COST_SPEED * wp.length(speed)
    return SCALE * (moved + COST_TURNED * turned + COST_ACTION * wp.dot(off, off))


@wp.func
def beyond(v: wp.vec3, most: float) -> bool:
    return wp.max(wp.abs(v)) > most


@wp.func
def step(state: State, env: int, actions: wp.array2d[wp.float32], row: int, streams: Streams):
    action = wp.vec4(actions[row, 0], actions[row, 1], actions[row, 2], actions[row, 3])
    for i in range(4):
        action[i] = wp.clamp(action[i], wp.float32(state.least_action), 1.0)
    for i in range(state.action_history - 1, 0, -1):
        state.actions[env, i] = state.actions[env, i - 1]
    state.actions[env, 0] = action

    before = motion_of(state, env)
    phase = state.phase[env]
    command = 0.5 * action + wp.vec4(0.5)
    apart = before.place - target(state, phase)
    spent = cost(apart, before.velocity - target_velocity(state, phase), before.attitude, command)

    now = flight.fly(craft_of(state, env), before, command)
    if state.points > 0:
        phase = phase + flight.DT / wp.float32(state.period)
        phase = phase - wp.floor(phase)
        state.phase[env] = phase
    state.place[env] = now.place
    state.attitude[env] = now.attitude
    state.velocity[env] = now.velocity
    state.spin[env] = now.spin
    state.rotors[env] = now.rotors
    lost = beyond(now.place - target(state, phase), FAR) or beyond(now.spin, SPINNING)
    lost = lost or beyond(now.velocity - target_velocity(state, phase), FAST)
    return wp.where(lost, 0.0, wp.float32(state.alive) - spent), lost


@wp.func
def put(view: View, row: int, column: int, v: wp.vec3):
    for i in range(3):
        view.obs[row, column + i] = v[i]


@wp.func
def observe(state: State, env: int, view: View, row: int):
    phase = state.phase[env]
    place = state.place[env]
    apart = place - target(state, phase)
    turn = flight.rotation(state.attitude[env])
    put(view, row, 0, apart)
    for i in range(3):
        put(view, row, 3 + 3 * i, turn[i])
    put(view, row, 12, state.velocity[env] - target_velocity(state, phase))
    put(view, row, 15, state.spin[env])
    column = int(BODY)
    for i in range(state.action_history):
        action = state.actions[env, i]
        for j in range(4):
            view.obs[row, column + j] = action[j]
        column += 4
    for i in range(state.points):
        then = phase + float(i + 1) * AHEAD / wp.float32(state.period)
        put(view, row, column, place - target(state, then))
        column += 3
    view.distance[row] = wp.length(apart)


def render(state: Mapping[str, Any]) -> np.ndarray:
    """Returns a frame, uint8[480, 480, 3]."""
    extents = [float(state[f"curve_{axis}"]) for axis in "xyz"] if state["points"] else None
    return picture(state["place"], state["attitude"], state["rotors"], extents, float(state["phase"]))


def observation(points: int) -> Any:
    """Returns a function from options to the space, with so many points of the curve."""
    return lambda options: gym.spaces.Box(
        -np.inf, np.inf, (BODY + 4 * options["action_history"] + 3 * points,), np.float32
    )


def signals(points: int, options: Mapping[str, Any]) -> Signals:
    """Returns what the numbers are, with so many points of the curve in an observation."""
    last = range(1, options["action_history"] + 1)
    return Signals(
        (
            Part("place relative to the target", (3,), "m", AXES),
            Part("rotation matrix from the body's frame to the world's", (3, 3)),
            Part("velocity relative to the target's", (3,), "m/s", AXES),
            Part("angular velocity in the body's frame", (3,), "rad/s", AXES),
            *(Part(f"action {i} steps ago" if i > 1 else "last action", (4,), "", ROTORS) for i in last),
            *(
                Part(f"place relative to the target in {i * AHEAD:.1f} s", (3,), "m", AXES)
                for i in range(1, points + 1)
            ),
        ),
        tuple(Control(f"speed of the rotor {rotor}, of the greatest", "", 0.5, 0.5) for rotor in ROTORS),
        rate_hz=1 / flight.DT,
    )


def mirror(points: int, options: Mapping[str, Any]) -> Mirror | None:
    """Returns how observations and actions look after half a turn about z; beside a curve, in a mirror at y = 0.

    The figure of eight is its own image in that mirror, and is flown the other way round after half a turn; None for a
    curve with a height, which neither shows as it is.
    """
    if options.get("curve_z"):
        return None
    axes, spin, rotors = ((1, -1, 1), (-1, 1, -1), (3, 2, 1, 0)) if points else ((-1, -1, 1), (-1, -1, 1), (2, 3, 0, 1))
    history = options["action_history"]
    indices = [*range(BODY), *(BODY + 4 * i + rotor for i in range(history) for rotor in rotors)]
    signs = [*axes, *(a * b for a in axes for b in axes), *axes, *spin, *(1,) * 4 * history, *axes * points]
    return Mirror(([*indices, *range(len(indices), len(signs))], signs), (rotors, (1,) * 4))


AXES, ROTORS = ("x", "y", "z"), ("right in front", "right behind", "left behind", "left in front")
SPREAD = Option(0.0, 0.0, 0.5)
CRAFT = {
    "action_history": Option(1, 1, 100),
    "least_action": Option(-1.0, -1.0, 0.9),
    "hardness": Option(1.0, 0.0, 1.0),
    "alive": Option(1.0, 0.0, 10.0),
    **dict.fromkeys(("mass_spread", "thrust_spread", "lag_spread"), SPREAD),
    "force": Option(0.0, 0.0, 1.0),
    "torque": Option(0.0, 0.0, 1.0),
}
CURVE = {
    "period": Option(6.5, 1.0, 1000.0),
    **{f"curve_{axis}": Option(extent, 0.0, 10.0) for axis, extent in (("x", 0.5), ("y", 1.0), ("z", 0.0))},
}
NO_CURVE = {"period": 1.0, "curve_x": 0.0, "curve_y": 0.0, "curve_z": 0.0}
BOUNDS = {
    **dict.fromkeys(("place", "velocity", "spin", "actions", "push", "twist"), FINITE),
    **dict.fromkeys(("attitude",), (-1.01, 1.01)),
    **dict.fromkeys(("rotors", "phase"), (0, 1)),
    **dict.fromkeys(("mass", "thrust", "lag"), (0.49, 1.51)),
}


def _task(name: str, points: int, constants: Mapping[str, float], options: Mapping[str, Any]) -> KernelTask:
    env = KernelEnv(
        name,
        State,
        View,
        reset,
        step,
        observe,
        render,
        shapes={"actions": ("action_history",)},
        constants={"points": points, **constants},
        bounds=BOUNDS,
    )
    return KernelTask(
        lambda options: replace(env, tables={"hard": np.array([options["hardness"]])}),
        observation(points),
        lambda options: gym.spaces.Box(options["least_action"], 1.0, (4,), np.float32),
        info=(Field("distance", np.dtype(np.float32)),),
        options={**CRAFT, **options},
        max_episode_steps=500,
        render_fps=100,
        signals=partial(signals, points),
        mirror=partial(mirror, points),
    )


TASKS = {
    "Crazyflie-v0": _task("Crazyflie", 0, NO_CURVE, {}),
    "CrazyflieCurve-v0": _task("CrazyflieCurve", POINTS, {}, CURVE),
}
