"""Action masks as environments give them in ``info["action_mask"]``: 1 for each allowed action, 0 for others."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np

MASK = "action_mask"
GIVEN = f"_{MASK}"  # whether an environment gave one, as Gymnasium's vector environments tell it


def heads_of(space: gym.Space) -> tuple[int, ...]:
    """Returns the number of actions of each choice of a space; empty for spaces that have no masks."""
    if isinstance(space, gym.spaces.Discrete):
        return (int(space.n),)
    return tuple(map(int, space.nvec.flat)) if isinstance(space, gym.spaces.MultiDiscrete) else ()


def mask_array(mask: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Returns an environment's mask as an array of a shape, bool or int8, with 1 for allowed actions.

    Args:
        mask: the mask, of numbers that are 0 or 1; several of them in a tuple or list are concatenated, as those of the
            parts of a `MultiDiscrete`; None allows all actions.
        shape: the shape that the actions need.

    Raises:
        ValueError: it has another shape, or other elements.
    """
    if mask is None:
        return np.ones(shape, np.int8)
    given = np.concatenate([np.ravel(part) for part in mask]) if isinstance(mask, tuple | list) else np.asarray(mask)
    if given.shape != shape:
        raise ValueError(f"info[{MASK!r}] has shape {given.shape}; the actions need {shape}")
    if given.dtype == np.bool_:
        return given
    allowed = given != 0
    if not np.array_equal(given, allowed):
        raise ValueError(f"info[{MASK!r}] must be 1 for allowed actions and 0 for others, not {given}")
    return allowed.astype(np.int8)
