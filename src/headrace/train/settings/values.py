"""Checks of values of settings, and their error messages."""

from __future__ import annotations

import itertools
import json
import math
import os
import types
from collections.abc import Callable, Sequence
from typing import Any, Literal, Union, get_args, get_origin

import numpy as np

from headrace.errors import OptionError
from headrace.pool.sources import NO_TEXT, SHOWN, is_text

NOUNS = {
    int: ("an integer", "integers"), float: ("a number", "numbers"), str: ("a string", "strings"),
    bool: ("True or False", "booleans"), dict: ("a dict", "dicts"), type(None): ("None", "None"),
}  # fmt: skip
"""type → one value of it, and several, in words"""


def require(good: bool, name: str, value: object, what: str) -> None:
    """Raises `OptionError` unless ``good``; the message says that the option must be ``what``."""
    if not good:
        raise OptionError(f"training option {name}={value!r} must be {what}")


def check_finite(name: str, value: object) -> None:
    """Raises `OptionError` for nan, inf, and integers beyond 64 bits."""
    if isinstance(value, float):
        require(math.isfinite(value), name, value, "a finite number")
    elif isinstance(value, int):
        require(abs(value) < 2**63, name, value, "between -2**63 and 2**63")


def check_task(task: object) -> None:
    """Raises `OptionError` for a task that is no name, as run folders and other processes need the name."""
    if isinstance(task, str):
        return check_text("task", task)
    own = getattr(task, "__qualname__", "")
    named = f"file.py:{own}" if own.isidentifier() else "file.py:function"
    made = getattr(getattr(task, "spec", None), "id", None)  # of an environment of Gymnasium's
    ways = f"give {made!r}, or put what makes it" if made else "put it"
    raise OptionError(f"a task to train in is a name, not {task!r}: {ways} into a file, and train in {named!r}")


def check_text(name: str, value: object) -> None:
    """Raises `OptionError` for a text, or a tuple with one, that is too long, or that cannot be shown."""
    for text in value if isinstance(value, tuple) else (value,):
        if isinstance(text, str) and not is_text(text):
            shown = ascii(text[:SHOWN]) + "…" * (len(text) > SHOWN)
            raise OptionError(f"training option {name}={shown} has {NO_TEXT}")


def check_storable(name: str, value: object) -> None:
    """Raises `OptionError` for a value that ``config.json`` cannot hold."""
    try:
        json.dumps(value)
    except (TypeError, ValueError) as error:
        what = "numbers, words, lists and dicts, as config.json holds it"
        raise OptionError(f"training option {name}={value!r} must be {what}: {error}") from None


def check_devices(devices: tuple[str, ...]) -> None:
    """Raises `OptionError` unless several processes can train together on these devices."""
    require(len({name.partition(":")[0] for name in devices}) <= 1, "devices", devices, "all of one kind")
    own = [name if ":" in name else f"{name}:0" for name in devices if name != "cpu"]
    require(len(set(own)) == len(own), "devices", devices, "each GPU once")


def check_points(name: str, points: Any) -> None:
    """Raises `OptionError` unless ``points`` are (step, value) of a schedule, with increasing steps."""
    if not _are_growing(points, lambda step, value: isinstance(step, int | float) and isinstance(value, int | float)):
        raise OptionError(f"the schedule of {name} must be [(step, value), …] with growing steps, not {points!r}")
    for value in itertools.chain.from_iterable(points):
        check_finite(f"schedules[{name!r}]", value)


def check_stages(name: str, points: Any) -> None:
    """Raises `OptionError` unless ``points`` are [(step, value), …] with increasing steps and values for JSON."""
    if not _are_growing(points, lambda step, _: type(step) is int and step >= 0):
        raise OptionError(f"the curriculum of {name} must be [(step, value), …] with growing steps, not {points!r}")
    try:
        json.dumps([value for _, value in points])
    except TypeError as error:
        raise OptionError(f"the curriculum of {name} has a value that config.json cannot hold: {error}") from None


def _are_growing(points: Any, fits: Callable[[Any, Any], bool]) -> bool:
    """Returns whether points are one or more pairs, all of which fit, with increasing first elements."""
    if not (isinstance(points, list | tuple) and points):
        return False
    pairs: list[Any] = list(points)
    each = all(isinstance(pair, list | tuple) and len(pair) == 2 and fits(*pair) for pair in pairs)
    return each and all(a < b for (a, _), (b, _) in itertools.pairwise(pairs))


def as_lists(points: Any) -> Any:
    """Returns points as lists of lists, and other values, for which `check_points` raises an error, unchanged."""
    pairs = isinstance(points, list | tuple) and all(isinstance(point, list | tuple) for point in points)
    return [list(point) for point in points] if pairs else points


def interpolated(points: Sequence[tuple[int, float]], step: int) -> float:
    """Returns the value at agent step ``step``: linear between points, constant before the first and after the last."""
    if step <= points[0][0]:
        return points[0][1]
    for (x0, y0), (x1, y1) in itertools.pairwise(points):
        if step < x1:
            return y0 + (y1 - y0) * (step - x0) / (x1 - x0)
    return points[-1][1]


def matches(value: object, hint: Any) -> bool:
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return any(matches(value, arg) for arg in args)
    if origin is Literal:
        return value in args
    if origin is tuple:
        return isinstance(value, tuple) and all(matches(v, args[0]) for v in value)
    if origin is dict:
        return isinstance(value, dict)
    if hint in (int, float):
        number = (int, float) if hint is float else int
        return isinstance(value, number) and not isinstance(value, bool)
    return isinstance(value, hint)


def converted(value: Any, hint: Any) -> Any:
    """Returns a value in the type of a setting, where it is one of NumPy, a path or torch's device.

    A whole number may be a float, and a list or an array a tuple. A single word is a tuple of one; a single number is
    not, as ``hidden=64`` may mean one layer or several.
    """
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if get_origin(hint) is tuple:
        one = isinstance(value, str) and value and matches(value, get_args(hint)[0])
        return tuple(value) if isinstance(value, list) else (value,) if one else value
    if isinstance(value, os.PathLike) or type(value).__module__ == "torch":  # a torch.device
        return str(value) if matches("", hint) else value
    return int(value) if hint is int and isinstance(value, float) and value.is_integer() else value


def describe(hint: Any, value: object = None) -> str:
    """Returns in words which values a type has; for one value in place of a tuple, the tuples that it may mean."""
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return " or ".join(describe(arg) for arg in args)
    if origin is Literal:
        return "one of " + ", ".join(map(repr, args))
    if origin is tuple:
        several = f"a tuple of {NOUNS[args[0]][1]}"
        one = matches(value, args[0]) and value != ""
        return f"{several}: ({value!r},) for one, ({value!r}, {value!r}) for two" if one else several
    return NOUNS[origin or hint][0]
