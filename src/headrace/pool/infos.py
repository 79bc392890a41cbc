"""Converts info dicts of single environments into one dict of arrays, as Gymnasium's vector environments do, and back.

Each key has an array with a row for each environment of a batch, and ``_key`` is a mask of the rows that are set.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

OF_THE_BATCH = {"env_id", "players", "final_obs", "final_info", "_final_obs", "_final_info"}


def gathered(infos: dict[int, dict[str, Any]], rows: int) -> dict[str, Any]:
    """Returns key → array [rows, …] and ``_key`` → mask bool[rows] of the info dicts of single rows."""
    result: dict[str, Any] = {}
    for row, info in infos.items():
        _add(result, info, row, rows)
    return result


def _add(result: dict[str, Any], info: dict[str, Any], row: int, rows: int) -> None:
    for key, value in info.items():
        if isinstance(value, dict):
            _add(result.setdefault(key, {}), value, row, rows)
        else:
            array = result.get(key)
            if array is None:
                array = result[key] = _column(value, rows)
            try:
                if array.dtype != object and np.shape(value) != array.shape[1:]:
                    raise ValueError("NumPy would spread it over the row")
                array[row] = value
            except (TypeError, ValueError, OverflowError):  # the value has another type or shape than the first one
                array = result[key] = _objects(array, result.get(f"_{key}"))
                array[row] = value
        mask = result.get(f"_{key}")
        if mask is None:
            mask = result[f"_{key}"] = np.zeros(rows, np.bool_)
        mask[row] = True


def _column(value: Any, rows: int) -> np.ndarray:
    if type(value) in (int, float, bool) or isinstance(value, np.generic):
        return np.zeros(rows, type(value))
    if isinstance(value, np.ndarray) and value.dtype != object:
        return np.zeros((rows, *value.shape), value.dtype)
    return np.full(rows, None, object)


def _objects(array: np.ndarray, mask: np.ndarray | None) -> np.ndarray:
    result = np.full(len(array), None, object)
    for row in () if mask is None else np.flatnonzero(mask):
        result[row] = array[row]
    return result


def by_row(info: Mapping[str, Any], rows: int) -> list[dict[str, Any]]:
    """Returns a batch's info as one dict for each row, as of a single environment; the inverse of `gathered`.

    Every dict is new. Entries about the batch (``env_id``, ``players``, final observations) are left out, as are
    values that a mask marks as not set.
    """
    named = {key: info[key] for key in info if key not in OF_THE_BATCH and not _is_mask(key, info)}
    full = {key: _values(info[key], rows) for key in named if f"_{key}" not in info}
    found = [dict(zip(full, values, strict=True)) for values in zip(*full.values(), strict=True)]
    found = found or [{} for _ in range(rows)]
    for key in named.keys() - full.keys():
        values = _values(info[key], rows)
        for row in np.flatnonzero(info[f"_{key}"]):
            found[row][key] = values[row]
    return found


def info_of_row(info: Mapping[str, Any], row: int) -> dict[str, Any]:
    """Returns one row of a batch's info, as of a single environment; see `by_row`."""
    one = {key: info[key] for key in info if key not in OF_THE_BATCH and not _is_mask(key, info)}
    return {
        key: info_of_row(value, row) if isinstance(value, dict) else _values(value[row : row + 1], 1)[0]
        for key, value in one.items()
        if f"_{key}" not in info or info[f"_{key}"][row]
    }


def _is_mask(key: str, info: Mapping[str, Any]) -> bool:
    return key[:1] == "_" and key[1:] in info


def _values(column: Any, rows: int) -> list[Any]:
    """Returns the rows of a column: Python numbers if they are scalars, else arrays."""
    if isinstance(column, dict):
        return by_row(column, rows)
    return column.tolist() if column.ndim == 1 else list(column)
