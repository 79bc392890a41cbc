"""Makes the settings of a run: the presets of its algorithm for the task, and the user's values in place of them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from headrace.errors import OptionError
from headrace.train.recipes.recipes import preset_of, recipe_of
from headrace.train.settings.algorithm import find_settings
from headrace.train.settings.common import COMMON
from headrace.train.settings.config import Config, composed
from headrace.train.settings.values import check_task

DECIDING = ("algo", "network", "preset")
"""settings that select a preset's values"""


def make_config(task: str, *, defaults: bool = True, **overrides: Any) -> Config:
    """Returns the settings of a run: the presets of its algorithm for a task, with ``overrides`` applied.

    ``env_options`` in the overrides are merged into the preset's. A policy with an ``algo`` or a ``network`` of its own
    has the presets for that, except for settings that it or ``overrides`` specifies. Settings of the run that only the
    algorithms of some policies have are passed to those policies.

    Args:
        task: name of the task.
        defaults: whether to begin with presets; otherwise with the default of each setting.
        overrides: settings by name.

    Raises:
        OptionError: the task is not a name, or an override has an unknown name, belongs to another algorithm, or has a
            value of the wrong type or out of range.
    """
    check_task(task)
    for name in DECIDING:
        if name in overrides:
            COMMON.checked(name, overrides[name])
    given = {**overrides, "task": task}
    if not defaults:
        return composed(given)
    recipe = recipe_of(task, given)
    given = {"algo": recipe.algo, "preset": recipe.preset, **given}
    algo, network, options = given["algo"], given.get("network", "auto"), given.get("env_options", {})
    preset, presets = given["preset"], find_settings(algo).presets
    if preset not in presets:
        has = ", ".join(presets)
        raise OptionError(f"training option preset={preset!r} must be one that {algo} has: {has}")
    begins = preset_of(presets, task, network, preset, options)
    if "schedules" in begins:  # a setting that is given stays as it is
        points = {name: points for name, points in begins["schedules"].items() if name not in given}
        begins = begins | {"schedules": points}
    begins = begins | _exploring(algo, begins, given)
    if isinstance(policies := given.get("policies"), Mapping):

        def values_of(own: dict[str, Any]) -> dict[str, Any]:
            values = policy_preset_values(task, options, algo, network, preset, own, given)
            learnt = _exploring(own.get("algo", algo), begins | values, given | own)
            return values | {name: value for name, value in learnt.items() if name not in given} | own

        given["policies"] = {name: values_of(own) if isinstance(own, dict) else own for name, own in policies.items()}
    return composed(given, begins)


def _exploring(algo: str, begins: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the share of random actions with which a policy that is loaded begins: the last one."""
    known = find_settings(algo)
    if given.get("load") is None or "epsilon_end" not in known.settings:
        return {}
    least = begins.get("epsilon_end", known.default("epsilon_end"))
    return {"epsilon_start": given.get("epsilon_end", least)}


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
    for name in sorted(theirs.only(before | after).keys() - theirs.shared() - set(given)):
        value = after.get(name, theirs.default(name))
        if name not in ours.settings or value != before.get(name, ours.default(name)):
            values[name] = list(value) if isinstance(value, tuple) else value
    return values
