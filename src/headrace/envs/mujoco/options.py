"""Options of Gymnasium's MuJoCo tasks that are not plain numbers, and EnvPool's names of the options.

A task lists its options by Gymnasium's names. EnvPool has other names for some of them, and two options for a
range. Both are accepted; `in_gymnasiums_names` translates EnvPool's.
"""

from __future__ import annotations

import operator
import os
from collections.abc import Mapping
from typing import Any

from headrace.errors import OptionError
from headrace.pool.options import Checked, Option

# EnvPool's name → Gymnasium's, for tasks that have an option of that name; for rendering, Gymnasium's → EnvPool's
NAMES = {
    "camera_id": "render_camera_id",
    "camera_name": "render_camera_name",
    "contact_cost": "impact_cost",  # a range
    "contact_cost_weight": "impact_cost_weight",
    "ctrl_cost_weight": "reward_control_weight",
    "dist_cost_weight": "reward_dist_weight",
    "forward_reward_weight": "uph_cost_weight",
    "height": "render_height",
    "near_cost_weight": "reward_near_weight",
    "use_contact_force": "use_contact_forces",
    "width": "render_width",
}
ENDS = ("min", "max")


def number_range(low: float, high: float) -> Option:
    """Returns an option that is a pair (low, high) of numbers, which may be infinite."""
    return Checked((low, high), check=_range, wanted="two numbers (low, high), low not above high")


def body(default: int | str) -> Option:
    """Returns an option that is a body of the model, by name or number."""
    return Checked(default, check=_body, wanted="a body's name or number")


def xml_file(default: str) -> Option:
    """Returns an option that is the path of a model's file."""
    return Checked(default, check=_file, wanted="a file's path")


def in_gymnasiums_names(task: str, known: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the given options by Gymnasium's names; unknown ones keep their names.

    Args:
        task: the task's name, for error messages.
        known: the task's options.
        given: the options that the user gave, by Gymnasium's or EnvPool's names.

    Raises:
        OptionError: an option is given by both names.
    """
    renamed: dict[str, Any] = {}
    ends: dict[str, list[Any]] = {}
    for name, value in given.items():
        stem, _, end = name.rpartition("_")
        whole = f"{stem if f'{stem}_range' in known else NAMES.get(stem)}_range"
        if name not in known and end in ENDS and whole in known:
            at = ends.setdefault(whole, list(known[whole].default))
            at[ENDS.index(end)] = value
            continue
        own = NAMES.get(name, "")
        name = own if name not in known and own in known else name
        if name in renamed:
            raise _twice(task, name)
        renamed[name] = value
    for name, values in ends.items():
        if name in renamed:
            raise _twice(task, name)
        renamed[name] = tuple(values)
    return renamed


def _twice(task: str, name: str) -> OptionError:
    return OptionError(f"{name} of {task} is given twice, by Gymnasium's name and by EnvPool's: give it once")


def _range(value: Any) -> tuple[float, float]:
    if isinstance(value, str):
        raise TypeError
    low, high = value
    if any(isinstance(end, (bool, str)) for end in (low, high)) or not float(low) <= float(high):
        raise ValueError
    return float(low), float(high)


def _body(value: Any) -> int | str:
    if isinstance(value, bool):
        raise TypeError
    return value if isinstance(value, str) else operator.index(value)


def _file(value: Any) -> str:
    if not str(value):
        raise ValueError
    return os.fspath(value)
