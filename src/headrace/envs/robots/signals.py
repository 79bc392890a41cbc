"""What robots that walk by commands observe and do, as an exported policy says it: what their own sensors must show."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from headrace.pool.executors.mujoco import Control, Part, Signals

AXES = ("x", "y", "z")
VELOCITY = Part("velocity of the trunk, in its frame", (3,), "m/s", AXES)
SPIN = Part("angular velocity of the trunk, in its frame", (3,), "rad/s", AXES)
DOWN = Part("direction of gravity in the trunk's frame", (3,), "", AXES)
AXIS = Part("the trunk's upward axis in the world's frame, negative", (3,), "", AXES)
COMMAND = Part("command: velocity forwards, to the left, turning left", (3,), "m/s, m/s, rad/s", ("x", "y", "yaw"))
BEFORE, NEWEST = "the action before the newest one", "the newest action"
"""what tasks show of actions, of which the newest is the one that the observed step carried out"""


def joint_names(model: Any) -> tuple[str, ...]:
    """Returns the names of the joints behind the free one."""
    return tuple(model.joint(i).name or f"joint {i}" for i in range(1, model.njnt))


def of_walker(robot: Any, options: Mapping[str, Any], model: Any) -> Signals:
    """Returns the parts that `sensors.observe` writes, and the targets that `walker.aim` sets."""
    joints, driven = joint_names(model), robot.driven or model.nu
    seen = [*(VELOCITY,) * robot.sees_velocity, SPIN, DOWN, *(COMMAND,) * robot.command_first, *_of_joints(joints)]
    seen.append(Part(BEFORE, (driven,), "", joints[:driven]))
    seen += [COMMAND] * (not robot.command_first)
    if robot.phases:
        seen += [
            Part(f"{wave} of the phase of each foot", (len(robot.feet),), "", robot.feet) for wave in ("cosine", "sine")
        ]
    return Signals(tuple(seen), targets(robot, options, model, np.ones(driven)))


def of_clocked(robot: Any, options: Mapping[str, Any], model: Any) -> Signals:
    """Returns those of `go2_unilab.observe`."""
    joints = joint_names(model)
    clock = Part("part of the stride that each foot is in, from 0 to 1", (len(robot.feet),), "", robot.feet)
    seen = (SPIN, AXIS, *_of_joints(joints), Part(NEWEST, (model.nu,), "", joints), COMMAND, clock)
    return Signals(seen, targets(robot, options, model, np.ones(model.nu)))


def of_reach(reach: np.ndarray, robot: Any, options: Mapping[str, Any], model: Any) -> Signals:
    """Returns those of `go1_mjlab.observe`, where an action of 1 moves the servos by ``reach`` (rad)."""
    joints = joint_names(model)
    seen = (VELOCITY, SPIN, DOWN, *_of_joints(joints), Part(NEWEST, (model.nu,), "", joints), COMMAND)
    return Signals(seen, targets(robot, options, model, reach))


def targets(robot: Any, options: Mapping[str, Any], model: Any, reach: np.ndarray) -> tuple[Control, ...]:
    """Returns what actions do: they move the targets of the servos from the pose of the start, by ``reach`` (rad)."""
    home, scale = model.key(robot.start).qpos[7:], float(options["action_scale"])
    names = joint_names(model)
    return tuple(Control(names[i], "rad", scale * float(each), float(home[i])) for i, each in enumerate(reach))


def _of_joints(joints: tuple[str, ...]) -> tuple[Part, Part]:
    angles = Part("angles of joints, from the pose of the start", (len(joints),), "rad", joints)
    return angles, Part("velocities of joints", (len(joints),), "rad/s", joints)
