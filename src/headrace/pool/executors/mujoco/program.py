"""The definition of a MuJoCo task, and the kernel that is generated around it.

MuJoCo computes the physics. The task itself (the start of an episode, reward, termination, observations) consists of
Warp functions over one environment, as in a kernel environment. Worker threads call the compiled functions directly
after `mj_step`, while the data that they read is in the core's cache; no Python code runs in a step.
"""

# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
import warp as wp

from headrace.pool.executors.kernels.program import ROUNDING, Bounds
from headrace.pool.executors.kernels.random import Streams
from headrace.pool.executors.mujoco.declared import Declared, Servo, aim, metrics_of, tally_of, vary
from headrace.pool.executors.mujoco.fields import FORCES
from headrace.pool.executors.mujoco.randomise import Draw

# the order of native/mujoco/physics.hpp
RESET = wp.constant(0)
ACCEPT = wp.constant(1)
ACT = wp.constant(2)
STEP = wp.constant(3)
OBSERVE = wp.constant(4)


@wp.struct
class Outcome:
    """The part of a result that every environment has: arrays [N]."""

    reward: wp.array[wp.float32]
    terminated: wp.array[wp.bool]
    accepted: wp.array[wp.bool]


@dataclass(frozen=True, eq=False)
class MujocoEnv:
    """A task over MuJoCo as Warp functions of one environment, number ``env``.

    ``physics`` has the arrays named in `reads`, with the environment first: ``physics.qpos[env, 0]``,
    ``physics.xpos[env, body]`` (a vector). Numbers are float64. The argument is annotated as `typing.Any`.

    Attributes:
        name: the compiled kernel's name: an identifier.
        reads: MuJoCo's names of the fields of ``mjData`` and ``mjModel`` that the functions read or write.
        state: a `warp.struct`. Its array fields are the task's own state, one row for each environment; its scalar
            fields hold options of the task by name, and constants.
        view: a `warp.struct` of the outputs: ``obs`` (or ``obs_<key>``) and the info fields by name; row ``env``.
            Info that `step` writes is zero after a reset. Fields that are neither observation nor info are ignored.
        reset: ``(physics, state, env, streams)``: begin an episode; physics holds the model's initial state.
        step: ``(physics, state, env, actions, view) → (reward float32, terminated bool)``: the reward and whether the
            episode terminated, after physics has advanced; the action is ``actions[env, i]`` (float64).
        observe: ``(physics, state, env, view)``: write the observation.
        act: ``(physics, state, env, actions)``: turn an action into ``physics.ctrl``; None if they are the same, or
            targets of servos.
        accept: ``(physics, state, env) → bool``: whether an initial state is valid; if not, `reset` is called again,
            with the task's state as the last attempt left it. Positions and contacts are up to date; velocities,
            forces and sensors are not computed yet.
            `step`, `observe` and `act` may draw random numbers as `reset` does: with ``streams`` as a last argument.
        names: info name → field of the view, for info fields whose names differ.
        varies: fields of ``mjModel`` among `reads` with different values for each environment; `reset` may write them.
            What `mujoco.mj_setConst` computes of masses, armature and ``qpos0`` then differs as well.
        fresh: whether positions, velocities and their sensors are those of the new state after a step, as in
            dm_control; otherwise they are those of the beginning of the last substep, as `mj_step` leaves them. Forces
            and accelerations always are.
        start: the name of the model's keyframe from which episodes start: the positions, velocities, activations,
            controls and mocap bodies before `reset`; by default those that MuJoCo gives a new simulation.
        settling_steps: physics steps before an episode begins.
        starts_unactuated: whether the first observation is computed without actuator forces, as in dm_control.
        sensors: the names of those sensors that are read, if they are not all of ``sensordata``. Each is also at its
            name: ``physics.sensor.NAME[env]``, a number, a `wp.vec3d` or a `wp.quatd` (w first), or for other sizes
            ``physics.sensor.NAME[env, i]``.
        forces: whether ``cacc``, ``cfrc_int`` and ``cfrc_ext`` are computed after a step if they are read; otherwise,
            and after a reset, they are zero.
        shapes, constants, tables: as for a `KernelEnv`; ``shapes`` also holds those of ignored fields of the view.
        bounds: state array → (least, greatest) of its valid values, as for a `KernelEnv`.
        actions: the action space, a `gymnasium.spaces.Box` of one dimension, for a task with `act`; or a `Servo`; by
            default the actuators' control ranges.
        metrics: names of info fields whose means over the steps of an episode are info as well, ``episode_<name>``,
            which a training run logs and plots; or such a field → the names of its columns.
        randomise: field of ``mjModel``, or a tuple of fields that share their draws → how it is drawn before `reset`:
            `scale`, `add` or `draw`. The task then has the option ``randomise``; false leaves the model as it is.
    """

    name: str
    reads: tuple[str, ...]
    state: Any
    view: Any
    reset: Callable[..., Any]
    step: Callable[..., Any]
    observe: Callable[..., Any]
    act: Callable[..., Any] | None = None
    accept: Callable[..., Any] | None = None
    names: Mapping[str, str] = field(default_factory=dict)
    varies: tuple[str, ...] = ()
    fresh: bool = False
    sensors: tuple[str, ...] = ()
    start: str = ""
    settling_steps: int = 0
    starts_unactuated: bool = False
    forces: bool = True
    shapes: Mapping[str, tuple[int | str, ...]] = field(default_factory=dict)
    constants: Mapping[str, Any] = field(default_factory=dict)
    tables: Mapping[str, np.ndarray] = field(default_factory=dict)
    bounds: Bounds = field(default_factory=dict)
    actions: gym.spaces.Box | Servo | None = None
    metrics: tuple[str, ...] | Mapping[str, tuple[str, ...]] = ()
    randomise: Mapping[str | tuple[str, ...], Draw] = field(default_factory=dict)


@wp.func
def accept_all(physics: Any, state: Any, env: int):
    return wp.bool(True)


@wp.func
def act_directly(physics: Any, state: Any, env: int, actions: wp.array2d[wp.float64]):
    """Does nothing: native code copies actions to controls."""


def wanted(env: MujocoEnv) -> dict[str, Any]:
    """Returns what a step is to leave beside the state, by the names of native code."""
    forces = env.forces and any(name in env.reads for name in FORCES)
    return {"kinematics": env.fresh, "forces": forces, "sensors": list(env.sensors)}


def called(env: MujocoEnv) -> list[tuple[Any, dict[str, Any]]]:
    """Returns the task's functions, each with the types of its arguments by name."""
    here: dict[str, Any] = {"physics": Any, "state": env.state, "env": int}
    acting, seeing = {"actions": wp.array2d(dtype=wp.float64)}, {"view": env.view}
    drawing = {"streams": Streams}
    functions = [
        (env.reset, here | drawing),
        (env.step, here | acting | seeing | (drawing if draws(env.step) else {})),
        (env.observe, here | seeing | (drawing if draws(env.observe) else {})),
        (env.act, here | acting | (drawing if draws(env.act) else {})),
        (env.accept, here),
    ]
    return [(function, arguments) for function, arguments in functions if function is not None]


def draws(function: Any) -> bool:
    """Returns whether a function's last argument is the environments' streams of random numbers."""
    arguments = [*getattr(function, "input_types", {}).items()]
    return any(name == "streams" or kind is Streams for name, kind in arguments[-1:])


class Parts(NamedTuple):
    """The parts of a task that determine its kernels, and thus the key under which kernels are cached.

    Pools of one task share kernels, since Warp never frees one.
    """

    name: str
    state: Any
    view: Any
    reset: Any
    step: Any
    observe: Any
    act: Any
    accept: Any
    aims: bool
    randomises: bool
    tally: Any

    @classmethod
    def of(cls, env: MujocoEnv) -> "Parts":
        """Returns the parts of a task, with defaults for the functions it leaves out."""
        functions = (env.reset, env.step, env.observe, env.act or act_directly, env.accept or accept_all)
        tally = tally_of(env) if metrics_of(env) else None
        return cls(
            env.name, env.state, env.view, *functions, isinstance(env.actions, Servo), bool(env.randomise), tally
        )


def build_kernel(env: MujocoEnv, physics_type: Any) -> Any:
    """Returns the kernel that executes a command for one environment."""
    return _kernel_for_one(Parts.of(env), physics_type)


def build_kernel_for_many(env: MujocoEnv, physics_type: Any) -> Any:
    """Returns the kernel that executes a command for all picked environments."""
    return _kernel_for_many(Parts.of(env), physics_type)


@functools.cache
def _kernel_for_one(parts: Parts, physics_type: Any) -> Any:
    serve = _served(parts, physics_type)

    def one(physics, state, streams, actions, outcome, view, declared, env_id, command):
        serve(physics, state, streams, actions, outcome, view, declared, env_id, command)

    return _kernel(parts, one, physics_type, {"env_id": int, "command": int})


@functools.cache
def _kernel_for_many(parts: Parts, physics_type: Any) -> Any:
    serve = _served(parts, physics_type)

    def many(physics, state, streams, actions, outcome, view, declared, picked, command):
        env_id = wp.tid()
        if picked[env_id]:
            serve(physics, state, streams, actions, outcome, view, declared, env_id, command)

    return _kernel(parts, many, physics_type, {"picked": wp.array(dtype=wp.bool), "command": int})


def _served(parts: Parts, physics_type: Any) -> Any:
    reset_episode, step_episode, observe = parts.reset, parts.step, parts.observe
    accept, act, tally = parts.accept, parts.act, parts.tally
    # constants of the kernel, which has one branch of each `if` below
    step_draws, observe_draws, act_draws = draws(step_episode), draws(observe), draws(act)
    aims, randomises, tallies = parts.aims, parts.randomises, tally is not None

    def serve(physics, state, streams, actions, outcome, view, declared, env_id, command):
        if command == STEP:
            if step_draws:
                reward, terminated = step_episode(physics, state, env_id, actions, view, streams)
            else:
                reward, terminated = step_episode(physics, state, env_id, actions, view)
            outcome.reward[env_id] = reward
            outcome.terminated[env_id] = terminated
        elif command == ACT:
            if aims:
                aim(declared, physics, env_id, actions)
            elif act_draws:
                act(physics, state, env_id, actions, streams)
            else:
                act(physics, state, env_id, actions)
        elif command == RESET:
            declared.counted[env_id] = 0
            if randomises:
                vary(declared, env_id, streams)
            reset_episode(physics, state, env_id, streams)
        elif command == ACCEPT:
            outcome.accepted[env_id] = accept(physics, state, env_id)
        if command == STEP or command == OBSERVE:  # noqa: SIM109 - kernels have no `in`
            if observe_draws:
                observe(physics, state, env_id, view, streams)
            else:
                observe(physics, state, env_id, view)
        if tallies:  # noqa: SIM102 - a constant, by which the rest is left out
            if command == STEP:
                tally(declared, view, env_id)

    serve.__annotations__ = _arguments(parts, physics_type) | {"env_id": int, "command": int}
    serve.__name__ = serve.__qualname__ = f"serve_{parts.name}"
    return wp.func(serve)


def _kernel(parts: Parts, function: Callable[..., Any], physics_type: Any, more: dict[str, Any]) -> Any:
    function.__annotations__ = _arguments(parts, physics_type) | more
    function.__name__ = function.__qualname__ = f"serve_{function.__name__}_{parts.name}"
    return wp.kernel(function, module="unique", module_options=ROUNDING, enable_backward=False)


def _arguments(parts: Parts, physics_type: Any) -> dict[str, Any]:
    return {
        "physics": physics_type,
        "state": parts.state,
        "streams": Streams,
        "actions": wp.array2d(dtype=wp.float64),
        "outcome": Outcome,
        "view": parts.view,
        "declared": Declared,
    }
