"""What an algorithm is to its settings: the records that its runs may have, what it can do, and its presets.

A run has those of the records whose circumstances (`When`) hold in it, such as a record of samplers where there are
some. `ALGORITHMS` has Headrace's own by name; an algorithm of a user's is found in its file.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, get_type_hints

from headrace.errors import OptionError, UnknownTaskError
from headrace.pool.sources import module_of, split
from headrace.pool.suggestions import nearest
from headrace.train.settings.fields import Setting
from headrace.train.settings.kinds import NETWORK_KINDS
from headrace.train.settings.values import as_lists, check_storable, check_text, converted, describe, matches
from headrace.train.settings.when import When

Settings = dict[str, Any]
Presets = dict[str, dict[str, Settings]]
"""name of the preset → key → settings

A key is a task, a family of tasks, a kind of tasks, or "" for all others, of which the first counts that there is; a
preset without any of them is the default one for that task. A further key of the default preset, the name of a network,
has settings that are added to those of the task.
"""
DEFAULT_PRESET = "default"
"""the preset that every algorithm has; its values are for learning from few steps"""


@dataclass(frozen=True)
class Part:
    """A record that the runs of an algorithm may have, and when they have it."""

    kind: type[Any]
    when: tuple[When, ...]

    @classmethod
    def of(cls, kind: type[Any] | Part) -> Part:
        return kind if isinstance(kind, Part) else cls(kind, getattr(kind, "described", ("", (), False))[1])

    @cached_property
    def settings(self) -> dict[str, Setting]:
        """name → setting, each with the group, the policies and the circumstances of its record."""
        named = self.kind.__name__.removesuffix("Config").removesuffix("Settings")
        group, _, shared = getattr(self.kind, "described", (named, (), False))
        return {
            each.name: dataclasses.replace(
                known,
                group=known.group or group,
                when=self.when,
                shared=shared if known.shared is None else known.shared,
            )
            for each in dataclasses.fields(self.kind)
            for known in [each.metadata.get("setting", Setting())]  # also of a field that `setting` did not make
        }


def only(kind: type[Any], *when: When) -> Part:
    """Returns the part of an algorithm that its runs have in these circumstances, in place of the record's own."""
    return Part(kind, when)


@dataclass(frozen=True)
class Algorithm:
    """The records that the runs of an algorithm may have, and what it can do.

    Attributes:
        parts: the records, in the order of their settings.
        action_kinds: kinds of actions that the algorithm has, of ``"discrete"`` and ``"continuous"``.
        network_kinds: kinds of networks, of `NETWORK_KINDS`.
        several_agents: whether it can play tasks with several agents.
        keeps_masks: whether it keeps to action masks of discrete actions.
        has_workers: whether it can learn from samplers in other processes.
        critic_sees_more: whether its critic, of two perceptrons, can read columns that its actor does not.
        presets: settings with which its runs begin, as `Presets` says.
    """

    parts: tuple[Part, ...]
    action_kinds: tuple[str, ...] = ("discrete", "continuous")
    network_kinds: tuple[str, ...] = NETWORK_KINDS
    several_agents: bool = True
    keeps_masks: bool = True
    has_workers: bool = False
    critic_sees_more: bool = False
    presets: Presets = field(default_factory=lambda: {DEFAULT_PRESET: {}})

    def extended(self, *kinds: type[Any] | Part, without: tuple[type[Any], ...] = (), **able: Any) -> Algorithm:
        """Returns an algorithm with further records.

        Args:
            kinds: records, or what `only` returns; one that this algorithm has takes its place.
            without: records that it does not have.
            able: attributes that differ.
        """
        new = {part.kind: part for part in map(Part.of, kinds)}
        kept = [new.pop(part.kind, part) for part in self.parts if part.kind not in without]
        return dataclasses.replace(self, parts=(*kept, *new.values()), **able)

    @cached_property
    def settings(self) -> dict[str, Setting]:
        """name → setting, of all records."""
        return {name: known for part in self.parts for name, known in part.settings.items()}

    @cached_property
    def types(self) -> dict[str, Any]:
        """name → type."""
        return {name: hint for part in self.parts for name, hint in _hints(part.kind).items()}

    def default(self, name: str) -> Any:
        """Returns the default of a setting; `REQUIRED` if it has none."""
        kind = next(part.kind for part in self.parts if name in part.kind.__dataclass_fields__)
        made = kind.__dataclass_fields__[name]
        return made.default if made.default_factory is dataclasses.MISSING else made.default_factory()

    @cached_property
    def replays(self) -> bool:
        """Whether it learns from a replay."""
        return "replay_size" in self.settings

    def has_network(self, kind: str) -> bool:
        return kind in self.network_kinds

    @cached_property
    def usable(self) -> dict[str, Setting]:
        """name → setting, of those that some run of the algorithm has."""
        return {n: known for n, known in self.settings.items() if all(each.possible(self) for each in known.when)}

    def shared(self) -> set[str]:
        """Returns the names of the settings whose values all policies of a run have in common."""
        return {name for name, known in self.settings.items() if known.shared}

    def only(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Returns those of the values, name → value, whose names are settings of the algorithm."""
        return {name: value for name, value in values.items() if name in self.settings}

    def checked(self, name: str, value: Any) -> Any:
        """Returns a value converted to the type of a setting.

        Raises:
            OptionError: there is no such setting, or the value is of another type.
        """
        if name not in self.types:
            raise OptionError(f"the algorithm has no setting {name!r}")
        hint = self.types[name]
        value = converted(value, hint)
        if not matches(value, hint):
            raise OptionError(f"training option {name}={value!r} must be {describe(hint, value)}")
        check_text(name, value)
        if name in ("env_options", "policies"):
            check_storable(name, value)
        if name in ("schedules", "curriculum", "option_schedules"):  # points that were read from a file are lists
            value = {key: as_lists(points) for key, points in value.items()}
        return value


def _hints(kind: type[Any]) -> dict[str, Any]:
    hints = get_type_hints(kind)
    return {each.name: hints[each.name] for each in dataclasses.fields(kind)}


# -- by name -------------------------------------------------------------------------------------

ALGORITHMS: dict[str, Algorithm] = {}
"""Headrace's own, by name; `headrace.train.recipes.algorithms` fills it"""
EXAMPLES = {"crossq": "examples/algorithms/crossq.py:CrossQ"}
"""name of an algorithm that an earlier version had → where it is now"""


def find_settings(name: str) -> Algorithm:
    """Returns an algorithm by its name, without importing torch for one of Headrace's.

    Args:
        name: one of `ALGORITHMS`; or a class with an attribute ``settings``, as ``"file.py:Class"`` or
            ``"package.module:Class"``.

    Raises:
        OptionError: there is no such class, or it is not an algorithm.
    """
    return ALGORITHMS[name] if name in ALGORITHMS else own_class(name).settings


def own_class(name: str) -> Any:
    """Returns a user's class, which derives from `headrace.train.algorithms.policy.Policy`; raises as above."""
    source, attribute = split(name)
    if source.endswith(".py") and not attribute:
        raise OptionError(f"training option algo={name!r} must name a class of that file: algo='{name}:Class'")
    if name in EXAMPLES:
        raise OptionError(
            f"training option algo={name!r} is an example now: take {split(EXAMPLES[name])[0]} from the sources of "
            f"Headrace, and say algo={EXAMPLES[name]!r}, also in the config.json of an old run"
        )
    if not source or not attribute:
        near = nearest(name, ALGORITHMS, 1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(ALGORITHMS)}, and file.py:Class"
        raise OptionError(f"training option algo={name!r} is not an algorithm: {hint}")
    try:
        found = getattr(module_of(source), attribute, None)
    except UnknownTaskError as error:
        raise OptionError(f"training option algo={name!r}: {error}") from error
    if not isinstance(getattr(found, "settings", None), Algorithm):
        raise OptionError(f"training option algo={name!r}: {source} has no class {attribute} derived from Policy")
    return found
