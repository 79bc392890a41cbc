"""Settings as fields of dataclasses, with their meaning, bounds, group in the help, and the cases of their use.

A setting is a field of a frozen dataclass, made by `setting`. No other module lists settings by name.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import cache
from typing import Any

from headrace.train.config.checks import require

IN_TURN, WORKERS = "samplers=0", "samplers"
"""the two ways of training: collecting and learning alternately, in one process for each device, or with workers"""
KINDS = ("mlp", "cnn", "gru", "own")
"""kinds of networks; ``own`` is a user's network"""
REQUIRED = dataclasses.MISSING
"""the default of a required setting"""


@dataclass(frozen=True)
class Use:
    """One case in which a setting is used, by those algorithms that have it.

    Attributes:
        replay: whether the algorithm learns from a replay; None for either.
        ways: ways of training.
        networks: kinds of networks.
        continuous: whether for continuous actions only.
        given: another setting that must have a value, and that value; True stands for every value that is true.
        alone: whether for tasks with one agent only.
    """

    replay: bool | None = None
    ways: tuple[str, ...] = (IN_TURN, WORKERS)
    networks: tuple[str, ...] = KINDS
    continuous: bool = False
    given: tuple[str, Any] | None = None
    alone: bool = False


@dataclass(frozen=True)
class Setting:
    """The metadata of one setting.

    Attributes:
        help: its meaning.
        low, above, high: inclusive lower, exclusive lower and inclusive upper bound; None for no bound. The value None
            is within all bounds.
        group: its heading in the help; None for the heading of the class that adds it.
        uses: the cases in which it is used.
        shared: whether all policies of a run have the same value.
        scheduled: whether ``schedules`` may change it during a run.
        continuable: whether it may differ when a run is resumed.
        speed: whether the speed of training, or the memory that it needs, depends on it; the tuner then measures again
            for each value.
    """

    help: str = ""
    low: float | None = None
    above: float | None = None
    high: float | None = None
    group: str | None = None
    uses: tuple[Use, ...] = (Use(),)
    shared: bool = False
    scheduled: bool = False
    continuable: bool = False
    speed: bool = False

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
    use: Use | tuple[Use, ...] = Use(),
    shared: bool = False,
    scheduled: bool = False,
    continuable: bool = False,
    speed: bool = False,
) -> Any:
    """Returns a dataclass field with this default; the other arguments are the attributes of `Setting`."""
    uses = use if isinstance(use, tuple) else (use,)
    metadata = {"setting": Setting(help, low, above, high, group, uses, shared, scheduled, continuable, speed)}
    if isinstance(default, dict):
        return dataclasses.field(default_factory=default.copy, metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


@cache
def settings_of(cls: type[Any]) -> dict[str, Setting]:
    """Returns field name → `Setting` of a dataclass, in order; an empty `Setting` for a field not made by `setting`."""
    return {
        field.name: _in_its_group(cls, field.name, field.metadata.get("setting", Setting()))
        for field in dataclasses.fields(cls)
    }


def _in_its_group(cls: type[Any], name: str, known: Setting) -> Setting:
    if known.group is not None:
        return known
    adds = next(base for base in cls.__mro__ if name in vars(base).get("__annotations__", {}))
    return dataclasses.replace(known, group=adds.__name__.removesuffix("Config"))


def default_of(cls: type[Any], name: str) -> Any:
    """Returns the default of a dataclass's field."""
    field = cls.__dataclass_fields__[name]
    return field.default if field.default_factory is dataclasses.MISSING else field.default_factory()
