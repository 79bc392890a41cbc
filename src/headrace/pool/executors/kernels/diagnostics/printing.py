"""Implements ``wp.printf`` for interpreted code: C's formats, with an error for values that do not fit them.

Compiled code misreads a value that does not fit its format, for example a number as the address of a string, which
crashes the process.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from headrace.pool.executors.kernels.diagnostics.patience import say

FORMAT = re.compile(r"%(?P<flags>[-+ #0]*\d*(?:\.\d+)?)(?:hh|h|ll|l|j|z|t|L)?(?P<kind>[a-zA-Z%])")
INTEGERS, FLOATS = "diouxXc", "aAeEfFgG"


class FormatError(ValueError):
    """The values of a ``wp.printf`` do not fit its text."""


def printf(text: str, *values: Any) -> None:
    """Prints a text with its formats replaced by values.

    Raises:
        FormatError: there are too few values, or the type of one does not fit its format.
    """
    left = list(values)

    def written(found: re.Match[str]) -> str:
        kind = found["kind"]
        if kind == "%":
            return "%"
        if not left:
            raise FormatError(f"printf({text!r}) has more formats than its {len(values)} values")
        value = left.pop(0)
        if not _fits(kind, value):
            raise FormatError(f"printf({text!r}): {found[0]} is for {_wanted(kind)}, but {value!r} is given")
        if kind in "aA":
            return float(value).hex()
        plain = value if kind == "s" else float(value) if kind in FLOATS else int(value)
        return f"%{found['flags']}{kind}" % plain

    say(FORMAT.sub(written, text), end="")


def _fits(kind: str, value: Any) -> bool:
    if kind == "s":
        return isinstance(value, str)
    if kind in FLOATS:
        return isinstance(value, float | np.floating)
    return kind in INTEGERS and isinstance(value, int | np.integer | np.bool_)


def _wanted(kind: str) -> str:
    if kind == "s":
        return "a text, not a number"
    return "a float" if kind in FLOATS else "an integer" if kind in INTEGERS else "nothing that kernels have"
