"""The registry of task names, and the function that makes a pool from a name and options."""

from __future__ import annotations

import importlib
import pickle
import sys
from collections.abc import Callable, Mapping
from functools import partial
from importlib.metadata import entry_points
from pathlib import Path
from threading import RLock
from typing import Any

from headrace.errors import HeadraceError, OptionError, UnknownTaskError
from headrace.pool.family import GROUP, Build, Family, imported
from headrace.pool.remarks import remark
from headrace.pool.sources import (
    SCRIPT,
    environments_in,
    functions_in,
    import_source,
    in_gymnasium_from,
    is_file,
    is_importable_main,
    is_loaded,
    module_of,
    split,
)
from headrace.pool.suggestions import nearest
from headrace.pool.task import Task

TaskLike = str | Callable[..., Any]
PROCESSES = "processes"

MOST_NAMED = 5  # greatest number of names of a file or module to suggest if none is similar

_builders: dict[str, Build | str] = {}
_registrars: dict[str, str] = {}  # task → the module that registered it
_others: dict[str, tuple[str, Mapping[str, Any]]] = {}  # another name of a task → the task, and options of its own
_sources: dict[str, tuple[str, ...]] = {}  # file or module imported by name → the tasks that it registered
_families: dict[str, Family] = {}
_family_of: dict[str, Family] = {}  # task → its family
_reading = RLock()
_read: list[bool] = []  # whether the families of installed packages have been registered


def register(task_id: str, build: Build | str, *, replace: bool = False) -> None:
    """Registers a task under a name.

    Args:
        task_id: the task's name, such as ``"MyTask-v0"``.
        build: a function ``(task, **options) → Task``, or its import path, such as ``"package.module:function"``.
        replace: whether to replace an existing task of this name.

    Raises:
        OptionError: the name is taken, or ``build`` is neither a function nor such a string.
    """
    if not isinstance(task_id, str) or not task_id:
        raise OptionError(f"a task's name must be a non-empty string, not {task_id!r}")
    if _is_own(task_id) and task_id in _builders and not replace:
        raise OptionError(f"there is a task {task_id!r} already: choose another name, or say replace=True")
    if not callable(build) and not (isinstance(build, str) and ":" in build):
        raise OptionError(f"build must be a function or 'module:function', not {build!r}")
    _builders[task_id] = build
    _registrars[task_id] = sys._getframe(1).f_globals.get("__name__", "")


def register_family(family: Family) -> None:
    """Registers the tasks of a family, and their further names.

    Raises:
        OptionError: it is no `Family`, or its name or that of a task is taken.
    """
    if not isinstance(family, Family):
        raise OptionError(f"a family is a headrace.Family, not {family!r}")
    taken = [f"task {name!r}" for name in family.tasks if name in _builders]
    if taken or family.name in _families:
        raise OptionError(f"there is a {(*taken, f'family {family.name!r}')[0]} already: choose another name")
    _builders.update(dict.fromkeys(family.tasks, family.build))
    _registrars.update(dict.fromkeys(family.tasks, __name__))
    _others.update(family.other_names)
    _families[family.name] = family
    _family_of.update(dict.fromkeys(family.tasks, family))


def families() -> dict[str, Family]:
    """Returns name → family: ours, and then those of other packages that are installed."""
    with _reading:
        if not _read:
            _read.append(True)  # before they are read, as their modules may ask for tasks
            for entry in entry_points(group=GROUP):
                try:
                    register_family(entry.load())
                except Exception as error:  # of somebody else's code: all other tasks still work
                    why = str(error) if isinstance(error, HeadraceError) else f"{type(error).__name__}: {error}"
                    remark(f"the family of tasks {entry.name} ({entry.value}) is left out: {why}")
    return dict(_families)


def family_of(task: str) -> Family | None:
    """Returns the family of a task, by any of its names; None if it has none."""
    return _prefixed(task) or (_family_of.get(own_name(task)) if _is_own(task) else None)


def _is_own(task: str) -> bool:
    """Returns whether a task of this name is registered, reading other packages' families if it is not yet."""
    if task not in _builders and task not in _others:
        families()
    return task in _builders or task in _others


def _prefixed(task: str) -> Family | None:
    """Returns the family whose prefix a name has, if it is not registered itself."""
    found = (family for family in _families.values() if family.prefix and task.startswith(family.prefix))
    return None if task in _builders else next(found, None)


def is_registered(task: str) -> bool:
    """Returns whether a task of exactly this name is registered or EnvPool's; false with a file or module in front."""
    return _prefixed(task) is not None or _is_own(task)


def or_headraces(task: str) -> str:
    """Returns in words which faster task of the same name there is, for EnvPool's that has one; "" for others."""
    family = _prefixed(task)
    name = task.removeprefix(family.prefix) if family else ""
    return f"; Headrace's own {name} is faster" if name and is_registered(name) else ""


def own_name(task: str) -> str:
    """Returns the name of the same task in `list_all_envs`, for another name of a task; all else as it is."""
    return _others[task][0] if task in _others and task not in _builders else task


def registers(source: str, task: str) -> bool:
    """Returns whether a file or module that was imported registered this task; for no source, whether anything did.

    The name may be empty for a source that registered one task.
    """
    if not source:
        return is_registered(task)
    theirs = (_sources.get(source) or _registered_by(source)) if is_loaded(source) else ()
    return task in theirs or (not task and len(theirs) == 1)


def is_known_here_only(task: str) -> bool:
    """Returns whether a task was registered by a notebook or a script on standard input, which cannot be imported."""
    return _registrars.get(task) in SCRIPT and not is_importable_main()


def parcel_of(task: str) -> bytes | None:
    """Returns what makes a task of the user's own code known in another process; None if its name is enough.

    Raises:
        UNPICKLABLE: a task that the program's script registered cannot be pickled, as kernels.
    """
    from headrace.pool import by_value
    from headrace.pool.executors.processes.task import in_gymnasium, portable_spec

    if (home := _registrars.get(task)) is None:
        known = in_gymnasium(task)
        return by_value.dumps(partial(_take_gymnasiums, task, portable_spec(task))) if known else None
    if home in SCRIPT:
        return by_value.dumps(partial(_take, task, _builders[task]))
    return None if _is_ours(task) else by_value.dumps(partial(importlib.import_module, home))


def unpack(parcel: bytes | None) -> None:
    """Makes the task known that `parcel_of` packed in another process."""
    if parcel is not None:
        pickle.loads(parcel)()


def _take(task: str, build: Build | str) -> None:
    if task not in _builders:
        _builders[task], _registrars[task] = build, "__main__"


def _take_gymnasiums(task: str, spec: Any) -> None:
    import gymnasium

    gymnasium.registry.setdefault(task, spec)


def list_all_envs() -> list[str]:
    """Returns all registered task names, sorted."""
    families()
    return sorted(_builders)


def build_task(task: TaskLike, executor: str | None = None, **options: Any) -> Task:
    """Returns a task, with its own options checked and completed.

    Args:
        task: a registered name; a name of Gymnasium's registry; either one with the file or module in front that
            registers it; a class or function in a file or module; or a class or function that makes an environment.
        executor: ``"processes"`` for Gymnasium's environment if Headrace has one of the same name.
        options: the task's own options.

    Raises:
        UnknownTaskError: there is no such task.
        OptionError: an option does not exist, or its value is not valid.
    """
    if executor not in (None, PROCESSES):
        raise OptionError(f"executor must be None, for the task's own, or {PROCESSES!r}, not {executor!r}")
    build, name = _builder(task, executor)
    return build(name, **options)


def own_options(task: TaskLike, executor: str | None = None) -> set[str]:
    """Returns the names of a task's own options; of an environment that is a Python object, those it is made with."""
    from headrace.pool.executors.batched import batched_task, options_of
    from headrace.pool.executors.processes.task import arguments_of, callable_task, gymnasium_task, maker_of, named_task

    build, name = _builder(task, executor)
    kind = build.func if isinstance(build, partial) else build
    if kind is batched_task:
        return options_of(build.args[0])  # type: ignore[attr-defined]
    if kind is callable_task:
        return arguments_of(name)
    if kind is named_task:
        return arguments_of(getattr(module_of(build.args[0]), name))  # type: ignore[attr-defined]
    return arguments_of(maker_of(name)) if kind is gymnasium_task else set(build(name).spec.options)


def is_python(task: TaskLike) -> bool:
    """Returns whether a task's environments are Python objects, which run in processes."""
    from headrace.pool.executors.processes.task import callable_task, gymnasium_task, named_task

    build, _ = _builder(task, None)
    return (build.func if isinstance(build, partial) else build) in (callable_task, gymnasium_task, named_task)


def family(task: TaskLike) -> str:
    """Returns the name of the module whose function builds a task; raises `UnknownTaskError` for an unknown task."""
    return getattr(_builder(task, None)[0], "__module__", "")


def tasks_in(source: str) -> list[str]:
    """Returns the names of the tasks of a file or module, with it in front; imports it.

    Args:
        source: ``FILE.py`` or a module's name for all of its tasks, or either with ``:NAME`` for one of them.

    Raises:
        UnknownTaskError: there is no such file, module or task.
    """
    place, name = split(source)
    if not name:
        if place not in _sources:
            _sources[place] = _registered_by(place)
        if names := _sources[place] or environments_in(place):
            return [f"{place}:{each}" for each in names]
    _builder(source, None)  # raises for a name that is unknown
    return [source]


def _builder(task: TaskLike, executor: str | None) -> tuple[Build, Any]:
    """Returns the function that builds a task, and its first argument; raises `UnknownTaskError`."""
    from headrace.pool.executors.batched import batched_task, is_batched
    from headrace.pool.executors.processes.task import callable_task, gymnasium_task, in_gymnasium, named_task

    if not isinstance(task, str):
        if not callable(task):
            raise UnknownTaskError(f"a task is a name, or what makes an environment, not {_told(task)}")
        if is_batched(task):
            return partial(batched_task, task), getattr(task, "__qualname__", "")
        return callable_task, task
    if _is_own(task) and task not in _builders and executor != PROCESSES:
        own, options = _others[task]
        build, name = _builder(own, None)
        return partial(build, **options) if options else build, name
    source, name = ("", task) if task in _builders else split(task)
    if (family := _prefixed(name)) and executor is None:
        return _function(family.build), name.removeprefix(family.prefix)
    if source and source not in _sources:
        _sources[source] = _registered_by(source)
    theirs = _sources[source] if source else _builders
    if source and not name:
        there = [*theirs] or environments_in(source)
        name = there[0] if len(there) == 1 else name
    if name in theirs and executor != PROCESSES:
        return _function(_builders[name]), name
    if source and name.isidentifier() and callable(made_by := getattr(module_of(source), name, None)):
        if is_batched(made_by):
            return partial(batched_task, made_by), f"{source}:{name}"
        return partial(named_task, _place(source)), name
    if in_gymnasium(name):
        return partial(gymnasium_task, source=_place(source)), name
    raise UnknownTaskError(f"there is no task {task!r}: {_hint(source, name, executor)}")


def _told(task: object) -> str:
    """Returns in words what is no task; for an environment, also what to give in its place."""
    if not (hasattr(task, "step") and hasattr(task, "reset")):
        return repr(task)
    kind, made = type(getattr(task, "unwrapped", task)).__name__, getattr(getattr(task, "spec", None), "id", None)
    again = f"the name {made!r}" if made else f"the class {kind}"
    return (
        f"the environment {task} itself, as a pool makes its own: give {again}, or a function that makes one, such as "
        f"lambda: {f'gymnasium.make({made!r})' if made else f'{kind}(…)'}"
    )


def _place(source: str) -> str:
    """Returns a file or module in a form that other processes can import: an absolute path, or the module's name."""
    return str(Path(source).resolve()) if source.endswith(".py") else source


def _hint(source: str, name: str, executor: str | None) -> str:
    """Returns suggestions for an unknown name, as text."""
    import gymnasium

    if executor == PROCESSES and name in _builders:
        return "Gymnasium has none of this name; Headrace's own runs without executor='processes'"
    if source:
        theirs = _sources[source]
        if name in _builders and not theirs:
            return f"{source} registers none of this name, nor has it such a class; {name} alone is Headrace's own"
        there = [*theirs, *(environments_in(source) or functions_in(source)), *in_gymnasium_from(source)]
        meant = nearest(name, there) or there[:MOST_NAMED]
        say = f"say {', '.join(f'{source}:{each}' for each in meant)}"
        none = f"{source} registers none of this name, nor has it such a class"
        return say if meant else none if name else "it registers none, nor has it a class of environments"
    stem, _, own = name.rpartition(".")
    if is_file(file := stem if stem.endswith(".py") else f"{stem}.py"):
        return f"say {file}:{own}"
    close = nearest(name, [*_builders, *(each for each in gymnasium.registry if "/" not in each)])
    return f"did you mean {', '.join(close)}?" if close else "headrace.list_all_envs() lists all."


def _function(build: Build | str) -> Build:
    """Returns the function that builds a task, imported if it was given by name."""
    return imported(build) if isinstance(build, str) else build


def _registered_by(source: str) -> tuple[str, ...]:
    """Returns the tasks that a file or module registers when it is imported; imports it unless that was done before."""
    if is_loaded(source):
        home = module_of(source).__name__
        return tuple(task for task, by in _registrars.items() if f"{by}.".startswith(f"{home}."))
    before = dict(_builders)
    import_source(source)
    new = (task for task, build in _builders.items() if before.get(task) is not build)
    return tuple(task for task in new if source.startswith("headrace.") or not _is_ours(task))


def _is_ours(task: str) -> bool:
    """Returns whether a task is one that comes with Headrace."""
    return _registrars[task].startswith("headrace.")
