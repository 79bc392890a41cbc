"""What a MuJoCo model says of a task's observations and actions: names of joints and actuators, and their units."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import groupby
from typing import Any

import gymnasium as gym

from headrace.pool.executors.mujoco.declared import Servo, servo_numbers
from headrace.pool.executors.mujoco.fields import MjModel, library
from headrace.pool.signals import Control, Part, Signals
from headrace.pool.spec import subspaces

Column = tuple[str, str, str]  # the part that it belongs to, its name and its unit
AXES, QUATERNION = ("x", "y", "z"), ("w", "x", "y", "z")


def completed_signals(given: Signals, env: Any, model: MjModel, observation: gym.Space, rate_hz: float) -> Signals:
    """Returns what a task says of its numbers, and where it says nothing, what its model and its spaces say.

    Args:
        given: what the task says.
        env: the `MujocoEnv`.
        observation: the space of what is no picture, without what only a critic sees.
        rate_hz: agent steps in a second.
    """
    parts = given.observation
    if not parts and isinstance(observation, gym.spaces.Dict):
        parts = tuple(Part(key, space.shape or (1,)) for key, space in subspaces(observation).items())
    return replace(given, observation=parts, action=given.action or controls_of(env, model), rate_hz=rate_hz)


def joint_parts(model: MjModel, skipped: int = 0) -> tuple[Part, ...]:
    """Returns the parts of an observation of all positions but the first ``skipped``, and then all velocities."""
    positions: list[Column] = []
    speeds: list[Column] = []
    kinds, names = library().mjtJoint, [model.joint(i).name or f"joint {i}" for i in range(model.njnt)]
    for kind, name in zip(model.jnt_type, names, strict=True):
        if kind in (int(kinds.mjJNT_FREE), int(kinds.mjJNT_BALL)):
            if kind == int(kinds.mjJNT_FREE):
                positions += [(f"position of {name}", axis, "m") for axis in AXES]
                speeds += [(f"velocity of {name}", axis, "m/s") for axis in AXES]
            positions += [(f"orientation of {name}, a quaternion", axis, "") for axis in QUATERNION]
            speeds += [(f"angular velocity of {name}, in its own frame", axis, "rad/s") for axis in AXES]
        elif kind == int(kinds.mjJNT_SLIDE):
            positions.append(("positions of slides", name, "m"))
            speeds.append(("velocities of slides", name, "m/s"))
        else:
            positions.append(("angles of joints", name, "rad"))
            speeds.append(("velocities of joints", name, "rad/s"))
    return _parts([*positions[skipped:], *speeds])


def _parts(columns: Iterable[Column]) -> tuple[Part, ...]:
    found = []
    for (name, unit), some in groupby(columns, lambda column: (column[0], column[2])):
        elements = tuple(element for _, element, _ in some)
        found.append(Part(name, (len(elements),), unit, elements))
    return tuple(found)


def actuator_names(model: MjModel) -> list[str]:
    """Returns the names of all actuators: their own, or those of the joints that they move."""
    found = []
    for i in range(model.nu):
        joint = model.actuator_trnid[i, 0] if _joint_type(model, i) is not None else -1
        found.append(model.actuator(i).name or (model.joint(joint).name if joint >= 0 else "") or f"actuator {i}")
    return found


def controls_of(env: Any, model: MjModel) -> tuple[Control, ...]:
    """Returns what the elements of a task's actions move; nothing where the task's ``act`` makes controls of them.

    An action of a motor is a force or a torque, one of a position servo the position that it is to keep.
    """
    if env.act is not None:
        return ()
    home, scale, _ = servo_numbers(env, model) if isinstance(env.actions, Servo) else (None, None, None)
    found = []
    for i, name in enumerate(actuator_names(model)):
        unit, factor = _unit(model, i)
        if not unit:
            found.append(Control(name))
        elif home is None or scale is None:
            found.append(Control(name, unit, factor))
        else:
            found.append(Control(name, unit, float(scale[i]) * factor, float(home[i]) * factor))
    return tuple(found)


def _unit(model: MjModel, actuator: int) -> tuple[str, float]:
    """Returns the unit of what an actuator does to its joint, empty if unknown, and how much a control of 1 is."""
    kinds, turns = library(), _joint_type(model, actuator)
    gear, gain = float(model.actuator_gear[actuator, 0]), float(model.actuator_gainprm[actuator, 0])
    direct = model.actuator_dyntype[actuator] == int(kinds.mjtDyn.mjDYN_NONE)
    fixed = model.actuator_gaintype[actuator] == int(kinds.mjtGain.mjGAIN_FIXED)
    if turns is None or not direct or not fixed or gear == 0:
        return "", 1.0
    if model.actuator_biastype[actuator] == int(kinds.mjtBias.mjBIAS_NONE):
        return ("N m" if turns else "N"), gear * gain
    if model.actuator_biasprm[actuator, 1] < 0:
        return ("rad" if turns else "m"), 1 / gear
    return "", 1.0


def _joint_type(model: MjModel, actuator: int) -> bool | None:
    """Returns whether an actuator turns a hinge rather than moving a slide; None if it does neither."""
    kinds = library()
    places = (int(kinds.mjtTrn.mjTRN_JOINT), int(kinds.mjtTrn.mjTRN_JOINTINPARENT))
    if model.actuator_trntype[actuator] not in places:
        return None
    kind = model.jnt_type[model.actuator_trnid[actuator, 0]]
    return {int(kinds.mjtJoint.mjJNT_HINGE): True, int(kinds.mjtJoint.mjJNT_SLIDE): False}.get(int(kind))
