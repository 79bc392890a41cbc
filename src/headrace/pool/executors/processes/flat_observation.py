"""Observations of several parts, or of categories, as one array, as learners take them."""

from __future__ import annotations

import re
import zlib
from typing import Any

import gymnasium as gym
import numpy as np

from headrace.errors import OptionError
from headrace.pool.structure import at, leaves

WORDS = 64
"""columns of a text; by the hash of a word, each counts its words"""


def flattened(env: Any) -> gym.Env:
    """Returns an environment with one array as observation: of arrays as Gymnasium's ``flatten``, of texts their words.

    Numbers of a `Box` stay as they are, categories become one-hot, and a text becomes int64[WORDS], the numbers of its
    words by their hashes: word order is lost.

    Raises:
        OptionError: a part of the space is neither an array nor a text.
    """
    space = env.observation_space
    parts = leaves(space) if isinstance(space, gym.Space) else {}
    texts = {path for path, leaf in parts.items() if _is_text(leaf)}
    if not parts or not all(path in texts or _is_flattenable(leaf) for path, leaf in parts.items()):
        raise OptionError(f"there is no one array of {space}")
    if not texts:
        return gym.wrappers.FlattenObservation(env)
    boxes: list[Any] = [
        gym.spaces.Box(0, np.inf, (WORDS,), np.int64) if path in texts else gym.spaces.flatten_space(leaf)
        for path, leaf in parts.items()
    ]
    low, high = (np.concatenate([getattr(box, name) for box in boxes]) for name in ("low", "high"))

    def flat(observation: Any) -> np.ndarray:
        rows: list[Any] = [
            words_of(at(observation, path)) if path in texts else gym.spaces.flatten(leaf, at(observation, path))
            for path, leaf in parts.items()
        ]
        return np.concatenate(rows).astype(np.float32)

    as_floats = gym.spaces.Box(low.astype(np.float32), high.astype(np.float32), dtype=np.float32)
    return gym.wrappers.TransformObservation(env, flat, as_floats)


def words_of(text: str) -> np.ndarray:
    """Returns how many words of a text have each hash, int64[WORDS]; the hash is the same in every process."""
    hashes = [zlib.crc32(word.encode()) % WORDS for word in re.findall(r"\w+", text.lower())]
    return np.bincount(hashes, minlength=WORDS) if hashes else np.zeros(WORDS, np.int64)


def _is_text(space: gym.Space) -> bool:
    if isinstance(space, gym.spaces.Text):
        return True
    try:
        return isinstance(space.sample(), str)
    except NotImplementedError:
        return False


def _is_flattenable(space: gym.Space) -> bool:
    try:
        return bool(space.is_np_flattenable)
    except NotImplementedError:  # a space of somebody's own
        return False
