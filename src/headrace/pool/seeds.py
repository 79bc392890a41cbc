"""Converts a seed, a list of seeds or None into one 64-bit seed for each environment."""

from __future__ import annotations

import random
import secrets
import sys
from collections.abc import Sequence

import numpy as np

from headrace.errors import OptionError

SeedLike = int | Sequence[int] | np.ndarray | None


def seeds_of(seed: SeedLike, env_ids: np.ndarray) -> np.ndarray:
    """Returns uint64[k]: ``seed + env_id`` for an integer, the list's values for a list, fresh entropy for None.

    With an integer, an environment's seed depends only on its own env_id, not on the environments reset with it.

    Raises:
        OptionError: a seed is not an integer in [0, 2**64), or a list does not have k elements.
    """
    if seed is None:
        seed = secrets.randbits(62)
    if isinstance(seed, int | np.integer) and not isinstance(seed, bool):
        last = int(seed) + int(env_ids.max(initial=0))
        if seed < 0 or last >= 2**64:
            raise OptionError(f"seed {seed} is not in [0, 2**64): use a non-negative integer")
        return np.uint64(seed) + env_ids.astype(np.uint64)
    try:
        values = [int(s) for s in seed]  # type: ignore[union-attr]
        whole = all(isinstance(s, int | np.integer) and not isinstance(s, bool | np.bool_) for s in seed)  # type: ignore[union-attr]
    except (TypeError, ValueError):
        raise OptionError(f"seed must be an integer, a list of integers, or None, not {seed!r}") from None
    if not whole:
        raise OptionError("seeds must be integers")
    if len(values) != len(env_ids):
        raise OptionError(f"{len(values)} seeds were given for {len(env_ids)} environments")
    for env_id, value in zip(env_ids, values, strict=True):
        if not 0 <= value < 2**64:
            raise OptionError(f"seed {value} of environment {env_id} is not in [0, 2**64)")
    return np.array(values, np.uint64)


def seed_globals(seed: int) -> None:
    """Seeds this process's global generators: those of `random`, of NumPy, and of PyTorch if it is imported.

    A process inherits them from the one that it is forked from, so that all would draw the same.
    """
    random.seed(seed)
    np.random.seed(np.random.SeedSequence(seed).generate_state(4))
    if torch := sys.modules.get("torch"):
        torch.default_generator.manual_seed(seed)


def mixed(numbers: np.ndarray) -> np.ndarray:
    """Returns uint64[k], each a well-mixed function of a number alone (SplitMix64; Steele, Lea and Flood, 2014)."""
    z = numbers + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))
