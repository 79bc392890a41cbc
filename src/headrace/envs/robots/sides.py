"""How a robot that walks looks in a mirror: its left side for its right."""

from __future__ import annotations

from typing import Any

import numpy as np

from headrace.errors import OptionError
from headrace.pool.mirror import Mirror

SIDES = (("left", "right"), ("Left", "Right"), ("FL", "FR"), ("RL", "RR"))  # in the names of joints
VECTOR, SPIN, COMMAND = (1, -1, 1), (-1, 1, -1), (1, -1, -1)  # signs of mirrored x, y, z; and of a command
ALONG = 0.9  # the least part of a joint's axis in one direction


def mirror_of(
    model: Any, driven: int, feet: tuple[str, ...], command_first: bool, phases: int, sees_velocity: bool = True
) -> Mirror:
    """Returns how the observations and actions of a walker look in a mirror, in their order in `walker.observe`.

    Args:
        model: its model, in which a joint's name says its side.
        driven: how many joints, from the first, actions move; of both sides.
        feet: the names of its feet, which say their sides.
        command_first, phases, sees_velocity: as in `robot.Robot`.

    Raises:
        OptionError: a joint has no counterpart, or an axis that no mirror turns into one.
    """
    names = [model.joint(i + 1).name for i in range(model.nu)]
    joints = [names.index(_other(name, names)) for name in names]
    signs = [_sign(model, i + 1) for i in range(model.nu)]
    legs = [feet.index(_other(name, feet)) for name in feet]
    command = ([0, 1, 2], COMMAND)
    moved = (joints[:driven], signs[:driven])
    parts = [([0, 1, 2], VECTOR)] * sees_velocity + [([0, 1, 2], SPIN), ([0, 1, 2], VECTOR)]
    parts += [command] * command_first + [(joints, signs)] * 2 + [moved]
    parts += [command] * (not command_first) + [(legs, (1,) * len(feet))] * phases
    begins = np.cumsum([0, *(len(indices) for indices, _ in parts)])
    indices = [int(begin) + i for begin, (part, _) in zip(begins, parts, strict=False) for i in part]
    return Mirror((indices, [sign for _, part in parts for sign in part]), moved)


def _other(name: str, names: Any) -> str:
    """Returns the name of what the mirror shows in place of something of this name."""
    for left, right in SIDES:
        for side, other in ((left, right), (right, left)):
            if side in name:
                name = name.replace(side, other)
                if name not in names:
                    raise OptionError(f"xml_file: the model has no {name}, which the mirror would show")
                return name
    return name


def _sign(model: Any, joint: int) -> float:
    """Returns 1 if a joint turns about a body's y axis, which a mirror leaves, or -1 if about its x or z axis."""
    axis = np.abs(model.jnt_axis[joint])
    if axis.max() < ALONG:
        raise OptionError(f"xml_file: the axis of joint {model.joint(joint).name} is along none of its body's")
    return 1.0 if axis[1] >= ALONG else -1.0
