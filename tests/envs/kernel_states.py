"""The state of a pool's kernel environments, for tests that begin where a reference does."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

import headrace


def arrays_of(pool: headrace.Pool) -> Mapping[str, np.ndarray]:
    """Field of the environment's ``state`` → the pool's own array [N, …]: the next step finds what is written there."""
    return pool._executor.state_arrays()
