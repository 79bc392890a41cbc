"""Settings as fields of frozen records, with their meaning, bounds, group in the help, and when they are used.

A record holds the settings of one owner, such as the workers of a run or one algorithm. A setting is a field of it,
made by `setting`. No other module lists settings by name.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any, ClassVar

from headrace.train.config.checks import require

IN_TURN, WORKERS = "with samplers=0", "with samplers"
"""the two ways of training: collecting and learning alternately, in one process for each device, or with workers"""
MLP, LAYERS, CNN = (f"with a network that is {kind}" for kind in ("mlp", "mlp or gru", "cnn"))
CONTINUOUS, ONE_AGENT = "with continuous actions", "in tasks with one agent"
NEVER = "in no run"
KINDS = {"mlp": {MLP, LAYERS}, "cnn": {CNN}, "gru": {LAYERS}, "own": set[str]()}
"""kinds of networks, of which ``own`` is a user's → the conditions that hold with one"""
REQUIRED = dataclasses.MISSING
"""the default of a required setting"""


@dataclass(frozen=True)
class Setting:
    """The metadata of one setting.

    Attributes:
        help: its meaning.
        low, above, high: inclusive lower, exclusive lower and inclusive upper bound; None for no bound. The value None
            is within all bounds.
        group: its heading in the help; None for that of its record.
        needs: the conditions under which it is used, of those above, all of which must hold.
        given: another setting that must have a value for it to be used, and that value; True stands for every value
            that is true.
        shared: whether all policies of a run have the same value; None for what its record says.
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
    needs: tuple[str, ...] = ()
    given: tuple[str, Any] | None = None
    shared: bool | None = None
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

    def words(self) -> Iterator[str]:
        """Yields in words the conditions under which the setting is used."""
        yield from self.needs
        if self.given is not None:
            name, value = self.given
            yield f"with {name}" + ("" if value is True else f"={value!r}")


class Record:
    """The settings of one owner; a subclass is a frozen dataclass.

    Args:
        group: the heading of its settings in the help, unless they name another; by default the class's name.
        shared: whether all policies of a run have the same values, unless a setting says otherwise.

    Attributes:
        needs: further conditions for settings of other records, name → as `Setting.needs`.
    """

    needs: ClassVar[Mapping[str, tuple[str, ...]]] = {}

    def __init_subclass__(cls, group: str = "", shared: bool = False) -> None:
        for field in vars(cls).values():
            if isinstance(field, dataclasses.Field) and "setting" in field.metadata:
                known: Setting = field.metadata["setting"]
                heading = known.group or group or cls.__name__.removesuffix("Config")
                known = dataclasses.replace(
                    known, group=heading, shared=shared if known.shared is None else known.shared
                )
                field.metadata = MappingProxyType({"setting": known})


def setting(
    default: Any,
    help: str,
    *,
    low: float | None = None,
    above: float | None = None,
    high: float | None = None,
    group: str | None = None,
    needs: tuple[str, ...] = (),
    given: tuple[str, Any] | None = None,
    shared: bool | None = None,
    scheduled: bool = False,
    continuable: bool = False,
    speed: bool = False,
) -> Any:
    """Returns a dataclass field with this default; the other arguments are the attributes of `Setting`."""
    known = Setting(help, low, above, high, group, needs, given, shared, scheduled, continuable, speed)
    metadata = {"setting": known}
    if isinstance(default, dict):
        return dataclasses.field(default_factory=default.copy, metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


@cache
def settings_of(record: type[Any]) -> dict[str, Setting]:
    """Returns field name → `Setting` of a record, in order."""
    plain = Setting(group=record.__name__.removesuffix("Config"))  # of a field that `setting` did not make
    known = {field.name: field.metadata.get("setting", plain) for field in dataclasses.fields(record)}
    narrowed = {
        name: dataclasses.replace(known[name], needs=(*needs, *known[name].needs))
        for name, needs in record.needs.items()
    }
    return known | narrowed


def default_of(record: type[Any], name: str) -> Any:
    field = record.__dataclass_fields__[name]
    return field.default if field.default_factory is dataclasses.MISSING else field.default_factory()
