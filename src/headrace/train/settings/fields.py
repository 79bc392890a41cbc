"""Settings as fields of frozen records, with their meaning, bounds and group in the help.

A record holds the settings of one owner, such as the samplers of a run or one algorithm. A setting is a field of it,
made by `setting`. No other module lists settings by name.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar, dataclass_transform

from headrace.train.settings.values import require
from headrace.train.settings.when import When

REQUIRED = dataclasses.MISSING
"""the default of a required setting"""
R = TypeVar("R", bound=type)


@dataclass(frozen=True)
class Setting:
    """The metadata of one setting.

    Attributes:
        help: its meaning.
        low, above, high: inclusive lower, exclusive lower and inclusive upper bound; None for no bound. The value None
            is within all bounds.
        group: its heading in the help; None for that of its record.
        shared: whether all policies of a run have the same value; None for what its record says.
        scheduled: whether ``schedules`` may change it during a run.
        continuable: whether it may differ when a run is resumed.
        speed: whether the speed of training, or the memory that it needs, depends on it; the tuner then measures again
            for each value.
        when: the circumstances in which a run has its record, all of which must hold.
    """

    help: str = ""
    low: float | None = None
    above: float | None = None
    high: float | None = None
    group: str | None = None
    shared: bool | None = None
    scheduled: bool = False
    continuable: bool = False
    speed: bool = False
    when: tuple[When, ...] = ()

    def check(self, name: str, value: Any) -> None:
        """Raises `OptionError` where a value, or an element of a sequence of values, is out of bounds."""
        low, above, high = self.low, self.above, self.high
        if value is None or (low, above, high) == (None, None, None):
            return
        if isinstance(value, tuple):
            for each in value:
                self.check(name, each)
            return
        if low is not None and high is not None:
            require(low <= value <= high, name, value, f"between {low} and {high}")
        elif low is not None:
            require(value >= low, name, value, f"at least {low}")
        elif high is not None:
            require(value <= high, name, value, f"at most {high}")
        if above is not None:
            require(value > above, name, value, f"above {above}")


def setting(
    default: Any,
    help: str,
    *,
    low: float | None = None,
    above: float | None = None,
    high: float | None = None,
    group: str | None = None,
    shared: bool | None = None,
    scheduled: bool = False,
    continuable: bool = False,
    speed: bool = False,
) -> Any:
    """Returns a dataclass field with this default; the other arguments are the attributes of `Setting`."""
    metadata = {"setting": Setting(help, low, above, high, group, shared, scheduled, continuable, speed)}
    if isinstance(default, dict):
        return dataclasses.field(default_factory=default.copy, metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


@dataclass_transform(frozen_default=True, field_specifiers=(setting,))
def record(group: str, *when: When, shared: bool = False) -> Callable[[R], R]:
    """Returns a decorator that makes a frozen dataclass of the settings of one owner.

    Args:
        group: the heading of its settings in the help, unless they name another.
        when: the circumstances in which a run has the record, all of which must hold.
        shared: whether all policies of a run have the same values, unless a setting says otherwise.
    """

    def made(kind: R) -> R:
        found = dataclass(frozen=True)(kind)
        found.described = (group, when, shared)
        return found

    return made
