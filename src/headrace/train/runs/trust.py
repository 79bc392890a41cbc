"""Checks of whether the code that a run folder names may be run.

A run's settings may name code: a task, an algorithm, a network or a function of rewards in a file or a module. A run
folder may come from an untrusted source. Its code is therefore run only if it is known: part of an installed package,
already loaded by this program, or named by the user before and unchanged since. Known code is recorded by path and
contents in the user's cache, and not in the run folder, whose sender may have changed any of its files.
"""

from __future__ import annotations

import hashlib
import importlib.util
import itertools
import site
import sysconfig
from collections.abc import Iterable, Mapping
from contextlib import suppress
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

from headrace.errors import TrustError
from headrace.pool.registry import is_registered
from headrace.pool.sources import is_loaded, split


def check(settings: Mapping[str, Any], where: Path) -> None:
    """Raises `TrustError` if settings, name → value, from the folder ``where`` name code that is not known."""
    for source in sources(named(settings)):
        files = _files(source)
        if is_known(source):
            continue
        changed = "" if _remembered().recall(_key(files)) is None else ", which has changed since you ran it last"
        raise TrustError(
            f"{where} runs code of {_words(files)}{changed}: it may do whatever you may do.\n"
            "Read it; if you trust it, say --trust (in Python trust=True)"
        )


def admit(settings: Mapping[str, Any], where: Path, trust: bool) -> None:
    """Records the code that settings, name → value, name if ``trust``; otherwise calls `check`."""
    if trust:
        remember(named(settings))
    else:
        check(settings, where)


def is_known(source: str) -> bool:
    """Returns whether the code of a file or module is loaded, installed, or was named by the user and is unchanged."""
    files = _files(source)
    return is_loaded(source) or all(map(is_installed, files)) or _remembered().recall(_key(files)) == _digest(files)


def remember(names: Iterable[object]) -> None:
    """Records files of tasks, algorithms, networks and rewards that the user has named; ignores other values."""
    for source in sources(names):
        files = _files(source)
        with suppress(OSError):  # without a cache, code is not recorded
            if files and not all(map(is_installed, files)):
                _remembered().remember(_key(files), _digest(files))


def named(settings: Mapping[str, Any]) -> list[object]:
    """Returns the values of settings, name → value, that may name code."""
    policies = settings.get("policies")
    own = [each for each in policies.values() if isinstance(each, dict)] if isinstance(policies, dict) else []
    return [
        settings.get("task"),
        settings.get("reward"),
        *(each.get(name) for each in (settings, *own) for name in ("algo", "network")),
    ]


def sources(names: Iterable[object]) -> list[str]:
    """Returns the files and modules among the names of tasks, algorithms, networks and rewards."""
    words = (name for name in names if isinstance(name, str) and not is_registered(name))
    return [source for source in (split(name)[0] for name in words) if source]


def own_files(settings: Mapping[str, Any]) -> list[Path]:
    """Returns the files of the code that settings, name → value, name, without files of installed packages."""
    return [file for source in sources(named(settings)) for file in _files(source) if not is_installed(file)]


def _files(source: str) -> list[Path]:
    """Returns the files whose code runs when ``source`` is imported, without those that these files import."""
    if source.endswith(".py"):
        return [Path(source).resolve()] if Path(source).is_file() else []
    files, path = [], None
    for parts in itertools.accumulate(source.split("."), "{}.{}".format):
        try:  # for nested modules importlib.util.find_spec would import their packages
            spec = importlib.util.find_spec(parts) if path is None else PathFinder.find_spec(parts, path)
        except (ImportError, ValueError):
            spec = None
        if spec is None:
            break
        if spec.has_location and spec.origin:
            files.append(Path(spec.origin).resolve())
        path = spec.submodule_search_locations or []
    return files


def is_installed(file: Path) -> bool:
    """Returns whether a file belongs to Python or an installed package."""
    homes = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    homes += [*site.getsitepackages(), site.getusersitepackages(), str(Path(__file__).parents[2])]
    return any(file.is_relative_to(Path(home).resolve()) for home in homes)


def _digest(files: Iterable[Path]) -> str:
    whole = hashlib.sha256()
    for file in files:
        with suppress(OSError):
            content = file.read_bytes()
            whole.update(f"{len(content)} ".encode() + content)
    return whole.hexdigest()


def _key(files: Iterable[Path]) -> dict[str, Any]:
    return {"files": [str(file) for file in files]}


def _words(files: Iterable[Path]) -> str:
    return " and ".join(str(file) for file in files)


def _remembered() -> Any:
    from headrace.train.runs.cache import MeasurementCache  # here, as it imports torch

    return MeasurementCache("trusted", lambda digest: {"sha256": digest}, lambda sha256: str(sha256))
