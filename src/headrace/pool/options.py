"""Options of tasks: their defaults, what else they may be, and what is said of others."""

from __future__ import annotations

import difflib
import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from headrace.errors import KernelError, OptionError

Options = Mapping[str, Any]
MOST = {int: 2**31 - 1, float: sys.float_info.max}  # what kernels can hold: int32, finite floats


@dataclass(frozen=True)
class Option:
    """A task's option with its default, whose type (bool, int, float or str) is the option's.

    Attributes:
        default: the value where none is given.
        low, high: a number's bounds, both allowed.
        choices: the values that a string may have.
    """

    default: Any
    low: float = 0
    high: float | None = None
    choices: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        plain = type(self.default) in (bool, int, float, str) and self._fits(self.default)
        if type(self) is Option and not plain:  # subclasses convert in their own way
            rule = "a bool, an int or a float within its bounds (low is 0 unless given), or one of its choices"
            raise KernelError(f"an option's default must be {rule}, not {self.default!r}")

    def convert(self, task: str, name: str, value: Any) -> Any:
        """The value in the option's type; raises `OptionError` where it does not fit."""
        if not self._fits(value):
            raise OptionError(f"{name} of {task} must be {self._wanted}, not {value!r}")
        return type(self.default)(value)

    def _fits(self, value: Any) -> bool:
        if isinstance(value, np.generic):
            value = value.item()
        if isinstance(self.default, bool) or isinstance(value, bool):
            return isinstance(value, bool) and isinstance(self.default, bool)
        if isinstance(self.default, str):
            return value in self.choices
        number = isinstance(value, int) or (isinstance(value, float) and isinstance(self.default, float))
        most = MOST[type(self.default)]
        high = most if self.high is None else min(self.high, most)
        return number and max(self.low, -most) <= value <= high

    @property
    def _wanted(self) -> str:
        if isinstance(self.default, bool):
            return "True or False"
        if isinstance(self.default, str):
            return "one of " + ", ".join(self.choices)
        noun = "an integer" if isinstance(self.default, int) else "a finite number"
        if self.low == -math.inf:
            return noun
        return f"{noun} of at least {self.low}" if self.high is None else f"{noun} in [{self.low}, {self.high}]"


def decimal(default: float) -> Option:
    """An option that may be any finite number."""
    return Option(default, -math.inf)


@dataclass(frozen=True)
class Checked(Option):
    """An option that a function checks and converts, raising `TypeError` or `ValueError` where it cannot.

    Attributes:
        check: the function: value → value.
        wanted: what a value must be, in words.
    """

    check: Callable[[Any], Any] = lambda value: value
    wanted: str = ""

    def convert(self, task: str, name: str, value: Any) -> Any:
        try:
            return self.check(value)
        except (TypeError, ValueError):
            raise OptionError(f"{name} of {task} must be {self.wanted}, not {value!r}") from None


def complete(task: str, known: Options, given: Options) -> dict[str, Any]:
    """All options of a task, those given checked; ``known`` holds an `Option` or simply a default for each.

    Raises:
        OptionError: an option does not exist or does not fit.
    """
    for name in given:
        if name not in known:
            close = difflib.get_close_matches(name, known, 3, 0.4) or sorted(known)
            raise OptionError(f"{task} has no option {name!r}: did you mean {', '.join(close)}?")
    options = {name: o if isinstance(o, Option) else Option(o) for name, o in known.items()}
    return {name: option.convert(task, name, given.get(name, option.default)) for name, option in options.items()}
