"""Names of tasks, and the one function that turns a name and options into a pool."""

from __future__ import annotations

import difflib
import importlib
import os
from collections.abc import Callable, Iterable
from typing import Any, get_args

import numpy as np

from headrace.errors import OptionError, UnknownTaskError
from headrace.pool.pool import Pool
from headrace.pool.seeds import SeedLike, seeds_of
from headrace.pool.sources import import_source, split
from headrace.pool.spec import AutoresetMode, PoolSettings, Task, TaskSpec

Build = Callable[..., Task]

_builders: dict[str, Build | str] = {}
_sources: dict[str, tuple[str, ...]] = {}  # files and modules imported by name, and what each registered


def register(task: str, build: Build | str, *, replace: bool = False) -> None:
    """Make a task known by name.

    Args:
        task: its name, such as ``"MyTask-v0"``.
        build: a function ``(task, **options) → Task``, or where to import one from: ``"package.module:function"``.
        replace: whether a task of this name may exist already.

    Raises:
        OptionError: the name is taken, or what was given is neither a function nor such a string.
    """
    if not isinstance(task, str) or not task:
        raise OptionError(f"a task's name must be a non-empty string, not {task!r}")
    if task in _builders and not replace:
        raise OptionError(f"there is a task {task!r} already: choose another name, or say replace=True")
    if not callable(build) and not (isinstance(build, str) and ":" in build):
        raise OptionError(f"build must be a function or 'module:function', not {build!r}")
    _builders[task] = build


def register_family(tasks: Iterable[str], build: str) -> None:
    """Register many names with one lazily imported function."""
    for task in tasks:
        register(task, build)


def list_all_envs() -> list[str]:
    """All registered task names, sorted."""
    return sorted(_builders)


def nearest(name: str, names: Iterable[str], n: int = 5) -> list[str]:
    """The names most like this one, best first."""
    by_lower = {candidate.lower(): candidate for candidate in names}
    close = difflib.get_close_matches(str(name).lower(), by_lower, n, 0.5)
    return [by_lower[match] for match in close]


def build_task(task: str, **options: Any) -> Task:
    """The task of this name, with its own options checked and completed."""
    task = _found(task)
    try:
        build = _builders[task]
    except (KeyError, TypeError):
        close = nearest(task, _builders)
        hint = f"did you mean {', '.join(close)}?" if close else "headrace.list_all_envs() lists all."
        raise UnknownTaskError(f"there is no task {task!r}: {hint}") from None
    if isinstance(build, str):
        module, _, name = build.partition(":")
        build = _builders[task] = getattr(importlib.import_module(module), name)
    return build(task, **options)


def family(task: str) -> str:
    """The module whose function builds a task; raises `UnknownTaskError` if there is none of this name."""
    build_task(task)
    build = _builders[_found(task)]
    assert not isinstance(build, str)
    return build.__module__


def _found(task: str) -> str:
    """The registered name; a file or module in front of it (``my_env.py:MyTask-v0``) is imported first."""
    if not isinstance(task, str) or task in _builders:
        return task
    source, name = split(task)
    if not source:
        return task
    if source not in _sources:
        before = set(_builders)
        import_source(source)
        _sources[source] = tuple(registered for registered in _builders if registered not in before)
    theirs = _sources[source]
    if name in _builders or (not name and len(theirs) == 1):
        return name or theirs[0]
    known = ", ".join(f"{source}:{registered}" for registered in theirs)
    raise UnknownTaskError(f"there is no task {task!r}: " + (f"say {known}" if known else f"{source} registers none"))


def make_spec(task: str, **options: Any) -> TaskSpec:
    """A task's spaces, info fields and options, without making any environment."""
    return build_task(task, **options).spec


def make_pool(
    task: str,
    num_envs: int = 1,
    batch_size: int = 0,
    num_threads: int = 0,
    seed: SeedLike = None,
    autoreset: AutoresetMode = "next_step",
    device: str = "cpu",
    thread_affinity_offset: int = -1,
    max_num_players: int = 1,
    **options: Any,
) -> Pool:
    """Make a pool of one task; see `headrace.make` for the options."""
    check_int("num_envs", num_envs, 1)
    check_int("batch_size", batch_size, 0, num_envs)
    check_int("num_threads", num_threads, 0)
    check_int("thread_affinity_offset", thread_affinity_offset, -1)
    autoreset = autoreset_mode(autoreset)
    if max_num_players != 1:
        raise OptionError(f"max_num_players must be 1 for a pool of dense rows, not {max_num_players!r}: see make")
    batch = batch_size or num_envs
    seeds = seeds_of(seed, np.arange(num_envs, dtype=np.int32))
    settings = PoolSettings(
        num_envs=num_envs,
        batch_size=batch,
        num_threads=num_threads or min(batch, usable_cores()),
        seeds=seeds,
        autoreset=autoreset,
        device=str(device),
        thread_affinity_offset=thread_affinity_offset,
    )
    recipe = {
        "task": task,
        "num_envs": num_envs,
        "batch_size": batch_size,
        "num_threads": num_threads,
        "seed": seeds.tolist(),
        "autoreset": autoreset,
        "device": str(device),
        "thread_affinity_offset": thread_affinity_offset,
        **options,
    }
    return Pool(build_task(task, **options), settings, recipe)


def autoreset_mode(mode: Any) -> AutoresetMode:
    """Accepts our names and `gymnasium.vector.AutoresetMode`."""
    names: dict[Any, AutoresetMode] = {name: name for name in get_args(AutoresetMode)}
    names |= {"NextStep": "next_step", "SameStep": "same_step", "Disabled": "disabled"}
    try:
        return names[getattr(mode, "value", mode)]
    except (KeyError, TypeError):
        raise OptionError(f"autoreset must be one of {', '.join(get_args(AutoresetMode))}, not {mode!r}") from None


def usable_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def check_int(name: str, value: Any, low: int, high: int | None = None) -> None:
    """Raise `OptionError` unless the value is an integer in [low, high]."""
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not whole or value < low or (high is not None and value > high):
        span = f"at least {low}" if high is None else f"in [{low}, {high}]"
        raise OptionError(f"{name} must be an integer {span}, not {value!r}")
