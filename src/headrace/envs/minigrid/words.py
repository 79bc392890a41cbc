"""The words of missions, and their numbers in observations."""

from __future__ import annotations

from collections.abc import Iterable

COLORS = ("red", "green", "blue", "purple", "yellow", "grey")
KINDS = ("door", "key", "ball", "box")
REST = (
    "a and at avoid end fetch find from get go goal hallway lava matching must near object of open opening pick put "
    "reach room room, rooms square the then to traverse unlock up use you"
)
WORDS: tuple[str, ...] = ("", *COLORS, *KINDS, *REST.split())
"""the word of each number; 0 is no word"""
NUMBERS = {word: number for number, word in enumerate(WORDS)}
COLOR_WORD, KIND_WORD = 1, 3
"""what a cell's number of a colour or a kind lacks to the number of its word"""


def text(mission: Iterable[int]) -> str:
    """Returns a mission in words, from their numbers in an observation, uint8[words]."""
    return " ".join(WORDS[number] for number in mission if number)


def numbers(mission: str) -> list[int]:
    """Returns the numbers of a mission's words, 0 for ``{}``, a word that each level has for itself."""
    return [0 if word == "{}" else NUMBERS[word] for word in mission.split()]
