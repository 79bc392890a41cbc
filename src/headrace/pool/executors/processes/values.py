"""What an environment returns, as the arrays of a batch hold it.

NumPy casts in silence: 0.9 to 0 and 300 to 44 as uint8, any object to a bool. Here a value that its dtype does not hold
is an error that names it; only floats may be rounded to floats.
"""

from __future__ import annotations

from typing import Any

import numpy as np

LARGEST = float(np.finfo(np.float32).max)


def fitted(value: Any, dtype: np.dtype, shape: tuple[int, ...], what: str) -> np.ndarray:
    """Returns an array of this dtype and shape with the same numbers; ``what`` names the value in errors.

    Raises:
        ValueError: the shape is another one, or the dtype does not hold a number.
        TypeError: the value holds something that is not a number.
    """
    array = np.asarray(value)
    if array.dtype.hasobject:
        array = np.asarray(array.tolist())
    if array.shape != shape:
        raise ValueError(f"{what} has shape {array.shape}; its space says {shape}")
    if np.can_cast(array.dtype, dtype):
        return array
    if array.dtype.kind not in "biuf":
        raise TypeError(f"{what} must hold numbers of {dtype}, not {value!r}")
    with np.errstate(over="ignore", invalid="ignore"):
        cast = array.astype(dtype)
    wrong = np.isinf(cast) & np.isfinite(array) if dtype.kind == "f" else cast != array
    if wrong.any():
        raise ValueError(f"{what} holds {array[wrong].flat[0]}, which {dtype} does not: its space says {dtype}")
    return cast


def reward_of(value: Any, what: str = "reward") -> float:
    """Returns a reward as a float that float32 holds; raises `TypeError` or `ValueError` for what is no such number."""
    if not isinstance(value, int | float):
        array = np.asarray(value)
        if array.dtype.kind not in "biuf":
            raise TypeError(f"step gave {what}={value!r}, which must be a number")
        if array.size != 1:
            raise ValueError(
                f"step gave {what}={value!r}, which must be one number: add several up in a wrapper, as "
                "mo_gymnasium.wrappers.LinearReward does"
            )
        value = array.item()
    if LARGEST < abs(value) < float("inf"):
        raise ValueError(f"step gave {what}={value!r}, which is too large for float32")
    return float(value)


def flag_of(value: Any, what: str) -> bool:
    """Returns a bool given as one, or as the number 0 or 1; raises `TypeError` for anything else."""
    if isinstance(value, bool | np.bool_):
        return bool(value)
    array = np.asarray(value)
    if array.size != 1 or array.dtype.kind not in "biuf" or array.item() not in (0, 1):
        raise TypeError(f"step gave {what}={value!r}, which must be True or False")
    return bool(array.item())
