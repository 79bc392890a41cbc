"""Refuses settings that the user gave and a run would not use, and names those of a preset that it does not use.

A run uses the settings of the records that it has (`Config.has`). Only settings that the user gave are checked, as
presets of a task or an algorithm may be for other ways of training. Values that turn a setting off (False, 0, None, an
empty collection) are never an error.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from headrace.errors import OptionError
from headrace.train.recipes.make import make_config, policy_preset_values
from headrace.train.settings.config import Config
from headrace.train.settings.owners import check_has, way
from headrace.train.settings.when import ONE_AGENT


def check_used(
    config: Config, given: Mapping[str, Any], policies: Mapping[str, Config], why: str | None = None
) -> None:
    """Checks that a run uses the settings that the user gave.

    Args:
        config: the settings of the run, none left open.
        given: the settings that the user gave; those equal to the defaults are no error, unless another given setting
            turns off what a preset has.
        policies: name → settings of each policy, fitted to the task.
        why: why the run has no samplers, if the user did not choose that.

    Raises:
        OptionError: no policy uses one of them, one of the schedules, or one of a policy's own settings; the message
            names the algorithms that would.
    """
    plain, every = _plain(config), list(policies.values())
    for name in sorted(given):
        value = vars(config).get(name, given[name])
        off = _turned_off_by(name, config, plain, given) is not None
        if value and value != (config.algorithm.default(name) if off else vars(plain).get(name)):
            check_has(name, value, every, why)
    for name, points in sorted(config.schedules.items()):
        check_has(name, points, every, why, "a schedule of ")
    for policy, own in sorted(given.get("policies", {}).items()):
        theirs = policy_preset_values(config.task, config.env_options, config.algo, config.network, config.preset, own)
        for name in sorted(own.keys() - {"agents", "copies"}):
            if own[name] and own[name] not in (vars(config).get(name), theirs.get(name)):
                check_has(name, own[name], [policies[policy]], why, f"policy {policy!r}: ")


def check_learns(
    config: Config, given: Collection[str], policies: Mapping[str, Config], why: str | None = None
) -> None:
    """Checks that a run's policies learn; arguments as for `check_used`.

    Raises:
        OptionError: all policies are frozen, a replay ratio is missing, or learning would start after the end.
    """
    if all(own.frozen for own in policies.values()):
        raise OptionError(
            "with frozen=True no policy would learn: set it for one of several policies, while another one learns"
        )
    for name, own in policies.items():
        whose = f"policy {name!r}: " if name else ""
        if own.algorithm.replays and not own.frozen and own.replay_ratio is None and own.samplers == 0:
            words = f"replay_ratio=None is for runs with samplers; {way(own, why)} it must be a number"
            raise OptionError(whose + words)
        chosen = "learning_starts" in {*given, *config.policies.get(name, {})}
        if chosen and (words := learns_nothing(own)):
            raise OptionError(f"{whose}{words}")


def learns_nothing(own: Config) -> str | None:
    """Returns in words why a policy would learn nothing, if learning starts after the end of the run; else None."""
    if not own.algorithm.replays or own.frozen or own.learning_starts <= own.total_steps * own.fit.agents:
        return None
    return f"with learning_starts={own.learning_starts} and total_steps={own.total_steps} nothing would be learnt"


def _plain(config: Config) -> Config:
    """Returns the settings with which a run of the same task, algorithm and preset begins, if nothing else is given."""
    return make_config(config.task, algo=config.algo, preset=config.preset, env_options=config.env_options)


def unused_presets(
    config: Config, given: Collection[str], policies: Mapping[str, Config]
) -> Iterator[tuple[str, str | None]]:
    """Yields the settings of a preset that are not used, though the way of training has them, which is no error.

    Yields:
        The name of the setting, and of the one that the user gave and that turns it off; or None, if it is for tasks
        with one agent.
    """
    algorithm, plain = config.algorithm, _plain(config)
    for name, known in algorithm.settings.items():
        if algorithm.default(name) != vars(config)[name] == vars(plain)[name]:
            other = _turned_off_by(name, config, plain, given)
            unused = other is not None or ONE_AGENT in known.when
            if unused and not any(own.has(name) for own in policies.values()):
                yield name, other


def _turned_off_by(name: str, config: Config, plain: Config, given: Collection[str]) -> str | None:
    """Returns the setting that decides whether another one is used, if the user gave it another value."""
    known = config.algorithm.settings.get(name)
    deciding = [each.setting for each in known.when if each.setting] if known else []
    return next((name for name in deciding if name in given and vars(config)[name] != vars(plain)[name]), None)
