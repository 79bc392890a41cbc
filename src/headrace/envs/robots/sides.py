"""How a robot that walks looks in a mirror: its left side for its right."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from headrace.errors import OptionError
from headrace.pool.executors.mujoco.fields import library
from headrace.pool.mirror import Mirror

SIDES = (  # in the names of joints and feet
    *(("left", "right"), ("Left", "Right"), ("FL", "FR"), ("RL", "RR"), ("HL", "HR"), ("BL", "BR")),
    *(("LF", "RF"), ("LH", "RH"), ("fl_", "fr_"), ("rl_", "rr_"), ("hl_", "hr_"), ("bl_", "br_")),
)
VECTOR, SPIN, COMMAND = (1, -1, 1), (-1, 1, -1), (1, -1, -1)  # signs of mirrored x, y, z; and of a command
ALONG = 0.9  # the least part of an axis that is that of its mirror image


def mirror_of(
    model: Any, driven: int, feet: tuple[str, ...], command_first: bool, phases: int, sees_velocity: bool = True
) -> Mirror | None:
    """Returns how the observations and actions of a walker look in a mirror, in their order in `sensors.observe`.

    Args:
        model: its model, in which a joint's name says its side.
        driven: how many joints, from the first, actions move; of both sides.
        feet: the names of its feet, which say their sides; if none does, there is no mirror.
        command_first, phases, sees_velocity: as in `robot.Robot`.

    Raises:
        OptionError: a joint has no counterpart, or an axis that no mirror turns into that of its counterpart.
    """
    if not any(side in foot for foot in feet for sides in SIDES for side in sides):
        return None
    names = [model.joint(i + 1).name for i in range(model.nu)]
    joints = [names.index(_other(name, names)) for name in names]
    data = library().MjData(model)
    library().mj_kinematics(model, data)
    signs = [_sign(model, data.xaxis, i + 1, other + 1) for i, other in enumerate(joints)]
    legs = [feet.index(_other(name, feet)) for name in feet]
    command = ([0, 1, 2], COMMAND)
    moved = (joints[:driven], signs[:driven])
    parts = [([0, 1, 2], VECTOR)] * sees_velocity + [([0, 1, 2], SPIN), ([0, 1, 2], VECTOR)]
    parts += [command] * command_first + [(joints, signs)] * 2 + [moved]
    parts += [command] * (not command_first) + [(legs, (1,) * len(feet))] * phases
    along, about, same = (([0, 1, 2], VECTOR), ([0, 1, 2], SPIN), (legs, (1,) * len(feet)))
    critic: list[tuple[Any, Any]] = [about, along, along, along, about, ([0, 1], (1, 1)), *[(joints, signs)] * 3]
    critic += [same, same, ([3 * leg + i for leg in legs for i in range(3)], VECTOR * len(feet))]
    return Mirror(_joined(parts), moved, _joined(critic))


def _joined(parts: Sequence[tuple[Any, Any]]) -> tuple[list[int], list[float]]:
    """Returns indices and signs of parts that follow each other."""
    begins = np.cumsum([0, *(len(indices) for indices, _ in parts)])
    indices = [int(begin) + i for begin, (part, _) in zip(begins, parts, strict=False) for i in part]
    return indices, [sign for _, part in parts for sign in part]


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


def _sign(model: Any, axes: np.ndarray, joint: int, other: int) -> float:
    """Returns 1 if a joint turns as the mirror image of another does, or -1 if it turns the other way."""
    alike = float(np.dot(axes[joint], axes[other] * SPIN))
    if abs(alike) < ALONG:
        names = f"{model.joint(joint).name} and {model.joint(other).name}"
        raise OptionError(f"xml_file: the axes of the joints {names} are no mirror images in the model's zero pose")
    return 1.0 if alike > 0 else -1.0
