"""A step of a pool as functions of rewards see it, in NumPy arrays or tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from headrace.pool.structure import mapped

FINAL_RESULTS = ("final_obs", "final_info", "_final_obs", "_final_info")


class Step:
    """One step of k environments, the argument of a function of rewards: NumPy arrays, or tensors of a `TorchPool`.

    Where an episode has ended and the next has begun, observation and info are those of the last step of the old one.
    ``reward`` is a copy; other arrays of NumPy cannot be written, and tensors must not be.

    Attributes:
        reward: float32[k], or [k, agents].
        terminated, truncated: bool[k].
    """

    __slots__ = ("_info", "_obs", "reward", "terminated", "truncated")

    def __init__(self, obs: Any, reward: Any, terminated: Any, truncated: Any, info: Mapping[str, Any]):
        self._obs, self._info, self.reward = obs, info, copy(reward)
        self.terminated, self.truncated = unwritable(terminated), unwritable(truncated)

    @property
    def obs(self) -> Any:
        """The observations [k, …] after the step."""
        final = self._info.get("final_obs")
        return mapped(unwritable, self._obs) if final is None else mapped(self._last, self._obs, final)

    @property
    def info(self) -> dict[str, Any]:
        """The step's info, name → [k, …], with ``env_id`` int32[k]."""
        own = {name: now for name, now in self._info.items() if name not in FINAL_RESULTS}
        final = self._info.get("final_info")
        return each(unwritable, own) if final is None else each(self._last, own, final)

    def _last(self, now: Any, final: Any) -> Any:
        """Returns rows of ``final`` where an episode has ended, of ``now`` elsewhere; None has no value in any row."""
        if final is None:
            final = np.full_like(now, None if now.dtype.hasobject else 0)
        return final if now is None else where(self.terminated | self.truncated, final, now)


# -- arrays and tensors --------------------------------------------------------------------------


def is_tensor(array: Any) -> bool:
    return not isinstance(array, np.ndarray | np.generic)


def is_real(array: Any) -> bool:
    if not isinstance(array, np.ndarray) and hasattr(array, "is_complex"):  # a tensor
        return not array.is_complex()
    return np.asarray(array).dtype.kind in "biuf"


def zeros(like: Any, shape: tuple[int, ...], dtype: str) -> Any:
    """Returns zeros, an array or, like ``like``, a tensor on its device."""
    if not is_tensor(like):
        return np.zeros(shape, dtype)
    import torch

    return torch.zeros(shape, dtype=getattr(torch, dtype), device=like.device)


def where(condition: Any, yes: Any, no: Any) -> Any:
    """Returns rows [k, …] of ``yes`` where ``condition``, bool[k], is True, and of ``no`` elsewhere."""
    wide = condition.reshape(-1, *(1,) * (len(yes.shape) - 1))
    if not is_tensor(condition):
        return np.where(wide, yes, no)
    import torch

    return torch.where(wide, yes, torch.as_tensor(no, dtype=yes.dtype, device=yes.device))


def each(function: Callable[..., Any], *infos: Any) -> Any:
    """Returns a dict of what a function makes of the arrays of nested dicts; it gets None for a key that one lacks."""
    if not isinstance(infos[-1], dict) and not isinstance(infos[0], dict):
        return function(*infos)
    known = [info for info in infos if isinstance(info, dict)]  # a key may have words in one row and a dict in another
    return {
        name: each(function, *(info.get(name) if isinstance(info, dict) else None for info in infos))
        for name in dict.fromkeys(name for info in known for name in info)
    }


def unwritable(array: Any) -> Any:
    """Returns a view of an array that cannot be written; a tensor itself."""
    if is_tensor(array):
        return array
    view = array.view()
    view.flags.writeable = False
    return view


def copy(array: Any) -> Any:
    return array.clone() if is_tensor(array) else array.copy()
