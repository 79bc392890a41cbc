"""Validates actions and env_ids once, before any environment receives them.

The checks are part of every step, so each makes a single pass over the array: a view as unsigned integers merges both
bounds into one comparison, and for a handful of numbers plain Python is faster than NumPy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import gymnasium as gym
import numpy as np

from headrace.errors import ActionError, EnvIdError, OptionError
from headrace.pool.structure import Path, check_names, is_array, leaves

Actions = np.ndarray | dict[str, np.ndarray]
ActionCheck = Callable[[Any, int], Actions]
ArrayCheck = Callable[[Any, int], np.ndarray]
ACTION = "action"
A_HANDFUL = 16
FARTHEST = 1e9
UNSIGNED = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


def action_fields(space: gym.Space) -> dict[str, tuple[np.dtype, tuple[int, ...]]]:
    """Returns name → (dtype, row shape) of the arrays that hold actions: ``action``, or one for each leaf space.

    Raises:
        OptionError: two leaves have one name, or the values of one are no arrays of one shape.
    """
    check_names(space)
    named = {action_name(path): leaf for path, leaf in leaves(space).items()}
    for leaf in named.values():
        if not is_array(leaf):
            raise OptionError(
                f"a pool's actions are Discrete, MultiDiscrete, MultiBinary, Box, or dicts and tuples of those, not "
                f"{leaf}: wrap the environment in a gymnasium.ActionWrapper that has such actions"
            )
    return {name: (np.dtype(leaf.dtype), tuple(leaf.shape or ())) for name, leaf in named.items()}


def action_name(path: Path) -> str:
    """Returns the name of a leaf's actions: its keys, such as ``"left:arm"``, or ``"action"`` for a single leaf."""
    return ":".join(map(str, path)) or ACTION


def action_columns(actions: Actions) -> dict[str, np.ndarray]:
    """Returns checked actions as a dict with the names of `action_fields`."""
    return actions if isinstance(actions, dict) else {ACTION: actions}


def unpacked(action: Any, env_id: Any, space: gym.Space) -> tuple[Any, Any]:
    """Returns the actions and env_ids of a call, which may come in one dict, as in EnvPool.

    Raises:
        ActionError: the dict does not hold exactly one array of actions.
    """
    if not isinstance(action, dict):
        return action, env_id
    own = space.spaces if isinstance(space, gym.spaces.Dict) else ()
    named = {k: action[k] for k in ("env_id", "players.env_id", "players") if k in action and k not in own}
    rest, env_id = {k: v for k, v in action.items() if k not in named}, named.get("env_id", env_id)
    if isinstance(space, gym.spaces.Dict | gym.spaces.Tuple):
        return rest, env_id
    if len(rest) != 1:
        raise ActionError(f"a dict of actions holds one action array and env_id, not {sorted(action)}")
    return next(iter(rest.values())), env_id


def whole_numbers(action: Any, space: gym.Space) -> Any:
    """Returns a float array of discrete choices as int64 if all values are whole; other values unchanged."""
    if not isinstance(action, np.ndarray) or action.dtype.kind != "f":
        return action
    choices = isinstance(space, gym.spaces.Discrete | gym.spaces.MultiDiscrete | gym.spaces.MultiBinary)
    return action.astype(np.int64) if choices and np.array_equal(action, np.rint(action)) else action


def action_check(space: gym.Space) -> ActionCheck:
    """Returns a function (action, rows) → C-contiguous [rows, *shape] array of the space's dtype, or a dict of them.

    The function raises `ActionError` for a wrong shape or dtype, for an integer outside the space, and for NaN,
    infinity, or a float beyond `farthest`. Other numbers outside a `Box` pass: environments clip or penalise them as
    the originals do.
    """
    if isinstance(space, gym.spaces.Dict):
        return _dict({str(name): action_check(sub) for name, sub in space.spaces.items()})
    if isinstance(space, gym.spaces.Tuple):
        return _tuple([action_check(sub) for sub in space.spaces])
    return _array_check(space)


def _array_check(space: gym.Space) -> ArrayCheck:
    if isinstance(space, gym.spaces.Discrete):
        return _discrete(np.dtype(space.dtype), int(space.start), int(space.n))
    if isinstance(space, gym.spaces.MultiDiscrete):
        return _multi_discrete(space)
    if isinstance(space, gym.spaces.Box):
        return _box(space)
    assert isinstance(space, gym.spaces.MultiBinary)
    return _multi_binary(space)


def _array(action: Any, dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
    if type(action) is np.ndarray and action.dtype == dtype and action.shape == shape and action.flags.c_contiguous:
        return action
    try:
        array = np.asarray(action)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ActionError(f"actions must be an array of shape {shape}: {error}") from None
    if array.shape != shape:
        raise ActionError(f"actions have shape {array.shape}; this call needs {shape}, one row an environment")
    if not np.can_cast(array.dtype, dtype, "same_kind"):
        raise ActionError(f"actions have dtype {array.dtype}; this task needs {dtype}")
    with np.errstate(over="ignore"):  # overflow gives infinity, which is refused later
        cast = np.ascontiguousarray(array, dtype)
    if dtype.kind in "iu" and not np.can_cast(array.dtype, dtype) and (wrapped := cast != array).any():
        raise ActionError(f"action {array[wrapped].flat[0]} does not fit into {dtype}")
    return cast


def _dict(checks: dict[str, ActionCheck]) -> ActionCheck:
    def check(action: Any, rows: int) -> dict[str, np.ndarray]:
        if not isinstance(action, dict) or action.keys() != checks.keys():
            given = sorted(map(str, action)) if isinstance(action, dict) else type(action).__name__
            raise ActionError(f"actions must be a dict with an array for each of {sorted(checks)}, not {given}")
        return _checked(checks, action, rows)

    return check


def _tuple(checks: list[ActionCheck]) -> ActionCheck:
    numbered = {str(i): check for i, check in enumerate(checks)}

    def check(action: Any, rows: int) -> dict[str, np.ndarray]:
        if not isinstance(action, tuple | list) or len(action) != len(checks):
            raise ActionError(f"actions must be a tuple of {len(checks)}, with an array of {rows} rows for each part")
        return _checked(numbered, dict(zip(numbered, action, strict=True)), rows)

    return check


def _checked(checks: Mapping[str, ActionCheck], action: Mapping[str, Any], rows: int) -> dict[str, np.ndarray]:
    """Returns the checked parts of an action by the names of `action_fields`."""
    checked: dict[str, np.ndarray] = {}
    for name, one in checks.items():
        try:
            part = one(action[name], rows)
        except ActionError as error:
            raise ActionError(f"{name}: {error}") from None
        checked |= {f"{name}:{more}": array for more, array in part.items()} if isinstance(part, dict) else {name: part}
    return checked


def _discrete(dtype: np.dtype, start: int, n: int) -> ArrayCheck:
    unsigned, highest = UNSIGNED[dtype.itemsize], np.maximum.reduce

    def check(action: Any, rows: int) -> np.ndarray:
        array = _array(action, dtype, (rows,))
        if rows <= A_HANDFUL:
            values = array.tolist()
            if start <= min(values) and max(values) < start + n:
                return array
        elif start == 0 and highest(array.view(unsigned)) < n:
            return array
        wrong = np.flatnonzero((array < start) | (array >= start + n))
        if wrong.size:
            row = wrong[0]
            raise ActionError(f"action {array[row]} in row {row} is not in [{start}, {start + n - 1}]")
        return array

    return check


def _multi_discrete(space: gym.spaces.MultiDiscrete) -> ArrayCheck:
    dtype, shape, low = np.dtype(space.dtype), tuple(space.nvec.shape), space.start
    high = low + space.nvec
    unsigned, highest = UNSIGNED[dtype.itemsize], np.maximum.reduce
    alike = shape != (0,) and not low.any() and (space.nvec == space.nvec.flat[0]).all()
    limit = int(space.nvec.flat[0]) if alike else 0

    def check(action: Any, rows: int) -> np.ndarray:
        array = _array(action, dtype, (rows, *shape))
        if limit and highest(array.view(unsigned), None) < limit:
            return array
        wrong = np.argwhere((array < low) | (array >= high))
        if wrong.size:
            at = tuple(int(i) for i in wrong[0])
            raise ActionError(f"action {array[at]} at {at} is not in [{low[at[1:]]}, {high[at[1:]] - 1}]")
        return array

    return check


def _multi_binary(space: gym.spaces.MultiBinary) -> ArrayCheck:
    dtype, shape, highest = np.dtype(space.dtype), tuple(space.shape), np.maximum.reduce

    def check(action: Any, rows: int) -> np.ndarray:
        array = _array(action, dtype, (rows, *shape))
        if highest(array.view(np.uint8), None) > 1:
            at = tuple(int(i) for i in np.argwhere(array.view(np.uint8) > 1)[0])
            raise ActionError(f"action {array[at]} at {at} is not in [0, 1]")
        return array

    return check


def farthest(space: gym.Space) -> float:
    """Returns the largest magnitude of a valid float action: ``FARTHEST``, or the space's own bound if that is larger.

    Many rewards subtract the squares of actions, which must not overflow a float32.
    """
    ends = np.abs([getattr(space, "low", 0), getattr(space, "high", 0)])
    return max(FARTHEST, float(np.max(ends, where=np.isfinite(ends), initial=0)))


def _box(space: gym.spaces.Box) -> ArrayCheck:
    dtype, shape = np.dtype(space.dtype), space.shape
    floating, highest = dtype.kind == "f" and 0 not in shape, np.maximum.reduce
    limit = np.asarray(min(farthest(space), float(np.finfo(dtype.name).max)) if floating else 0, dtype)
    low, high = space.low, space.high
    whole = dtype.kind in "iu" and (np.any(low > np.iinfo(dtype.name).min) or np.any(high < np.iinfo(dtype.name).max))

    def check(action: Any, rows: int) -> np.ndarray:
        array = _array(action, dtype, (rows, *shape))
        if floating and not highest(np.abs(array), None) <= limit:  # the maximum is NaN if an element is
            at = tuple(int(i) for i in np.argwhere(~(np.abs(array) <= limit))[0])
            if np.isfinite(array[at]):
                raise ActionError(
                    f"action {array[at]} at {at} is too far outside of {space}: at most ±{limit:g} is accepted"
                )
            raise ActionError(f"action {array[at]} at {at} is not finite")
        if whole and (outside := (array < low) | (array > high)).any():
            at = tuple(int(i) for i in np.argwhere(outside)[0])
            raise ActionError(f"action {array[at]} at {at} is not in [{low[at[1:]]}, {high[at[1:]]}]")
        return array

    return check


def check_env_ids(env_id: Any, num_envs: int) -> np.ndarray:
    """Returns env_ids as int32[k]; raises `EnvIdError` unless they are distinct integers in [0, num_envs)."""
    try:
        ids = np.atleast_1d(np.asarray(env_id))
    except (TypeError, ValueError, RuntimeError) as error:
        raise EnvIdError(f"env_id must be a list of integers: {error}") from None
    if ids.ndim != 1 or ids.size == 0:
        raise EnvIdError(f"env_id must be a list of at least one environment, got shape {ids.shape}")
    if ids.dtype.kind not in "iu":
        raise EnvIdError(f"env_id must be integers, got dtype {ids.dtype}")
    if ids.min() < 0 or ids.max() >= num_envs:
        wrong = ids[(ids < 0) | (ids >= num_envs)][0]
        raise EnvIdError(f"env_id {wrong} is not in [0, {num_envs - 1}]")
    ids = np.array(ids, np.int32)  # a copy: the caller may change its own array while these are in flight
    counts = np.bincount(ids)
    if counts.max() > 1:
        raise EnvIdError(f"env_id {counts.argmax()} is named more than once")
    return ids
