"""Options of tasks: their defaults and valid values, and errors for invalid ones."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from headrace.errors import KernelError, OptionError
from headrace.pool.spec import POOL_OPTIONS
from headrace.pool.suggestions import close_names

Options = Mapping[str, Any]
MOST = {int: 2**31 - 1, float: sys.float_info.max}  # kernels hold int32 and finite floats


@dataclass(frozen=True)
class Option:
    """A task's option. Its type (bool, int, float or str) is that of its default.

    Attributes:
        default: the value if none is given.
        low, high: inclusive bounds of a number; no upper bound if ``high`` is None.
        choices: the valid values of a string.

    Raises:
        KernelError: the default is not valid.
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
        """Returns the value in the option's type; raises `OptionError` if it is not valid."""
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
    """Returns an option whose value may be any finite number."""
    return Option(default, -math.inf)


@dataclass(frozen=True)
class Checked(Option):
    """An option whose values a function checks and converts.

    Attributes:
        check: a function value → converted value, which raises `TypeError` or `ValueError` for invalid values.
        wanted: a description of valid values, for messages.
    """

    check: Callable[[Any], Any] = lambda value: value
    wanted: str = ""

    def convert(self, task: str, name: str, value: Any) -> Any:
        try:
            return self.check(value)
        except (TypeError, ValueError):
            raise OptionError(f"{name} of {task} must be {self.wanted}, not {value!r}") from None


def complete(task: str, known: Options, given: Options) -> dict[str, Any]:
    """Returns all options of a task with their values.

    Args:
        task: the task's name, for messages.
        known: name → `Option`, or its default.
        given: the options that the user gave.

    Raises:
        OptionError: an option does not exist, or its value is not valid.
        KernelError: the task has an option with the name of an option of pools, which it would never receive.
    """
    if taken := {*POOL_OPTIONS, "executor"}.intersection(known):
        raise KernelError(f"{task}: {min(taken)!r} is an option of pools: give the task's option another name")
    for name in given:
        if name not in known:
            raise unknown_option(task, name, known)
    options = {name: o if isinstance(o, Option) else Option(o) for name, o in known.items()}
    return {name: option.convert(task, name, given.get(name, option.default)) for name, option in options.items()}


def unknown_option(task: str, name: str, known: Iterable[str]) -> OptionError:
    """Returns an error that a task with these options has none of this name, with the most similar ones."""
    if name in POOL_OPTIONS:
        return OptionError(f"{name} is an option of pools and runs, not of {task}: give it beside the task's own")
    close = close_names(name, [*POOL_OPTIONS, *known], 3, 0.5)
    there = f"did you mean {', '.join(close)}?" if close else f"it has {', '.join(sorted(known))}"
    return OptionError(f"{task} has no option {name!r}: {there}")
