"""Algorithms by name: the record of an algorithm's settings, and its class, which imports torch."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Iterable
from typing import Any

from headrace.errors import OptionError, UnknownTaskError
from headrace.pool.registry import nearest
from headrace.pool.sources import module_of, split
from headrace.train.config.fields import IN_TURN, KINDS, ONE_AGENT, WORKERS, settings_of

ALGORITHMS = {
    "ppo": "PPO", "a2c": "A2C", "pqn": "PQN", "ddpg": "DDPG", "td3": "TD3", "sac": "SAC", "dqn": "DQN",
    "crossq": "CrossQ",
}  # fmt: skip
"""name → class in the module of this name in `headrace.train.algorithms`"""
EXAMPLES = {"xqc": "examples/algorithms/xqc.py:XQC", "flashsac": "examples/algorithms/flash_sac.py:FlashSAC"}
"""algorithms of earlier versions that are examples"""
ARGUMENTS = ("run_dir", "resume", "quiet", "trust", "callback")
"""arguments of `headrace.train.train` beside the settings, which a misspelt name may mean"""


def find_settings(name: str) -> type[Any]:
    """Returns the record of an algorithm's settings, without importing torch for one of Headrace's.

    Args:
        name: one of `ALGORITHMS`; or a class with an attribute ``settings``, as ``"file.py:Class"`` or
            ``"package.module:Class"``.

    Raises:
        OptionError: there is no such class, or it is not an algorithm.
    """
    if name in ALGORITHMS:
        return getattr(importlib.import_module("headrace.train.config.algorithms"), f"{ALGORITHMS[name]}Config")
    return find_algorithm(name).settings


def find_algorithm(name: str, *, whole: bool = True) -> Any:
    """Returns the class of an algorithm, which derives from `headrace.train.algorithms.policy.Policy`.

    Args:
        whole: False for the record of its settings alone, as `find_settings`.

    Raises:
        OptionError: as `find_settings`.
    """
    if not whole:
        return find_settings(name)
    if name in ALGORITHMS:
        return getattr(importlib.import_module(f"headrace.train.algorithms.{name}"), ALGORITHMS[name])
    source, attribute = split(name)
    if name in EXAMPLES:
        raise OptionError(
            f"training option algo={name!r} is an example, not an algorithm of the package: "
            f"copy the file from the repository, and give algo={EXAMPLES[name]!r}"
        )
    if not source or not attribute:
        near = nearest(name, ALGORITHMS, 1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(ALGORITHMS)}, and file.py:Class"
        raise OptionError(f"training option algo={name!r} is no algorithm: {hint}")
    try:
        found = getattr(module_of(source), attribute, None)
    except UnknownTaskError as error:
        raise OptionError(f"training option algo={name!r}: {error}") from error
    if not hasattr(found, "settings"):
        raise OptionError(f"training option algo={name!r}: {source} has no class {attribute} derived from Policy")
    return found


def conditions(record: type[Any]) -> set[str]:
    """Returns the conditions, see `Setting.needs`, that can hold in a run of an algorithm."""
    found = {IN_TURN, ONE_AGENT, *(f"with {kind} actions" for kind in record.action_kinds)}
    return found.union({WORKERS} if record.has_workers else (), *(KINDS[kind] for kind in record.network_kinds))


def described_owners(name: str) -> str:
    """Returns in words which of Headrace's algorithms use a setting, and when; empty if none does."""
    owners: dict[tuple[str, ...], list[str]] = {}
    for algo in ALGORITHMS:
        record = find_settings(algo)
        known = settings_of(record).get(name)
        if known is not None and conditions(record).issuperset(known.needs):
            owners.setdefault(tuple(known.words()), []).append(algo)
    return "; ".join(
        " ".join(["runs" if len(algos) == len(ALGORITHMS) else ", ".join(algos), *words])
        for words, algos in owners.items()
    )


def unknown(name: str, value: Any, algo: str, settings: Iterable[str]) -> str:
    """Returns a message that an algorithm with these settings has no such setting, and which algorithms have it."""
    if owners := described_owners(name):
        return f"{name}={value!r} would not be used by {algo}: it is for {owners}"
    near = difflib.get_close_matches(name, [*settings, *ARGUMENTS], n=3, cutoff=0.4)
    return f"unknown training option {name!r}" + (f"; nearest: {', '.join(near)}" if near else "")
