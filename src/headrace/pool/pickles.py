"""Pickles a pool as the call that makes it and the states of its environments."""

from __future__ import annotations

import pickle
from functools import partial
from typing import Any

import numpy as np

from headrace.errors import StateError

Recipe = partial[Any]  # the call that makes a pool, with all options as keywords


def written(recipe: Recipe, task: str) -> bytes:
    """Returns the pickled call; functions of a script and lambdas are pickled by value.

    Raises:
        StateError: an option cannot be pickled, such as a lock or an open file.
    """
    from headrace.pool import by_value

    try:
        return pickle.dumps(recipe)
    except by_value.UNPICKLABLE:
        try:
            return by_value.dumps(recipe)
        except by_value.UNPICKLABLE as error:
            raise StateError(f"a pool of {task} cannot be pickled: {error}") from error


def made_again(recipe: bytes, env_ids: np.ndarray, blobs: list[bytes]) -> Any:
    """Returns a pool made by a pickled call, with saved states of ``env_ids``, int64[k]; pickle calls this."""
    pool = pickle.loads(recipe)()
    if len(env_ids):
        pool.load_state(env_ids, blobs)
    return pool
