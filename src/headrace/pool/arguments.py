"""Validates the arguments of a pool's calls: timeouts, resets, and arrays to write into."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from headrace.errors import OptionError
from headrace.pool.actions import check_env_ids
from headrace.pool.batch import rows_of
from headrace.pool.seeds import SeedLike, seeds_of
from headrace.pool.spec import Field

A_LIFETIME = 1e9  # seconds; longer timeouts count as no timeout


def patience_of(timeout: float | None) -> float | None:
    """Returns a timeout of `recv` in seconds, or None to wait without limit.

    Raises:
        OptionError: the timeout is neither None nor a number ≥ 0.
    """
    if timeout is None:
        return None
    number = isinstance(timeout, int | float | np.integer | np.floating) and not isinstance(timeout, bool)
    if not number or not timeout >= 0:
        raise OptionError(f"timeout must be a number of seconds ≥ 0, or None, not {timeout!r}")
    return None if timeout >= A_LIFETIME else float(timeout)


def reset_arguments(
    env_id: Any, seed: SeedLike, options: Mapping[str, Any] | None, all_env_ids: np.ndarray, takes_options: bool
) -> tuple[np.ndarray | None, np.ndarray | None, dict[str, Any]]:
    """Checks the arguments of `Pool.reset`.

    Returns:
        The environments to reset, int32[k] (None: all); their seeds, uint64[k] (None: their streams continue); and the
        options for the environments' own ``reset``.

    Raises:
        OptionError, EnvIdError: an argument is wrong, or two contradict each other.
    """
    num_envs = len(all_env_ids)
    if not isinstance(options, Mapping | None):
        raise OptionError(f"reset's options must be a dict or None, not {options!r}")
    own = {name: value for name, value in (options or {}).items() if name != "reset_mask"}
    if own and not takes_options:
        raise OptionError(f"reset has no option {next(iter(own))!r}; it knows reset_mask")
    if options and options.get("reset_mask") is not None:
        mask = np.asarray(options["reset_mask"])
        if mask.dtype != np.bool_ or mask.shape != (num_envs,) or not mask.any():
            raise OptionError(f"reset_mask must be bool[{num_envs}] with at least one True")
        if env_id is not None:
            raise OptionError("give env_id or reset_mask, not both")
        env_id = np.flatnonzero(mask)
        if isinstance(seed, list | tuple | np.ndarray) and len(seed) == num_envs:
            seed = np.asarray(seed)[env_id]
    ids = None if env_id is None else check_env_ids(env_id, num_envs)
    seeds = None if seed is None else seeds_of(seed, all_env_ids if ids is None else ids)
    return ids, seeds, own


def given_arrays(arrays: Any, more: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the arrays of `Pool.make_batch`'s arguments by name; raises `OptionError` for what is no dict of them."""
    if not isinstance(arrays, Mapping | None):
        what = "a dict, name of a batch's field → array, or a batch from make_batch"
        raise OptionError(f"what a step writes to must be {what}, not {describe(arrays)}")
    return {**(arrays or {}), **more}


def describe(value: object) -> str:
    """Returns a value in words for a message, an array by its type alone."""
    return repr(value) if isinstance(value, str | int | float) else f"an object of type {type(value).__name__}"


def bound_arrays(
    arrays: Mapping[str, Any], fields: Sequence[Field], num_envs: int
) -> tuple[int, dict[str, np.ndarray]]:
    """Checks a caller's arrays for results; returns their number of rows and the arrays. See `Pool.make_batch`.

    Raises:
        OptionError: an array has the wrong name, shape, dtype or memory layout.
    """
    given, known = {name: np.asarray(array) for name, array in arrays.items()}, {f.name: f for f in fields}
    rows = rows_of(given, known, num_envs)
    for name, array in given.items():
        f = known[name]
        if array.shape != (rows, *f.shape) or array.dtype != f.dtype:
            raise OptionError(f"{name} must be {f.dtype}{[rows, *f.shape]}, not {array.dtype}{list(array.shape)}")
        if not (array.flags.c_contiguous and array.flags.writeable and array.flags.aligned):
            raise OptionError(f"{name} must be C-contiguous, aligned and writeable")
    return rows, given
