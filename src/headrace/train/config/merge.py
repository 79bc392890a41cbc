"""Makes the settings of a run from presets of its algorithm, the user's values, and those of each policy.

The dataclasses of settings are arguments here, as the base class of all is defined in a module that imports this one.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cache
from typing import Any, get_type_hints

from headrace.errors import OptionError
from headrace.pool.executors.processes.task import OWN
from headrace.pool.registry import is_python, own_options
from headrace.train.config.checks import as_lists, check_storable, check_text, converted, describe, matches
from headrace.train.config.fields import default_of, settings_of
from headrace.train.config.presets import DEFAULT_PRESET
from headrace.train.config.recipes import preset_of, recipe_of
from headrace.train.config.registry import ALGORITHMS, find_settings, unknown

DECIDING = ("algo", "network", "preset")
"""settings that select a preset's values"""
REMOVED = {"viewer_share"}
"""settings of earlier versions, which are ignored in the files of their runs"""


def settings_and_values(task: str, defaults: bool, given: dict[str, Any]) -> tuple[type[Any], dict[str, Any]]:
    """Returns the type of a run's settings and their values; see `headrace.train.config.settings.make_config`.

    Raises:
        OptionError: a setting is unknown, belongs to another algorithm, or has a value of another type.
    """
    if defaults:
        recipe = recipe_of(task, given)
        given = {"algo": recipe.algo, "preset": recipe.preset, **given}
    algo, network, options = given.get("algo", "ppo"), given.get("network", "auto"), given.get("env_options", {})
    preset, settings, values = given.get("preset", DEFAULT_PRESET), find_settings(algo), {}
    if defaults:
        if preset not in settings.presets:
            has = ", ".join(settings.presets)
            raise OptionError(f"training option preset={preset!r} must be one that {algo} has: {has}")
        chosen = preset_of(settings.presets, task, network, preset, options)
        values = {name: checked(settings, name, value) for name, value in chosen.items()}
        if "schedules" in values:  # a setting that is given stays as it is
            values["schedules"] = {name: points for name, points in values["schedules"].items() if name not in given}
    theirs: dict[str, Any] = {}  # of policies with other algorithms
    for name, value in given.items():
        if name in settings_of(settings) and name != "task":
            value = checked(settings, name, value)
            values[name] = values.get(name, {}) | value if name == "env_options" else value
        elif name in _of_policies(given):
            theirs[name] = value
        else:
            raise OptionError(_stranger(name, value, algo, settings, task if defaults else ""))
    if "policies" in values:
        values["policies"] = {
            name: (policy_preset_values(task, options, algo, network, preset, own, given) if defaults else {})
            | only(find_settings(own.get("algo", algo)), theirs)
            | own
            if isinstance(own, dict)
            else own
            for name, own in values["policies"].items()
        }
    return settings, values


def _stranger(name: str, value: Any, algo: str, settings: type[Any], task: str) -> str:
    """Returns a message that there is no such setting, and which options the task has; without a task, none."""
    options = options_to_give(task)
    if name in options:
        return f"{name} is an option of {task}: give env_options={{{name!r}: {value!r}}}"
    words = unknown(name, value, algo, settings_of(settings))
    if not options or not words.startswith("unknown"):
        return words
    return f"{words}. The task's own options go into env_options; {task} has {', '.join(options)}"


def options_to_give(task: str) -> list[str]:
    """Returns the names of a task's own options; none of a task that is not known, or whose file cannot be read."""
    try:
        return sorted({"max_episode_steps", *own_options(task), *(OWN if is_python(task) else ())}) if task else []
    except Exception:  # of a user's own code, too: what builds the task raises it again
        return []


def policy_preset_values(
    task: str,
    options: Mapping[str, Any],
    algo: str,
    network: str,
    preset: str,
    own: dict[str, Any],
    given: Collection[str] = (),
) -> dict[str, Any]:
    """Returns the preset's settings of a policy's ``own`` algorithm or network where it differs from the run's.

    Settings that are ``given`` are left out.
    """
    ours, theirs = find_settings(algo), find_settings(own.get("algo", algo))
    before = preset_of(ours.presets, task, network, preset, options)
    after = preset_of(theirs.presets, task, own.get("network", network), preset, options)
    values = {}
    for name in sorted(only(theirs, before | after).keys() - shared(theirs) - set(given)):
        value = after.get(name, default_of(theirs, name))
        if name not in settings_of(ours) or value != before.get(name, default_of(ours, name)):
            values[name] = list(value) if isinstance(value, tuple) else value
    return values


def of_these_algorithms(values: dict[str, Any]) -> dict[str, Any]:
    """Returns the values, name → value, without `REMOVED` settings and those of other registered algorithms."""
    values = {name: value for name, value in values.items() if name not in REMOVED}
    used = _of_policies(values).union(settings_of(find_settings(values.get("algo", "ppo"))))
    if used.issuperset(values):
        return values
    known = set().union(*(settings_of(find_settings(name)) for name in ALGORITHMS))
    return {name: value for name, value in values.items() if name in used or name not in known}


def _of_policies(values: Mapping[str, Any]) -> set[str]:
    return set().union(*(settings_of(each).keys() - shared(each) for each in record_types(values)))


def record_types(values: Mapping[str, Any]) -> list[type[Any]]:
    return [find_settings(name) for name in algorithms_of(values)]


def algorithms_of(values: Mapping[str, Any]) -> list[str]:
    """Returns the names of the algorithms of a run and of its policies, each once."""
    policies = values.get("policies")
    own = policies.values() if isinstance(policies, dict) else ()
    others = (each["algo"] for each in own if isinstance(each, dict) and "algo" in each)
    return list(dict.fromkeys((values.get("algo", "ppo"), *others)))


def only(settings: type[Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the values, name → value, whose names are settings of this type."""
    return {name: value for name, value in values.items() if name in settings_of(settings)}


def shared(settings: type[Any]) -> set[str]:
    return {name for name, known in settings_of(settings).items() if known.shared}


def checked(settings: type[Any], name: str, value: Any) -> Any:
    """Returns a value converted to the type of a setting.

    Raises:
        OptionError: the value is of another type, or there is no such setting.
    """
    if name not in settings_of(settings):
        raise OptionError(f"{settings.__name__} has no setting {name!r}")
    hint = hints(settings)[name]
    value = converted(value, hint)
    if not matches(value, hint):
        raise OptionError(f"training option {name}={value!r} must be {describe(hint, value)}")
    check_text(name, value)
    if name in ("env_options", "policies"):
        check_storable(name, value)
    if name in ("schedules", "curriculum"):  # points that were read from a file are lists
        value = {key: as_lists(points) for key, points in value.items()}
    return value


@cache
def hints(settings: type[Any]) -> dict[str, Any]:
    return get_type_hints(settings)
