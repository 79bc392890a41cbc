"""Conversion of observations of one environment or of several to batches, after checks against a task's space."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np

from headrace.errors import NotFiniteError, OptionError
from headrace.pool.flat_observation import Joined
from headrace.pool.structure import assembled, at, is_array, leaf_name, leaves

OBSERVATION = "observation"


def batched(observations: Any, space: gym.Space) -> tuple[Any, bool]:
    """Returns observations as a batch of arrays of the space's dtypes, and whether they are of one environment.

    Args:
        observations: arrays, or values that NumPy converts to arrays, nested like the space. Their shapes are those of
            the space's leaves, [*shape] for one environment or [B, *shape] for several. For a `Joined` space they
            may be nested as the environment's own, and hold texts.

    Raises:
        OptionError: the nesting, a shape or a dtype differs from the space; the message names both.
        NotFiniteError: an observation holds NaN or infinity.
    """
    if isinstance(space, Joined):
        observations = _joined(observations, space)
    arrays: dict[str, np.ndarray] = {}
    rows: set[int | None] = set()
    for path, leaf in leaves(space).items():
        name = leaf_name(OBSERVATION, path)
        try:
            given = at(observations, path)
        except (KeyError, IndexError, TypeError):
            raise OptionError(f"there is no {name}: observations must be nested as {space}") from None
        array = _array(name, given, leaf)
        arrays[name] = array
        rows.add(len(array) if array.ndim > len(leaf.shape or ()) else None)
    if len(rows) > 1:
        told = " and ".join("none" if each is None else str(each) for each in sorted(rows, key=lambda x: x or 0))
        raise OptionError(f"the parts of observations must have the same number of rows, not {told}")
    if rows == {None}:
        arrays = {name: array[None] for name, array in arrays.items()}
    return assembled(OBSERVATION, space, arrays), rows == {None}


def _joined(observations: Any, space: Joined) -> Any:
    """Returns observations as rows of one array, which they may be already."""
    shape = tuple(getattr(observations, "shape", ()))
    if shape and space.shape in (shape, shape[1:]):
        return observations
    try:
        parts = leaves(space.source)
        given = {path: at(observations, path) for path in parts}
        path, leaf = next(iter(parts.items()))
        return space.of(observations) if np.ndim(given[path]) == len(leaf.shape or ()) else space.rows(given)
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        raise OptionError(f"{OBSERVATION}s must be nested as {space.source}: {error}") from error


def _array(name: str, given: Any, leaf: gym.Space) -> np.ndarray:
    if not is_array(leaf):
        raise OptionError(f"{name}: {leaf} has no arrays")
    dtype, shape = np.dtype(leaf.dtype), tuple(leaf.shape or ())
    try:
        array = np.asarray(given)
    except (TypeError, ValueError, RuntimeError) as error:  # such as a tensor on a GPU
        raise OptionError(f"{name} must be an array on the CPU: {error}") from None
    if array.dtype.hasobject:
        raise OptionError(f"{name} must be an array of numbers, not {type(given).__name__}")
    if (array.shape != shape and array.shape[1:] != shape) or array.ndim - len(shape) not in (0, 1):
        some = ", ".join(map(str, shape))
        raise OptionError(
            f"{name} has shape {array.shape}; it must be [{some}] of one environment, or [B, {some}] of several"
            if shape
            else f"{name} has shape {array.shape}; it must be one number of one environment, or [B] of several"
        )
    if array.ndim > len(shape) and not len(array):
        raise OptionError(f"{name} has shape {array.shape}, which is of no environment")
    if array.dtype.kind == "f" and not (finite := np.isfinite(array)).all():
        place = tuple(np.argwhere(~finite)[0].tolist())
        raise NotFiniteError(f"{name} holds {array[place]} at {list(place)}: no action follows from it")
    if array.dtype == dtype:
        return array
    if dtype.kind in "iu" and array.dtype.kind in "iu":
        fits = bool((array.astype(dtype) == array).all())
    else:
        fits = np.can_cast(array.dtype, dtype, "same_kind")
    if not fits:
        raise OptionError(f"{name} has dtype {array.dtype}; the task's is {dtype}")
    return array.astype(dtype)
