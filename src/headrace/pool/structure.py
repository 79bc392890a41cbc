"""How values of a space lie in arrays: one for each leaf of nested dicts and tuples."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import gymnasium as gym
import numpy as np

from headrace.pool.spec import ARRAYS, Field

Path = tuple[str | int, ...]


def leaves(space: gym.Space) -> dict[Path, gym.Space]:
    """The spaces that are no `Dict` and no `Tuple`, by the keys that lead to them."""
    if isinstance(space, gym.spaces.Dict | gym.spaces.Tuple):
        return {(key, *path): leaf for key, part in _parts(space) for path, leaf in leaves(part).items()}
    return {(): space}


def is_array(space: gym.Space) -> bool:
    """Whether values of a leaf are arrays of one shape; those of any other are objects."""
    return isinstance(space, ARRAYS)


def leaf_name(prefix: str, path: Path) -> str:
    """The name of a leaf's array, such as ``"obs:position"``."""
    return ":".join((prefix, *map(str, path)))


def leaf_fields(prefix: str, space: gym.Space) -> list[Field]:
    """The arrays that hold one value of a space; of objects where a leaf's values are no arrays."""
    fields = []
    for path, leaf in leaves(space).items():
        dtype, shape = (np.dtype(leaf.dtype), tuple(leaf.shape or ())) if is_array(leaf) else (np.dtype(object), ())
        fields.append(Field(leaf_name(prefix, path), dtype, shape))
    return fields


def assembled(prefix: str, space: gym.Space, arrays: Mapping[str, Any]) -> Any:
    """The leaves' arrays in the space's own dicts and tuples, made anew."""
    if isinstance(space, gym.spaces.Dict):
        return {key: assembled(leaf_name(prefix, (key,)), part, arrays) for key, part in space.spaces.items()}
    if isinstance(space, gym.spaces.Tuple):
        return tuple(assembled(leaf_name(prefix, (i,)), part, arrays) for i, part in enumerate(space.spaces))
    return arrays[prefix]


def at(value: Any, path: Path) -> Any:
    """What a path leads to within nested dicts and tuples."""
    for key in path:
        value = value[key]
    return value


def row_of(value: Any, row: Any) -> Any:
    """One row of arrays in nested dicts and tuples: views of them."""
    return mapped(lambda array: array[row], value)


def mapped(function: Callable[..., Any], *values: Any) -> Any:
    """A function of the leaves of values that are nested alike, in dicts and tuples of their own."""
    first = values[0]
    if isinstance(first, dict):
        return {key: mapped(function, *(value[key] for value in values)) for key in first}
    if isinstance(first, tuple):
        return tuple(mapped(function, *parts) for parts in zip(*values, strict=True))
    return function(*values)


def renewed(value: Any) -> Any:
    """The same leaves in dicts and tuples of their own."""
    if isinstance(value, dict):
        return {key: renewed(part) for key, part in value.items()}
    return tuple(map(renewed, value)) if isinstance(value, tuple) else value


def one_row(value: Any) -> Any:
    """One environment's value as the rows of a batch of one."""
    if isinstance(value, np.ndarray):
        return value[None]
    if isinstance(value, dict):
        return {key: one_row(part) for key, part in value.items()}
    return tuple(map(one_row, value)) if isinstance(value, tuple) else np.asarray(value)[None]


def _parts(space: gym.spaces.Dict | gym.spaces.Tuple) -> Any:
    return space.spaces.items() if isinstance(space, gym.spaces.Dict) else enumerate(space.spaces)
