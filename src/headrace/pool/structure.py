"""Maps values of a space to arrays, one for each leaf of nested dicts and tuples."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import gymnasium as gym
import numpy as np

from headrace.errors import OptionError
from headrace.pool.spec import ARRAYS, AgentType, Field

Path = tuple[str | int, ...]


def leaves(space: gym.Space) -> dict[Path, gym.Space]:
    """Returns path of keys → leaf, a sub-space that is neither `Dict` nor `Tuple`."""
    if isinstance(space, gym.spaces.Dict | gym.spaces.Tuple):
        return {(key, *path): leaf for key, part in _parts(space) for path, leaf in leaves(part).items()}
    return {(): space}


def is_array(space: gym.Space) -> bool:
    """Returns whether values of a leaf are arrays of one shape, rather than objects."""
    return isinstance(space, ARRAYS)


def leaf_name(prefix: str, path: Path) -> str:
    """Returns the name of a leaf's array, such as ``"obs:position"``."""
    return ":".join((prefix, *map(str, path)))


def leaf_fields(prefix: str, space: gym.Space) -> list[Field]:
    """Returns the fields that hold one value of a space; leaves whose values are no arrays have dtype object."""
    fields = []
    check_names(space)
    for path, leaf in leaves(space).items():
        dtype, shape = (np.dtype(leaf.dtype), tuple(leaf.shape or ())) if is_array(leaf) else (np.dtype(object), ())
        fields.append(Field(leaf_name(prefix, path), dtype, shape))
    return fields


def check_names(space: gym.Space) -> None:
    """Raises `OptionError` if two leaves have one name, as those of ``{"a:b": …, "a": {"b": …}}``."""
    known: dict[str, Path] = {}
    for path in leaves(space):
        other = known.setdefault(leaf_name("", path), path)
        if other != path:
            raise OptionError(f"{space}: the keys {list(other)} and {list(path)} name one array: rename one of them")


def assembled(prefix: str, space: gym.Space, arrays: Mapping[str, Any]) -> Any:
    """Returns the leaves' arrays in new dicts and tuples nested like the space."""
    if isinstance(space, gym.spaces.Dict):
        return {key: assembled(leaf_name(prefix, (key,)), part, arrays) for key, part in space.spaces.items()}
    if isinstance(space, gym.spaces.Tuple):
        return tuple(assembled(leaf_name(prefix, (i,)), part, arrays) for i, part in enumerate(space.spaces))
    return arrays[prefix]


def at(value: Any, path: Path) -> Any:
    """Returns the element of nested dicts and tuples at ``path``."""
    for key in path:
        value = value[key]
    return value


def row_of(value: Any, row: Any) -> Any:
    """Returns row ``row`` of all arrays in nested dicts and tuples, as views."""
    return mapped(lambda array: array[row], value)


def mapped(function: Callable[..., Any], *values: Any) -> Any:
    """Applies ``function`` to the leaves of equally nested values; returns new dicts and tuples of its results.

    Values after the first may be spaces, whose leaves are then those of the first value.
    """
    first = values[0]
    if isinstance(first, dict):
        return {key: mapped(function, *(value[key] for value in values)) for key in first}
    if isinstance(first, tuple):
        return tuple(mapped(function, *parts) for parts in zip(*values, strict=True))
    return function(*values)


def renewed(value: Any) -> Any:
    """Returns the same leaves in new dicts and tuples."""
    if isinstance(value, dict):
        return {key: renewed(part) for key, part in value.items()}
    return tuple(map(renewed, value)) if isinstance(value, tuple) else value


def one_row(value: Any) -> Any:
    """Returns one environment's value as a batch of one row."""
    return mapped(lambda leaf: np.asarray(leaf)[None], value)


def _parts(space: gym.spaces.Dict | gym.spaces.Tuple) -> Any:
    return space.spaces.items() if isinstance(space, gym.spaces.Dict) else enumerate(space.spaces)


def count_text(kind: AgentType) -> str:
    """Returns how many agents of a type there are: ``1 runner``, ``3 adversaries``."""
    name = kind.name
    if kind.count > 1:
        name = f"{name[:-1]}ies" if name.endswith("y") else f"{name}s"
    return f"{kind.count} {name}"


def space_text(space: gym.Space) -> str:
    """Returns a short description of a space: ``float32[4]``, ``2 choices``, ``float32[1] in [-2, 2]``."""
    if isinstance(space, gym.spaces.Discrete):
        return f"{space.n} choices" + (f" from {space.start}" if space.start else "")
    if isinstance(space, gym.spaces.MultiDiscrete):
        return f"{' x '.join(map(str, space.nvec.ravel()))} choices"
    if isinstance(space, gym.spaces.Dict):
        return ", ".join(f"{key}: {space_text(sub)}" for key, sub in space.spaces.items())
    text = f"{space.dtype}{list(space.shape or ())}"
    if isinstance(space, gym.spaces.Box) and space.dtype != np.uint8 and space.is_bounded():
        low, high = np.unique(space.low), np.unique(space.high)
        if len(low) == len(high) == 1:
            return f"{text} in [{low[0]:g}, {high[0]:g}]"
    return text
