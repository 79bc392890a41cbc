"""Checks of whether what the settings of a run folder ask for may be done.

A run's settings may name code: a task, an algorithm, a network or a function of rewards in a file or a module, with
options of the task; and a run that trains may connect to a cluster, send its metrics, or read another run. A run folder
may come from an untrusted source. Without the user's agreement only registered tasks and algorithms are made, and
classes of environments in installed packages, with options that they declare and that name neither files nor code.
All else must have been named by the user before, code in files unchanged since. What was agreed to is recorded in the
user's cache, and not in the run folder, whose sender may have changed any of its files.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import inspect
import itertools
import os
import re
import site
import sys
import sysconfig
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

import gymnasium as gym
from gymnasium.envs.registration import load_env_creator

from headrace.errors import HeadraceError, TrustError
from headrace.pool.executors.processes.task import OWN, in_gymnasium
from headrace.pool.registry import is_registered, registers
from headrace.pool.sources import is_file, is_loaded, module_of, split
from headrace.train.runs import zoo

WORD = re.compile(r"(\w[\w-]{0,99})?")  # texts in options that name neither a file nor code
HERE = ("", "local", "auto")  # values of the setting ray that reach no other address
SENDING = ("wandb", "trackio")  # loggers that send metrics
DEEPEST = 8  # number of modules through which a class is followed that they import from one another


@dataclass(frozen=True)
class Permission:
    """Something that settings ask for, and that needs the user's agreement.

    Attributes:
        words: a description that follows the run's name.
        key: what the user agrees to, as it is recorded.
        digest: the hash of the files that must not have changed since; empty if there are none.
        granted: whether this program may do it without agreement, such as run code that it has already imported.
    """

    words: str
    key: dict[str, Any]
    digest: str = ""
    granted: bool = False


def admit(settings: Mapping[str, Any], where: Path, trust: bool, *, training: bool = False) -> None:
    """Records what settings, name → value, from the folder ``where`` ask for if ``trust``.

    Raises:
        TrustError: the user does not agree, and has not agreed before.
    """
    if trust:
        remember(settings)
    elif unknown := unagreed(settings, training=training):
        words: dict[str, None] = {}
        for each in unknown:
            # control characters would hide something from a terminal's user
            shown = each.words if each.words.isprintable() else ascii(each.words)
            words[shown + ", which has changed since you ran it last" * bool(_remembered().recall(each.key))] = None
        raise TrustError(
            f"{where} {' and '.join(words)}: it may do whatever you may do.\n"
            "Read it; if you trust it, say --trust (in Python trust=True)"
        )


def unagreed(settings: Mapping[str, Any], *, training: bool = False) -> list[Permission]:
    """Returns what settings, name → value, ask for and the user has not agreed to; see `admit`."""
    permissions = [permission for permission in _permissions(settings, training) if not permission.granted]
    return [permission for permission in permissions if _remembered().recall(permission.key) != permission.digest]


def remember(settings: Mapping[str, Any]) -> None:
    """Records that the user has agreed to what settings, name → value, ask for."""
    for permission in _permissions(settings, training=True):
        with suppress(OSError):  # without a cache, nothing is recorded
            if _remembered().recall(permission.key) != permission.digest:
                _remembered().remember(permission.key, permission.digest)


def own_files(settings: Mapping[str, Any]) -> list[Path]:
    """Returns the files of the code that settings, name → value, name, without files of installed packages."""
    names = (name for name in (settings.get("task"), *_named(settings)) if isinstance(name, str))
    sources = (split(name)[0] for name in names if not is_registered(name))
    return [file for source in sources if source for file in _own(source)]


def is_installed(file: Path) -> bool:
    homes = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    homes += [*site.getsitepackages(), site.getusersitepackages(), str(Path(__file__).parents[2])]
    return any(file.is_relative_to(Path(home).resolve()) for home in homes)


# -- what settings ask for -------------------------------------------------------------------------


def _permissions(settings: Mapping[str, Any], training: bool) -> Iterator[Permission]:
    if isinstance(task := settings.get("task"), str):
        yield from _of_task(task, _options(settings))
    for name in _named(settings):
        if isinstance(name, str) and (source := split(name)[0]):
            yield from _of_files(source)
            if _exists(source) and not _own(source):
                yield Permission(f"calls {name}", {"name": name})
    if not training:
        return
    if isinstance(ray := settings.get("ray"), str) and ray not in HERE:
        yield Permission(f"connects to the Ray cluster at {ray}", {"ray": ray})
    log = settings.get("log")
    for name in SENDING:
        if log == name or (isinstance(log, list | tuple) and name in log):  # a single word is read as a list of one
            yield Permission(f"sends its metrics to {name}", {"log": name})
    for each in _policies(settings):
        if isinstance(load := each.get("load"), str) and not load.startswith(zoo.PREFIX):
            yield Permission(f"reads the run {load}", {"load": str(Path(load).resolve())})


def _named(settings: Mapping[str, Any]) -> list[Any]:
    """Returns the values of settings that may name code, which is called with no arguments of the settings' choice."""
    names = [each.get(name) for each in _policies(settings) for name in ("algo", "network")]
    return [settings.get("reward"), *names]


def _policies(settings: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    policies = settings.get("policies")
    own = policies.values() if isinstance(policies, dict) else ()
    return [settings, *(each for each in own if isinstance(each, dict))]


def _options(settings: Mapping[str, Any]) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for options in map(settings.get, ("env_options", "curriculum", "option_schedules")):
        for name, value in options.items() if isinstance(options, dict) else ():
            found.setdefault(name, []).append(value)
    return found


def _of_task(task: str, options: dict[str, list[Any]]) -> Iterator[Permission]:
    source, name = ("", task) if is_registered(task) else split(task)
    yield from _of_files(source)
    declared = _declared(source, name, options)
    granted = declared is not None and all(each in declared and _is_plain(options[each]) for each in options)
    # where there is a source, whether this is granted depends on what the program has imported
    if _exists(source) if source else (not granted and (is_registered(task) or in_gymnasium(task))):
        place = f"{Path(source).resolve()}:{name}" if source.endswith(".py") else task
        told = ", ".join(f"{option}={value!r}" for option, values in options.items() for value in values)
        words = f"makes {task}" + (f" with {told}" if told else "")
        yield Permission(words, {"name": place, "options": options}, granted=granted)


def _of_files(source: str) -> Iterator[Permission]:
    if own := _own(source):
        words = " and ".join(map(str, own))
        yield Permission(f"runs code of {words}", {"files": list(map(str, own))}, _digest(own), is_loaded(source))


# -- environments ----------------------------------------------------------------------------------


def _declared(source: str, name: str, options: Iterable[str]) -> set[str] | None:
    """Returns the names of the options that a task declares; None if it is neither registered nor a known class.

    All are declared where a task is registered with Headrace, whose tasks check their options themselves.
    """
    if registers(source, name) and "executor" not in options:
        return {*options}
    if source and (found := _environment(source, name)):
        return {*OWN, *_parameters(found)}
    if in_gymnasium(name) and (not source or (is_loaded(source) and not name.isidentifier())):
        spec: Any = gym.registry[name]
        maker = None
        with suppress(Exception):  # of its import, which making the environment raises again
            maker = load_env_creator(spec.entry_point) if options else None
        return {"executor", *OWN, *spec.kwargs, *_parameters(maker)}
    return None


def _parameters(maker: Callable[..., Any] | None) -> list[str]:
    try:
        known = inspect.signature(maker).parameters.values()  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return []
    return [each.name for each in known if each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)]


def _environment(source: str, name: str) -> type | None:
    """Returns an environment's class from an imported or installed module; None for anything else.

    Nothing is called, and a module is imported only if it is installed and its text has a class of this name.
    """
    if not is_loaded(source) and (_own(source) or not _has_class(source, name)):
        return None
    try:
        found = vars(module_of(source)).get(name)
    except HeadraceError:
        return None
    kinds = (gym.Env, getattr(sys.modules.get("pettingzoo.utils.env"), "ParallelEnv", gym.Env))
    known = isinstance(found, type) and issubclass(found, kinds) and not issubclass(found, gym.Wrapper)
    return found if known else None


def _has_class(source: str, name: str, depth: int = DEEPEST) -> bool:
    """Returns whether a module's text defines a derived class of this name, or imports one from another module."""
    files, whole = _files(source)
    if not whole or not depth or not files or files[-1].suffix != ".py":
        return False
    try:
        nodes = ast.parse(files[-1].read_bytes()).body
    except (OSError, SyntaxError, ValueError, RecursionError):
        return False
    package = source if files[-1].name == "__init__.py" else source.rpartition(".")[0]
    for node in nodes:
        if isinstance(node, ast.ClassDef) and node.name == name:
            return bool(node.bases)
        for alias in node.names if isinstance(node, ast.ImportFrom) else ():
            if (alias.asname or alias.name) == name:
                with suppress(ImportError):
                    theirs = importlib.util.resolve_name("." * node.level + (node.module or ""), package)  # type: ignore[union-attr]
                    return _has_class(theirs, alias.name, depth - 1)
    return False


def _is_plain(value: Any) -> bool:
    """Returns whether an option's value holds only numbers, and words that name neither a file nor code."""
    try:
        if isinstance(value, str):
            return WORD.fullmatch(value) is not None and not (value and os.access(value, os.F_OK))
        parts = [*value, *value.values()] if isinstance(value, dict) else value
        return all(map(_is_plain, parts)) if isinstance(parts, list | tuple) else True
    except RecursionError:
        return False


# -- files -----------------------------------------------------------------------------------------


def _own(source: str) -> list[Path]:
    """Returns the files of `_files` that do not belong to an installed package."""
    return [file for file in _files(source)[0] if not is_installed(file)]


def _exists(source: str) -> bool:
    """Returns whether there is anything that importing a source would run."""
    return bool(_files(source)[0]) or is_loaded(source) or _spec(source.partition(".")[0]) is not None


def _files(source: str) -> tuple[list[Path], bool]:
    """Returns the files whose code runs when ``source`` is imported, and whether these are all of its modules.

    The files that these import are not among them.
    """
    if source.endswith(".py"):
        return ([Path(source).resolve()], True) if is_file(source) else ([], False)
    files, path = [], None
    for parts in itertools.accumulate(source.split("."), "{}.{}".format):
        spec = _spec(parts, path)
        if spec is None:
            return files, False
        if spec.has_location and spec.origin:
            files.append(Path(spec.origin).resolve())
        path = spec.submodule_search_locations or []
    return files, True


def _spec(module: str, path: Any = None) -> Any:
    try:  # for nested modules importlib.util.find_spec would import their packages
        return importlib.util.find_spec(module) if path is None else PathFinder.find_spec(module, path)
    except (ImportError, ValueError, AttributeError):
        return None


def _digest(files: Iterable[Path]) -> str:
    whole = hashlib.sha256()
    for file in files:
        with suppress(OSError):
            content = file.read_bytes()
            whole.update(f"{len(content)} ".encode() + content)
    return whole.hexdigest()


def _remembered() -> Any:
    from headrace.train.runs.cache import MeasurementCache  # here, as it imports torch

    return MeasurementCache("trusted", lambda digest: {"sha256": digest}, lambda sha256: str(sha256))
