"""Observations of several parts, or of categories, as one array, as learners take them."""

from __future__ import annotations

import math
import re
import zlib
from collections.abc import Collection, Mapping
from typing import Any

import gymnasium as gym
import numpy as np

from headrace.errors import OptionError
from headrace.pool.options import Checked, Option
from headrace.pool.structure import Path, at, leaves

WORDS = 64
"""columns of a text; by the hash of a word, each counts its words"""
SIDE = 8
"""least height and width of a picture, in pixels"""
PICTURES = "pictures"
"""the value of the option ``flat_observation`` with which pictures stay pictures, for a CNN"""


class Joined(gym.spaces.Box):
    """The space of one array with all that an environment observes.

    Its parts follow each other: numbers of a `Box` as they are, categories one-hot as by Gymnasium's ``flatten``, and
    of a text int64[WORDS], the numbers of its words by their hashes, without their order. Pictures that are kept come
    last, channels first. An observation that is one picture alone is uint8[C, H, W] then. The dtype holds all parts; it
    is float64 beside texts and pictures only if it must be for numbers that float32 would round.

    Args:
        source: the space of the environment's observations.
        keep: whether pictures are kept.
        texts: the parts that are texts, as bytes, beside those of spaces of texts.
        dtype: the dtype of the array, where it is not to be that.

    Attributes:
        pictures: the spaces of the pictures that are kept, uint8[C, H, W], in the order of the array.
        numbers: the elements before the pictures.

    Raises:
        OptionError: a part of the space is neither an array nor a text.
    """

    def __init__(self, source: gym.Space, keep: bool = False, texts: Collection[Path] = (), dtype: Any = None):
        parts = leaves(source) if isinstance(source, gym.Space) else {}
        if not parts or not all(_is_text(leaf) or _is_flattenable(leaf) for leaf in parts.values()):
            raise OptionError(f"{source} cannot be flattened into one array")
        shown = {path: shape for path, leaf in parts.items() if keep and (shape := picture_shape(leaf))}
        self.source, self._shown = source, shown
        self._texts = {path for path, leaf in parts.items() if path in texts or _is_text(leaf)}
        self._parts = {path: leaf for path, leaf in parts.items() if path not in shown} | {p: parts[p] for p in shown}
        boxes = [self._box(path, leaf) for path, leaf in self._parts.items()]
        low, high = (np.concatenate([getattr(box, name).ravel() for box in boxes]) for name in ("low", "high"))
        mixed = self._texts or (shown and () not in shown)
        # words and categories are small; numbers may be too large for float32, as seconds since 1970 are
        numbers = [
            box.dtype
            for (path, leaf), box in zip(self._parts.items(), boxes, strict=True)
            if isinstance(leaf, gym.spaces.Box) and path not in shown and path not in self._texts
        ]
        if dtype is None:
            dtype = np.result_type(np.float32, *numbers) if mixed else np.result_type(*(box.dtype for box in boxes))
        shape = shown.get((), low.shape)
        super().__init__(low.astype(dtype).reshape(shape), high.astype(dtype).reshape(shape), dtype=dtype)
        self.pictures = tuple(boxes[len(boxes) - len(shown) :])
        self.numbers = low.size - sum(box.low.size for box in self.pictures)

    def of(self, observation: Any) -> np.ndarray:
        """Returns the array of an observation of the environment."""
        rows = [self._row(path, leaf, at(observation, path)) for path, leaf in self._parts.items()]
        return np.concatenate(rows).astype(self.dtype, copy=False).reshape(self.shape)

    def rows(self, parts: Mapping[Path, Any]) -> np.ndarray:
        """Returns the arrays [B, …] of several observations: of each part, by its path, the values of all of them."""
        columns = [self._columns(path, leaf, parts[path]) for path, leaf in self._parts.items()]
        return np.concatenate(columns, 1, dtype=self.dtype, casting="unsafe").reshape(-1, *self.shape)

    def words(self) -> str:
        """Returns in words which elements each part of an observation has."""
        found, start = [], 0
        for name, shape, categories in self.parts():
            end = start + math.prod(shape)
            kept = f" (a picture {list(shape)})" if len(shape) == 3 else " (one-hot)" if categories else ""
            found.append(f"{name} [{start}:{end}]{kept}")
            start = end
        return ", ".join(found)

    def parts(self) -> list[tuple[str, tuple[int, ...], tuple[str, ...]]]:
        """Returns the parts of an observation in their order: name, shape, and names of the elements of categories.

        A picture has the shape [C, H, W]; other parts are rows, [n].
        """
        found = []
        for path, leaf in self._parts.items():
            shape = self._shown.get(path, (self._box(path, leaf).low.size,))
            found.append((":".join(map(str, path)) or "all", shape, () if path in self._texts else _categories(leaf)))
        return found

    def _box(self, path: Path, leaf: Any) -> Any:
        if path in self._texts:
            return gym.spaces.Box(0, np.inf, (WORDS,), np.int64)
        if path not in self._shown:
            return gym.spaces.flatten_space(leaf)
        low, high = (channels_first(bound, self._shown[path]) for bound in (leaf.low, leaf.high))
        return gym.spaces.Box(low, high, dtype=np.uint8)

    def _row(self, path: Path, leaf: gym.Space, value: Any) -> Any:
        if path in self._texts:
            return words_of(value)
        if path in self._shown:
            return channels_first(np.asarray(value), self._shown[path]).ravel()
        return gym.spaces.flatten(leaf, value)

    def _columns(self, path: Path, leaf: gym.Space, values: Any) -> np.ndarray:
        if path not in self._shown and path not in self._texts:
            if isinstance(leaf, gym.spaces.Box | gym.spaces.MultiBinary):
                return np.reshape(values, (len(values), -1))
            if isinstance(leaf, gym.spaces.Discrete):
                return np.reshape(values, (-1, 1)) == np.arange(leaf.start, leaf.start + leaf.n)
        return np.stack([self._row(path, leaf, value) for value in values])


def _categories(leaf: gym.Space) -> tuple[str, ...]:
    """Returns names of the elements of categories, which are one-hot; none of other parts."""
    if isinstance(leaf, gym.spaces.Discrete):
        return tuple(f"is {each}" for each in range(int(leaf.start), int(leaf.start + leaf.n)))
    if isinstance(leaf, gym.spaces.MultiDiscrete):
        ranges = zip(leaf.start.ravel().tolist(), leaf.nvec.ravel().tolist(), strict=True)
        return tuple(f"{i} is {each}" for i, (first, n) in enumerate(ranges) for each in range(first, first + n))
    return ()


def flat_option() -> Option:
    """Returns the option ``flat_observation`` of tasks that may keep pictures: True, False or `PICTURES`."""
    return Checked(False, check=_how_flat, wanted=f"True or False or {PICTURES!r}")


def pictures_option() -> Option:
    """Returns the option ``flat_observation`` of tasks whose observation is one picture: False or `PICTURES`."""
    return Checked(False, check=_whether_pictures, wanted=f"False or {PICTURES!r}")


def _whether_pictures(value: Any) -> bool | str:
    if _how_flat(value) is True:
        raise ValueError
    return value


def _how_flat(value: Any) -> bool | str:
    value = value.item() if isinstance(value, np.generic) else value
    if not isinstance(value, bool) and value != PICTURES:
        raise TypeError
    return value


def flattened(env: Any, keep: bool = False) -> gym.Env:
    """Returns an environment with one array as observation, of the space `Joined`; raises `OptionError` as that."""
    space = Joined(env.observation_space, keep)
    return gym.wrappers.TransformObservation(env, space.of, space)


def picture_shape(space: gym.Space) -> tuple[int, int, int] | None:
    """Returns the shape [C, H, W] of a space's values as pictures, channels first; None if they are no pictures.

    Pictures are a uint8 `Box` [C, H, W], [H, W, C] or [H, W], at least `SIDE` pixels high and wide.
    """
    if not isinstance(space, gym.spaces.Box) or space.dtype != np.uint8 or len(space.shape) not in (2, 3):
        return None
    channels, height, width = space.shape if len(space.shape) == 3 else (1, *space.shape)
    if width < channels and height != width:
        channels, height, width = width, channels, height
    return (channels, height, width) if min(height, width) >= SIDE else None


def channels_first(pixels: np.ndarray, shape: tuple[int, int, int]) -> np.ndarray:
    """Returns the pixels of a picture in its `picture_shape`."""
    return pixels.reshape(shape) if pixels.shape in (shape, shape[1:]) else np.moveaxis(pixels, -1, 0)


def words_of(text: str | np.ndarray) -> np.ndarray:
    """Returns how many words of a text have each hash, int64[WORDS]; the hash is the same in every process.

    Args:
        text: the text, or its bytes in UTF-8, uint8[n] with zeros at the end.
    """
    if isinstance(text, np.ndarray):
        text = text.tobytes().rstrip(b"\0").decode(errors="replace")
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
