"""Kernels that check arguments without waiting for the device.

Reading an action on a GPU from the host would synchronise with the device. A kernel checks it instead: it copies valid
values into the pool's own memory, replaces invalid ones by harmless values, and records the first invalid row on the
device. A later call that waits for the device anyway turns these records into an exception.
"""

# pyright: reportGeneralTypeIssues=false, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false

import functools
from typing import Any

import warp as wp

NONE = 2**31 - 1  # no row is wrong
ACTION, ENV_ID, REPEATED, FINISHED = range(4)  # kinds of errors: indices of the array ``wrong``
WRONG_ACTION, WRONG_ENV_ID = wp.constant(ACTION), wp.constant(ENV_ID)
WRONG_REPEATED, WRONG_FINISHED = wp.constant(REPEATED), wp.constant(FINISHED)


@functools.cache
def integer_guard(dtype: Any) -> Any:
    """Returns a kernel over elements that copies ``given`` to ``kept``, clipped to [low, high] of its column."""

    def guard_integers(given, low, high, kept, wrong):
        i = wp.tid()
        column = i % low.shape[0]
        value = given[i]
        if value < low[column] or value > high[column]:
            wp.atomic_min(wrong, WRONG_ACTION, i // low.shape[0])
            value = wp.clamp(value, low[column], high[column])
        kept[i] = value

    return _kernel(guard_integers, dtype, bounds=2)


@functools.cache
def float_guard(dtype: Any) -> Any:
    """Returns a kernel over elements that copies ``given`` to ``kept``, with 0 for NaN and values beyond ±``limit``.

    A row has ``columns`` elements.
    """

    def guard_floats(given, columns, limit, kept, wrong):
        i = wp.tid()
        value = given[i]
        if not (wp.abs(value) <= limit):
            wp.atomic_min(wrong, WRONG_ACTION, i // columns)
            value = value.dtype(0.0)
        kept[i] = value

    return _kernel(guard_floats, dtype, bounds=0)


def _kernel(function: Any, dtype: Any, bounds: int) -> Any:
    array = wp.array(dtype=dtype, ndim=1)
    rest = {"low": array, "high": array} if bounds else {"columns": int, "limit": dtype}
    function.__annotations__ = {"given": array, **rest, "kept": array, "wrong": wp.array(dtype=wp.int32, ndim=1)}
    return wp.kernel(function, module="unique", enable_backward=False)


@functools.cache
def env_id_guard(dtype: Any) -> Any:
    """Returns a kernel over rows that copies ``given`` to ``env_ids`` and replaces invalid numbers by valid ones.

    It records in ``claims`` [num_envs] one of the rows that name each environment, for `repeat_guard`.
    """

    def guard_env_ids(given, claims, env_ids, wrong):
        row = wp.tid()
        env_id = wp.int64(given[row])
        if env_id < wp.int64(0) or env_id >= wp.int64(claims.shape[0]):
            wp.atomic_min(wrong, WRONG_ENV_ID, row)
            env_id = wp.int64(row)
        env_ids[row] = wp.int32(env_id)
        claims[wp.int32(env_id)] = row

    array = wp.array(dtype=wp.int32, ndim=1)
    guard_env_ids.__annotations__ = {"given": wp.array(dtype=dtype, ndim=1), "claims": array, "env_ids": array}
    guard_env_ids.__annotations__["wrong"] = array
    return wp.kernel(guard_env_ids, module="unique", enable_backward=False)


@wp.kernel(module="unique", enable_backward=False)
def repeat_guard(claims: wp.array[wp.int32], env_ids: wp.array[wp.int32], wrong: wp.array[wp.int32]):
    """Records rows whose environment another row names, too; launched over rows."""
    row = wp.tid()
    if claims[env_ids[row]] != row:
        wp.atomic_min(wrong, WRONG_REPEATED, row)


@wp.kernel(module="unique", enable_backward=False)
def finished_guard(over: wp.array[wp.bool], env_ids: wp.array[wp.int32], wrong: wp.array[wp.int32]):
    """Records rows whose environment must be reset, since autoreset is disabled and its episode is over; over rows."""
    row = wp.tid()
    if over[env_ids[row]]:
        wp.atomic_min(wrong, WRONG_FINISHED, row)
