"""EnvPool's description of one array of a batch, with EnvPool's names and dtypes."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np

from headrace.pool.batch import OBS
from headrace.pool.spec import TaskSpec


class ArraySpec:
    """EnvPool's description of one array of a batch.

    Attributes:
        dtype: the dtype of its elements.
        shape: the shape of one environment's row; the first extent is -1 if EnvPool has a row for each player.
        minimum, maximum: bounds of the elements: one number, or an array if they differ between elements.
        is_discrete: whether its values are discrete choices.
    """

    def __init__(self, dtype: Any, shape: list[int], low: Any = None, high: Any = None, is_discrete: bool = False):
        self.dtype, self.shape, self.is_discrete = np.dtype(dtype), shape, is_discrete
        lowest, highest = _limits(self.dtype)
        self.minimum = lowest if low is None else _one(low)
        self.maximum = highest if high is None else _one(high)

    def __repr__(self) -> str:
        return f"ArraySpec(shape={self.shape}, dtype={self.dtype}, minimum={self.minimum}, maximum={self.maximum})"


def observed_name(spec: TaskSpec) -> str:
    """Returns EnvPool's name of an observation that is a single array."""
    return "pixels" if spec.options.get("from_pixels") else OBS


def action_dtype(space: gym.Space) -> np.dtype:
    """Returns EnvPool's dtype of actions: int32 for discrete ones. A pool accepts any integer dtype."""
    return np.dtype(np.int32) if isinstance(space, gym.spaces.Discrete) else np.dtype(space.dtype)


def _limits(dtype: np.dtype) -> tuple[Any, Any]:
    if dtype.kind == "b":
        return False, True
    if dtype.kind in "iu":
        return int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    return -np.inf, np.inf


def _one(bound: Any) -> Any:
    """Returns a bound as one number if it is the same for all elements, else as an array."""
    values = np.unique(bound)
    return values[0].item() if values.size == 1 else np.asarray(bound)
