"""The words of missions, and their numbers in observations."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

COLORS = ("red", "green", "blue", "purple", "yellow", "grey")
KINDS = ("door", "key", "ball", "box")
REST = (
    "a and at avoid end fetch find from get go goal hallway lava matching must near object of open opening pick put "
    "reach room room, rooms square the then to traverse unlock up use you "
    ", after behind front in left next on right your"
)
WORDS: tuple[str, ...] = ("", *COLORS, *KINDS, *REST.split())
"""the word of each number; 0 is no word"""
NUMBERS = {word: number for number, word in enumerate(WORDS)}
COLOR_WORD, KIND_WORD = 1, 3
"""what a cell's number of a colour or a kind lacks to the number of its word"""


def text(mission: ArrayLike) -> str | list[str]:
    """Returns a mission in words, from their numbers in an observation, [words]; or a list of them, from [N, words].

    Raises:
        ValueError: these are no numbers of `WORDS`.
    """
    told = np.asarray(mission)
    if told.ndim not in (1, 2) or not np.issubdtype(told.dtype, np.integer):
        raise ValueError(f"a mission is an array of integers [words] or [N, words], not {told.dtype}{[*told.shape]}")
    if told.size and not 0 <= told.min() <= told.max() < len(WORDS):
        raise ValueError(f"words have numbers from 0 to {len(WORDS) - 1}, not {told.min()} … {told.max()}")
    if told.ndim == 2:
        return [_said(row) for row in told]
    return _said(told)


def _said(numbers: np.ndarray) -> str:
    return " ".join(WORDS[number] for number in numbers if number).replace(" ,", ",")


def numbers(mission: str) -> list[int]:
    """Returns the numbers of a mission's words, 0 for ``{}``, a word that each level has for itself."""
    return [0 if word == "{}" else NUMBERS[word] for word in mission.split()]
