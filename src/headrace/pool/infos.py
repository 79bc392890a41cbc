"""Converts info dicts of single environments into one dict of arrays, as Gymnasium's vector environments do, and back.

Each key has an array with a row for each environment of a batch, and ``_key`` is a mask of the rows that are set.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from headrace.errors import EnvironmentFailure

OF_THE_BATCH = {"env_id", "players", "final_obs", "final_info", "_final_obs", "_final_info"}
OURS = frozenset(OF_THE_BATCH | {"elapsed_step", "_elapsed_step", "_env_id", "_players"})
"""names in the info of a pool's results that no environment and no task may use for its own"""
EXACT = 2**53  # integers up to here are exact as float64


def gathered(infos: Mapping[int, Mapping[Any, Any]], rows: int) -> dict[Any, Any]:
    """Returns key → array [rows, …] and ``_key`` → mask bool[rows] of the info dicts of single rows.

    An array has the dtype that holds every value: rows of ints and floats are floats. Values that no array of numbers
    holds, such as words or arrays of several shapes, are in an array of objects; dicts become one dict of arrays.

    Raises:
        EnvironmentFailure: an environment's own key is the name of another key's mask.
    """
    columns: dict[Any, dict[int, Any]] = {}
    for row, info in infos.items():
        for key, value in info.items():
            columns.setdefault(key, {})[row] = value
    result: dict[Any, Any] = {}
    for key, values in columns.items():
        mask = f"_{key}"
        if mask in columns or mask in result:
            raise EnvironmentFailure(
                f"info has {key!r} and another key with the mask {mask!r}, which says where it is set: rename one"
            )
        result[key], result[mask] = _column(values, rows), np.zeros(rows, np.bool_)
        result[mask][list(values)] = True
    return result


def _column(values: dict[int, Any], rows: int) -> Any:
    if all(isinstance(value, dict) for value in values.values()):
        return gathered(values, rows)
    column = _numbers(values, rows)
    if column is None:
        column = np.full(rows, None, object)
        for row, value in values.items():
            column[row] = value
    return column


def _numbers(values: dict[int, Any], rows: int) -> np.ndarray | None:
    """Returns an array with these rows, and zeros elsewhere; None if no dtype holds all values unchanged."""
    dtypes, shapes = {_dtype(value) for value in values.values()}, {np.shape(value) for value in values.values()}
    if None in dtypes or len(shapes) > 1:
        return None
    kinds = {dtype.kind for dtype in dtypes if dtype}
    if len(kinds) > 1 and not kinds <= set("biufc"):
        return None
    dtype = np.result_type(*dtypes)
    if len(kinds) > 1 and dtype.kind in "fc" and any(_is_large(value) for value in values.values()):
        return None
    column = np.zeros((rows, *shapes.pop()), dtype)
    try:
        for row, value in values.items():
            column[row] = value
    except OverflowError:
        return None
    return column


def _is_large(value: Any) -> bool:
    """Returns whether there are integers in a value that a float64 rounds."""
    return np.asarray(value).dtype.kind not in "bfc" and bool((np.abs(value) > EXACT).any())


def _dtype(value: Any) -> np.dtype | None:
    """Returns the dtype of a number or an array; None for anything else."""
    if type(value) in (int, float, bool):
        return np.dtype(type(value))
    if isinstance(value, np.ndarray):
        return None if value.dtype.hasobject else value.dtype
    return value.dtype if isinstance(value, np.generic) and not isinstance(value, np.flexible) else None


def masked(info: Mapping[Any, Any]) -> set[Any]:
    """Returns the keys that have a mask, and the masks."""
    masks = {f"_{key}": key for key in info}
    return {name for mask, key in masks.items() if mask in info for name in (mask, key)}


def joined(first: Mapping[Any, Any], second: Mapping[Any, Any], where: np.ndarray) -> dict[Any, Any]:
    """Returns one info of two results: rows ``where``, bool[k], are those of the first, the others of the second."""
    rows: dict[int, Any] = {}
    for info, places in ((first, where), (second, ~where)):
        own = {key: info[key] for key in masked(info)}
        rows |= zip(np.flatnonzero(places).tolist(), by_row(own, int(places.sum())), strict=True)
    return gathered(rows, len(where))


def by_row(info: Mapping[Any, Any], rows: int) -> list[dict[Any, Any]]:
    """Returns a batch's info as one dict for each row, as of a single environment; the inverse of `gathered`.

    Every dict is new. Entries about the batch (``env_id``, ``players``, final observations) are left out, as are
    values that a mask marks as not set.
    """
    return _by_row({key: value for key, value in info.items() if key not in OF_THE_BATCH}, rows)


def _by_row(info: Mapping[Any, Any], rows: int) -> list[dict[Any, Any]]:
    named = _without_masks(info)
    full = {key: _values(column, rows) for key, column in named.items() if f"_{key}" not in info}
    found = [dict(zip(full, values, strict=True)) for values in zip(*full.values(), strict=True)]
    found = found or [{} for _ in range(rows)]
    for key in [key for key in named if key not in full]:
        values = _values(info[key], rows)
        for row in np.flatnonzero(info[f"_{key}"]):
            found[row][key] = values[row]
    return found


def info_of_row(info: Mapping[Any, Any], row: int) -> dict[Any, Any]:
    """Returns one row of a batch's info, as of a single environment; see `by_row`."""
    return _info_of_row({key: value for key, value in info.items() if key not in OF_THE_BATCH}, row)


def _info_of_row(info: Mapping[Any, Any], row: int) -> dict[Any, Any]:
    return {
        key: _info_of_row(column, row) if isinstance(column, dict) else _values(column[row : row + 1], 1)[0]
        for key, column in _without_masks(info).items()
        if f"_{key}" not in info or info[f"_{key}"][row]
    }


def _without_masks(info: Mapping[Any, Any]) -> dict[Any, Any]:
    masks = {f"_{key}" for key in info}
    return {key: column for key, column in info.items() if key not in masks}


def _values(column: Any, rows: int) -> list[Any]:
    """Returns the rows of a column: Python numbers if they are scalars, else arrays."""
    if isinstance(column, dict):
        return _by_row(column, rows)
    return column.tolist() if column.ndim == 1 else list(column)
