"""A family of tasks: what is known of tasks that one package makes, as one record.

Ours are the folders of `headrace.envs`. A package of somebody else's is found by an entry point, and its tasks are then
used as ours are, by their names alone::

    [project.entry-points."headrace.families"]
    mazes = "my_package.mazes:FAMILY"

The module of a record is imported whenever tasks are listed, so it imports a simulator only within `build`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from headrace.errors import OptionError
from headrace.pool.task import Task

Build = Callable[..., Task]
Settings = dict[str, Any]
Presets = Mapping[str, Mapping[str, Mapping[str, Mapping[str, Any]]]]
GROUP = "headrace.families"
FROM_PIXELS = " from pixels"
"""the end of a key of presets that are for a task, or the family, with the option ``from_pixels``"""


@dataclass(frozen=True)
class Family:
    """Tasks that one function builds.

    Attributes:
        name: the name by which commands list the family, and a key of its presets.
        tasks: the tasks' names.
        build: a function ``(task, **options) → Task``, or its import path, such as ``"package.module:function"``.
        runs_on: what steps the environments, in a few words.
        extra: what has to be installed beside the package, as pip takes it; empty for nothing.
        presets: the settings with which training begins: algorithm → preset → the family's name or a task → settings;
            or the import path of such a dictionary. They are added to those that the algorithm has for all tasks. All
            keys may end in `FROM_PIXELS`.
        kinds: further keys of presets, of users' tasks that are alike: those whose spec has this ``kind``.
        recipe: the algorithm, and its preset, that are the best for the family, if they are not those of all tasks.
        recipe_from_pixels: the same, for tasks with the option ``from_pixels``.
        meanings: names of the discrete actions of a task, by its name; or a function ``(task, options) → names``.
        evaluation: a function ``(lives) → options`` that returns the options with which agents are evaluated, by the
            rewards of the game itself; with ``lives``, a lost life ends an episode as it did in training.
        other_names: further names of the tasks, each with the task and defaults of its options; nothing lists them.
        prefix: what all names of EnvPool's tasks begin with, which only EnvPool itself can list: ``tasks`` is empty,
            and ``build`` takes names without the prefix.
    """

    name: str
    tasks: tuple[str, ...]
    build: Build | str
    runs_on: str
    extra: str = ""
    presets: Presets | str = field(default_factory=dict)
    kinds: tuple[str, ...] = ()
    recipe: tuple[str, str] | None = None
    recipe_from_pixels: tuple[str, str] | None = None
    meanings: Mapping[str, Sequence[str]] | Callable[[str, Mapping[str, Any]], Sequence[str]] = field(
        default_factory=dict
    )
    evaluation: Callable[[bool], Mapping[str, Any]] | None = None
    other_names: Mapping[str, tuple[str, Mapping[str, Any]]] = field(default_factory=dict)
    prefix: str = ""

    def presets_of(self, algorithm: str) -> Mapping[str, Mapping[str, Mapping[str, Any]]]:
        """Returns the presets of an algorithm: preset → the family's name or a task → settings.

        Raises:
            OptionError: they are for something that is neither the family nor one of its tasks or kinds.
        """
        found = (imported(self.presets) if isinstance(self.presets, str) else self.presets).get(algorithm, {})
        names = {self.name, *self.tasks, *self.kinds}
        for key in (key for table in found.values() for key in table if key.removesuffix(FROM_PIXELS) not in names):
            raise OptionError(f"presets of the family {self.name} for {key!r}, which is no task of it")
        return found


def imported(path: str) -> Any:
    """Returns the object of an import path, such as ``"package.module:function"``."""
    module, _, name = path.partition(":")
    return getattr(import_module(module), name)
