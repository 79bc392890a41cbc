"""A robot as a record of numbers, and the task of walking that is made of it."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from headrace.envs.mujoco.options import xml_file
from headrace.envs.robots import humanoid, quadruped
from headrace.envs.robots.checks import check_model
from headrace.envs.robots.sensors import observe, observe_all
from headrace.envs.robots.sides import mirror_of
from headrace.envs.robots.signals import of_walker
from headrace.envs.robots.specs import ALL, QPOS, TRACK, compiled
from headrace.envs.robots.walker import State, View, act, reset
from headrace.errors import OptionError
from headrace.pool.executors.kernels.program import FINITE
from headrace.pool.executors.mujoco import (
    Camera,
    Draw,
    MujocoEnv,
    MujocoTask,
    Signals,
    add,
    draw,
    scale,
    velocity_arrows,
)
from headrace.pool.executors.mujoco.task import ROBOTS
from headrace.pool.mirror import Mirror
from headrace.pool.options import Checked, Option, Options, decimal
from headrace.pool.spec import Field

QVEL = 6  # where speeds of joints begin, after the free one
OF_ROBOT = ("radius", "changed", "idle", "period", "regular", "spread", "thrown", "stands")  # numbers of the state
FOUR_LEGS = "robots on four legs"
"""the kind of tasks whose recipe fits all that the reward of `quadruped` is for"""
FACTORS = {
    "effort": ("torques", "energy", "action_rate", "action_rate_l2"),
    "gait": ("feet_contact", "feet_phase", "feet_height"),
}
"""option → the terms of a reward that it is a factor of: what moving costs, and how feet are lifted"""
COMMANDS = ("forwards, m/s", "to the left, m/s", "turn left, rad/s")
STEPS = (0, 2**31 - 2)
Sees = tuple[Any, Any]
Functions = tuple[Any, Any, Sees, Any]
BOUNDS = {
    "stride": FINITE, "steps": STEPS, "until_command": STEPS, "until_kick": STEPS, "kick_every": STEPS,
    "heading": FINITE,
}  # fmt: skip
READS = ("qpos", "qvel", "ctrl", "actuator_force", "site_xpos", "site_xmat", "cvel", "subtree_com")


@dataclass(frozen=True)
class Robot:
    """The numbers of a robot and of its task.

    Its model has a free joint in its trunk, which is the world's first body, then hinges, a position servo for each in
    their order, a keyframe, and sites of its feet and sensors; what is missing is named when a pool is made.

    Attributes:
        name: an identifier.
        model: the file of the model, a `Path` or, with ``./``, ``/`` or ``~`` at its beginning, a string; or a function
            (options) → `mujoco.MjModel`.
        feet: names of the feet's sites; with ``FL`` and ``FR``, ``left`` and ``right`` or the like, as the joints'
            names, the robot has a mirror image.
        radius: the height of a foot's site when the foot stands on the ground, such as the radius of a sphere (m).
        start: the keyframe from which episodes start, and to which actions are added.
        frame_skip: physics steps between actions.
        sole: points of a foot in the frame of its site (m), one of which is at the height ``radius`` when it stands.
        limits: the greatest commands, forwards and sideways (m/s) and turning (rad/s).
        least: the least ones; by default these with the other sign.
        kept: probabilities that a part of a new command is not 0.
        changed: the probability that a part of a command changes when it may.
        idle: the probability that a command is to stand still.
        period: seconds from one command to the next.
        regular: whether that is always the same time; otherwise it is exponentially distributed.
        kicks: least and greatest time between kicks (s).
        kick_least: the least size of a kick (m/s), which is in any direction; 0 for kicks that change both axes.
        spread: the part by which joints differ from the keyframe at the start, at most.
        weights: of joints in the reward for the pose; by default 1 each.
        soft_limits: a function (ranges [joints, 2]) → the ranges that the reward keeps joints in.
        foot_height: how high a foot is lifted (m).
        scales: term of the reward → factor.
        action_scale: radians per unit of an action.
        fall: what the end of an episode costs.
        thrown: the greatest velocity at the start, in each direction (m/s, rad/s).
        push: default of this option.
        imu, torso: sites of the sensors of the observation, and of those of the reward for being upright.
        command_first: whether an observation has the command before the joints rather than at its end.
        stands: whether the phase stands still while the robot is to do so.
        legs: joints whose deviation the reward counts by itself: roll and yaw of both hips, then both knees.
        boxes: names of the feet's geoms, boxes that must not touch each other.
        capsules: names of capsules that must not touch: each with the next.
        forces: names of sensors in the feet, of forces or of the ground that they touch.
        accelerometer: name of the sensor at `imu`, which only a critic sees.
        reads: fields of MuJoCo that the reward reads beside `READS`.
        strides: least and greatest frequency of strides (Hz), of which an observation shows the phase; 0 for none.
        driven: how many servos, from the first, actions move; the others keep the pose of the start. None for all.
        settle: a function that changes the `mujoco.MjSpec` of the model's file before it is compiled.
        gait: the phase of each leg when an episode begins, as a part of a stride; by default 0.
        phases: numbers of a leg's phase in an observation.
        sees_velocity: whether an observation begins with the velocity.
        drawn: a function (robot, model) → what the option ``randomise`` draws; by default Playground's.
    """

    name: str
    model: str | Path | Callable[[Options], Any]
    feet: tuple[str, ...]
    radius: float
    start: str = "home"
    frame_skip: int = 5
    sole: tuple[tuple[float, float, float], ...] = ((0.0, 0.0, 0.0),)
    limits: tuple[float, float, float] = (1.0, 0.5, 1.0)
    least: tuple[float, float, float] | None = None
    kept: tuple[float, float, float] = (1.0, 1.0, 1.0)
    changed: float = 1.0
    idle: float = 0.0
    period: float = 10.0
    regular: bool = True
    kicks: tuple[float, float] = (1.0, 3.0)
    kick_least: float = 0.0
    spread: float = 0.0
    thrown: float = 0.5
    weights: tuple[float, ...] = ()
    soft_limits: Callable[[np.ndarray], np.ndarray] = humanoid.soft_limits
    foot_height: float = 0.1
    scales: Mapping[str, float] = field(default_factory=lambda: quadruped.SCALES)
    action_scale: float = 0.5
    fall: float = 1.0
    push: float = 0.0
    imu: str = "imu"
    torso: str = "imu"
    command_first: bool = False
    strides: tuple[float, float] = (0.0, 0.0)
    gait: tuple[float, ...] = ()
    phases: int = 0
    sees_velocity: bool = True
    stands: bool = False
    driven: int | None = None
    settle: Callable[[Any], None] | None = None
    legs: tuple[str, ...] = ()
    boxes: tuple[str, ...] = ()
    capsules: tuple[str, ...] = ()
    forces: tuple[str, ...] = ()
    accelerometer: str = "accelerometer"
    reads: tuple[str, ...] = ()
    drawn: Callable[[Robot, Any], dict[Any, Draw]] | None = None

    def lowest(self) -> tuple[float, ...]:
        """Returns the least commands."""
        return self.least or tuple(-most for most in self.limits)


def model_of(source: Callable[[Options], Any], options: Options) -> Any:
    """Returns the model, with the stiffness and the damping of its servos that the options ask for."""
    model = source(options)
    model.actuator_gainprm[:, 0] *= options["stiffness"]
    model.actuator_biasprm[:, 1] *= options["stiffness"]
    model.actuator_biasprm[:, 2] *= options["damping"]
    model.dof_damping[QVEL:] *= options["damping"]
    return model


def env_of(
    robot: Robot, functions: Functions, terms: tuple[str, ...], most: float, options: Options, model: Any
) -> MujocoEnv:
    """Returns the task of a robot, with the functions of its kind, and actions within ± ``most``."""
    check_model(robot, model)
    home = model.key(robot.start).qpos[QPOS:]
    sites = np.array([model.site(name).id for name in robot.feet], np.int32)
    imu, torso = (model.site(name).id for name in (robot.imu, robot.torso))
    geoms = _numbers([model.geom(name).id for name in (*robot.boxes, *robot.capsules)])
    legs = _numbers([model.joint(name).qposadr[0] - QPOS for name in robot.legs])
    forces = _numbers([model.sensor(name).adr[0] for name in robot.forces])
    critics = accelerometer_of(robot, model) if options["critic"] else {}
    begin, step, see, move = functions
    low, high = robot.soft_limits(model.jnt_range[1:]).T
    scales = np.array([*(robot.scales.get(name, 0.0) for name in terms), robot.fall - options["fall"]])
    scales[0] *= options["tracking"]
    scales[terms.index("termination")] = -robot.fall
    scales[scales < 0] *= options["penalty"]
    for factor, names in FACTORS.items():
        scales[[i for i, name in enumerate(terms) if name in names]] *= options[factor]
    weights = np.array(robot.weights) if robot.weights else np.ones(model.nu)
    tables = {
        "home": home, "low": low, "high": high, "weights": weights, "scales": scales,
        "limits": np.array(robot.limits), "least": np.array(robot.lowest()), "kept": np.array(robot.kept),
        "push": np.array([options["push"]]),
        "sites": sites, "gait": math.tau * np.array(robot.gait or (0.0,) * len(sites)),
        "bodies": model.site_bodyid[sites].astype(np.int32), "sole": np.array(robot.sole),
        "legs": legs, "geoms": geoms, "sizes": model.geom_size[geoms], "forces": forces,
    }  # fmt: skip
    constants = {
        "num_feet": len(robot.feet), "num_points": len(robot.sole), "imu": imu,
        "imu_body": int(model.site_bodyid[imu]), "torso": torso, "torso_body": int(model.site_bodyid[torso]),
        "accelerometer": next(iter(critics.values()), 0),
        "driven": driven_of(robot, model),
        "at_command": 9 if robot.command_first else 9 + 2 * model.nu + driven_of(robot, model),
        "at_joints": 12 if robot.command_first else 9, "num_terms": len(terms),
        "kick_soon": robot.kicks[0], "kick_late": robot.kicks[1], "kick_least": robot.kick_least,
        "slow_stride": robot.strides[0], "fast_stride": robot.strides[1],
        "upright": math.cos(math.radians(options["tilt"])),
        **{name: getattr(robot, name) for name in OF_ROBOT},
    }  # fmt: skip
    widths = {
        (3,): ("command",),
        (driven_of(robot, model),): ("action", "last_action"),
        (len(robot.feet),): ("air_time", "touching", "peak", "phase"),
        (len(terms),): ("reward_terms",),
    }
    return MujocoEnv(
        robot.name, (*READS, *robot.reads), State, View, begin, step, see[bool(critics)], move,
        start=robot.start, sensors=(*robot.forces, *critics), constants=constants, tables=tables,
        shapes={name: shape for shape, names in widths.items() for name in names},
        actions=gym.spaces.Box(-most, most, (driven_of(robot, model),), np.float64), metrics=("tracking",),
        randomise=(robot.drawn or drawn)(robot, model),
        bounds={name: FINITE for names in list(widths.values())[:-1] for name in names} | BOUNDS,
    )  # fmt: skip


def drawn(robot: Robot, model: Any) -> dict[Any, Draw]:
    """Returns what the option ``randomise`` draws anew for each episode, within Playground's bounds.

    Masses go with inertias; ground and feet have one friction.
    """
    joints = [model.joint(i).name for i in range(1, model.njnt)]
    torso = model.body(model.site_bodyid[model.site(robot.torso).id]).name
    soles = [model.pair(i).name for i in range(model.npair) if model.pair_dim[i] > 1]
    friction = draw(0.4, 1.0, together=True, only=soles or ("floor", *robot.feet), column=None if soles else 0)
    return {
        ("body_mass", "body_inertia"): scale(0.9, 1.1),
        "body_ipos": add(-0.05, 0.05, only=(torso,)),
        "dof_frictionloss": scale(0.9, 1.1),
        "dof_armature": scale(1.0, 1.05),
        "qpos0": add(-0.05, 0.05, only=joints),
        "pair_friction" if soles else "geom_friction": friction,
    }


def driven_of(robot: Robot, model: Any) -> int:
    """Returns the number of servos that actions move."""
    return robot.driven or model.nu


def _numbers(found: list[int]) -> np.ndarray:
    """Returns a table int32 [n] for a kernel, which has at least one row."""
    return np.array(found or [0], np.int32)


def space_of(robot: Robot, options: Mapping[str, Any], model: Any) -> gym.Space:
    """Returns the space of observations."""
    size = 9 + 3 * robot.sees_velocity + 2 * model.nu + driven_of(robot, model) + robot.phases * len(robot.feet)
    return gym.spaces.Box(-np.inf, np.inf, (size,), np.float32)


def accelerometer_of(robot: Robot, model: Any) -> dict[str, int]:
    """Returns the name of the accelerometer and where its values are."""
    name = robot.accelerometer
    try:
        return {name: int(model.sensor(name).adr[0])}
    except KeyError:
        raise OptionError(
            f"critic=True: the model of {robot.name} has no sensor {name!r}: add <accelerometer "
            f'name="{name}" site="{robot.imu}"/> to its <sensor>, or leave critic out'
        ) from None


def critic_of(robot: Robot, options: Mapping[str, Any], model: Any) -> gym.Space:
    """Returns the space of what only a critic sees, by `sensors.observe_critic`."""
    return gym.spaces.Box(-np.inf, np.inf, (17 + 3 * model.nu + 5 * len(robot.feet),), np.float32)


def mirror(robot: Robot, options: Mapping[str, Any], model: Any) -> Mirror | None:
    """Returns how observations and actions look in a mirror; None if its feet's names say no sides."""
    driven = driven_of(robot, model)
    return mirror_of(model, driven, robot.feet, robot.command_first, robot.phases, robot.sees_velocity)


def files(default: str) -> dict[str, Option]:
    """Returns the options of a robot whose model is a file."""
    looks = Checked("", check=os.fspath, wanted="a file's path, or the name of a robot of the Menagerie")
    return {"xml_file": xml_file(default), "collisions": Option("feet", choices=("feet", ALL)), "render_looks": looks}


def walking(
    robot: Robot,
    step: Any = quadruped.step,
    terms: tuple[str, ...] = quadruped.TERMS,
    see: Sees = (observe, observe_all),
    most: float = 1.0,
    begin: Any = reset,
    move: Any = act,
    signals: Callable[[Robot, Mapping[str, Any], Any], Signals] | None = None,
    **options: Any,
) -> MujocoTask:
    """Returns the task of walking by commands, for `headrace.register`.

    Args:
        robot: its numbers.
        step: the function of the reward and of an episode's end, a Warp function as for `MujocoEnv`; by default that of
            robots on four legs, which are trained as the Go1 is.
        terms: the names of the reward's terms, in the order of the info field ``reward_terms``; the first is that of
            tracking the velocity.
        see: the function that writes an observation, and one that also writes what only a critic sees.
        most: the greatest action.
        begin, move: the functions that begin an episode and act.
        signals: a function (robot, options, model) → what ``see`` shows and what ``move`` does, in words and units;
            by default nothing is said where these are not those of all robots.
        options: defaults of options that differ from those of all robots.
    """
    info = (
        Field("reward_terms", np.dtype(np.float32), (len(terms),)),
        Field("tracking", np.dtype(np.float32)),
        Field("command", np.dtype(np.float32), (3,)),
        Field("fell", np.dtype(np.bool_)),
    )
    model, file = robot.model, {}
    if not callable(model):
        file = files(str(model.absolute()) if isinstance(model, Path) else model)
        model = partial(compiled, robot.settle)
    if signals is None and see == (observe, observe_all) and move is act:
        signals = of_walker
    known = {
        **file,
        "noise": 1.0,
        "push": robot.push,
        "action_scale": robot.action_scale,
        "stiffness": 1.0,
        "damping": 1.0,
        "speed": 1.0,
        "hold": False,
        "penalty": 1.0,
        "effort": 1.0,
        "gait": 1.0,
        "tracking": 1.0,
        "fall": robot.fall,
        "alive": decimal(0.0),
        "clipped": True,
        "foot_height": robot.foot_height,
        "tilt": Option(90.0, 0, 180),
        "height": 0.0,
        "randomise": False,
        "critic": False,
    }
    return MujocoTask(
        partial(env_of, robot, (begin, step, see, move), terms, most), partial(model_of, model),
        partial(space_of, robot), info,
        known | options, robot.frame_skip, critic=partial(critic_of, robot), camera=Camera(TRACK),
        mirror=partial(mirror, robot),
        signals=partial(signals, robot) if signals else Signals(),
        arrows=velocity_arrows,
        steering=dict(zip(COMMANDS, zip(robot.lowest(), robot.limits, strict=True), strict=True)),
        kind=FOUR_LEGS if step is quadruped.step else ROBOTS,
    )  # fmt: skip
