"""The settings that a sweep varies, and their values: ranges and choices, checked before any run begins."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution

from headrace.errors import OptionError
from headrace.train.runs.files import number
from headrace.train.runs.trust import admit
from headrace.train.settings.algorithm import find_settings
from headrace.train.settings.owners import unknown

FIXED = ("task", "algo", "seed", "policies", "schedules", "env_options", "load", "device", "devices")
"""settings that no sweep varies"""


Space = dict[str, BaseDistribution]
"""name of a setting → its values, as Optuna describes them; lists of widths are words, such as ``"64x64"``"""


def read_space(words: Sequence[str], algo: str, trust: bool = False) -> Space:
    """Returns the space of ``--space``: ``name=low..high``, ``name=low..high:log``, ``name=a,b,c``, or a file.

    Raises:
        OptionError: an argument is malformed, names a setting twice, or names a setting that the algorithm does not
            have.
        TrustError: a file names code, or another machine, that the user has not agreed to, and ``trust`` is false.
    """
    space: Space = {}
    for word in words:
        name, equals, text = word.partition("=")
        found = {name: _from_text(name, text, algo)} if equals else space_of(_read_file(word, trust), algo)
        if again := space.keys() & found.keys():
            raise OptionError(f"--space has {min(again)} twice")
        space |= found
    if not space:
        raise OptionError("name the settings to vary: --space learning_rate=1e-4..1e-2:log num_steps=32,64,128")
    return space


def space_of(values: Mapping[str, Any], algo: str) -> Space:
    """Returns a space from its representation in JSON or TOML.

    Args:
        values: name of a setting → list of values, or ``{"low": …, "high": …, "log": …}``.

    Raises:
        OptionError: as for `read_space`.
    """
    space: Space = {}
    for name, value in values.items():
        kind = _type_of(name, algo)
        if isinstance(value, list) and value:
            space[name] = CategoricalDistribution([_choice(name, each) for each in value])
        elif isinstance(value, Mapping) and {"low", "high"} <= value.keys() <= {"low", "high", "log"}:
            space[name] = _range(name, value["low"], value["high"], bool(value.get("log", False)), kind)
        else:
            raise OptionError(
                f'--space {name}={value!r} must be a list of values, or {{"low": 1, "high": 2, "log": true}}'
            )
    return space


def _read_file(path: str, trust: bool) -> dict[str, Any]:
    try:
        text = Path(path).read_text()
        values = tomllib.loads(text) if path.endswith(".toml") else json.loads(text)
    except OSError:
        raise OptionError(f"--space {path!r} is neither name=values nor a TOML or JSON file that can be read") from None
    except (ValueError, RecursionError) as error:
        raise OptionError(f"--space {path} cannot be read: {error}") from error
    if not isinstance(values, dict):
        raise OptionError(f"--space {path} must hold an object, name → values")
    for name, choices in values.items():
        for each in choices if isinstance(choices, list) else ():
            admit({name: each}, Path(path), trust, training=True)
    return values


def _type_of(name: str, algo: str) -> Any:
    """Returns the type of a setting; raises `OptionError` if the setting cannot be varied."""
    algorithm = find_settings(algo)
    if name not in algorithm.settings:
        raise OptionError(f"--space: {unknown(name, '…', algo, algorithm.settings)}")
    if name in FIXED:
        raise OptionError(f"--space cannot vary {name}: name it as an option")
    return algorithm.types[name]


def _kinds(hint: Any) -> set[Any]:
    return {hint, *get_args(hint)}


def _from_text(name: str, text: str, algo: str) -> BaseDistribution:
    kind = _type_of(name, algo)
    bounds, colon, scale = text.partition(":")
    if ".." in bounds:
        if colon and scale != "log":
            raise OptionError(f"--space {name}={text}: after the range there may be :log, not :{scale}")
        low, _, high = bounds.partition("..")
        return _range(name, _number(name, low), _number(name, high), bool(colon), kind)
    values = [word.strip() for word in text.split(",")]
    if not all(values):
        raise OptionError(f"--space {name}={text} must be a range, such as 1e-4..1e-2:log, or values, such as 32,64")
    return CategoricalDistribution([_choice(name, _value(name, word, kind)) for word in values])


def _range(name: str, low: Any, high: Any, log: bool, kind: Any) -> BaseDistribution:
    integer = int in _kinds(kind) and float not in _kinds(kind)
    if not _kinds(kind) & {int, float} or getattr(kind, "__origin__", None) is tuple:
        raise OptionError(f"--space {name} is not a number: name its values, such as {name}=a,b")
    if None in (number(low), number(high)) or low >= high:
        raise OptionError(f"--space {name}={low}..{high} must rise from one number to another")
    if log and low <= 0:
        raise OptionError(f"--space {name}={low}..{high}:log must begin above 0")
    if integer and (int(low) != low or int(high) != high):
        raise OptionError(f"--space {name}={low}..{high} must have whole numbers as its ends")
    return IntDistribution(int(low), int(high), log) if integer else FloatDistribution(float(low), float(high), log)


def _choice(name: str, value: Any) -> str | int | float | bool | None:
    """Returns a value as Optuna can store it."""
    if isinstance(value, list) and all(isinstance(width, int) for width in value):
        return "x".join(map(str, value))
    if value is None or isinstance(value, str | int | float):
        return value
    raise OptionError(f"--space {name}={value!r} must be a number, a word, true, false, or a list of widths")


def _number(name: str, word: str) -> float:
    try:
        return float(word)
    except ValueError:
        raise OptionError(f"--space {name}: {word!r} is not a number") from None


def _value(name: str, word: str, kind: Any) -> Any:
    """Returns a word as a value of a setting's type; widths have the form ``64x64``."""
    kinds = _kinds(kind)
    if word == "None" and type(None) in kinds:
        return None
    if bool in kinds and word.lower() in ("true", "false"):
        return word.lower() == "true"
    if getattr(kind, "__origin__", None) is tuple:
        try:
            return [int(part) for part in word.split("x")]
        except ValueError:
            raise OptionError(f"--space {name}: {word!r} must be widths, such as 64x64") from None
    for kind_of in (int, float):
        if kind_of in kinds or (kind_of is int and float in kinds):
            try:
                return kind_of(word)
            except ValueError:
                continue
    return word


def plain_space(space: Space) -> dict[str, Any]:
    """Returns a space as JSON represents it, for `space_of`."""
    plain: dict[str, Any] = {}
    for name, known in space.items():
        if isinstance(known, FloatDistribution | IntDistribution):
            plain[name] = {"low": known.low, "high": known.high, "log": known.log}
        else:
            plain[name] = list(_ends(known))
    return plain


def settings_of(drawn: Mapping[str, Any], algo: str) -> dict[str, Any]:
    """Returns the settings of a trial, name → value, for the values that Optuna drew."""
    return {
        name: _value(name, value, _type_of(name, algo)) if isinstance(value, str) else value
        for name, value in drawn.items()
    }


def candidates(space: Space) -> Iterable[dict[str, Any]]:
    """Yields each value to be checked as a single setting, name → value: if both ends of a range are valid, all is."""
    for name, known in space.items():
        for value in _ends(known):
            yield {name: value}


def _ends(known: BaseDistribution) -> tuple[Any, ...]:
    if isinstance(known, FloatDistribution | IntDistribution):
        return known.low, known.high
    assert isinstance(known, CategoricalDistribution)
    return known.choices
