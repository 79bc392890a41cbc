"""Decides which settings a run uses, and raises errors for settings that no policy would use.

Only settings that the user gave are checked, as presets of a task or an algorithm may be for other ways of training.
Values that turn a setting off (False, 0, None, an empty collection) are never an error.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from headrace.errors import OptionError
from headrace.train.config.fields import IN_TURN, WORKERS, Use, default_of, settings_of
from headrace.train.config.merge import policy_preset_values
from headrace.train.config.registry import Capabilities, find_algorithm, who_uses
from headrace.train.config.settings import Config, make_config


@dataclass(frozen=True)
class PolicySetup:
    """The properties of a policy that decide which settings are used for it.

    Attributes:
        config: the run's settings, none left open, with those of the policy.
        network: the kind of its network: mlp, cnn, gru, or own for a user's.
        agents: the number of agents of an environment that it plays.
    """

    config: Config
    network: str = "mlp"
    continuous: bool = True
    agents: int = 1
    alone: bool = True

    @property
    def way(self) -> str:
        """The way of training: with workers, or in turn."""
        return WORKERS if self.config.samplers > 0 else IN_TURN

    @property
    def capabilities(self) -> Capabilities:
        return find_algorithm(self.config.algo).capabilities

    def uses(self, name: str) -> bool:
        known = settings_of(type(self.config)).get(name)
        return known is not None and any(map(self._is_in, known.uses))

    def _is_in(self, use: Use) -> bool:
        if use.replay not in (None, self.capabilities.replay):
            return False
        if self.way not in use.ways or self.network not in use.networks or (use.continuous and not self.continuous):
            return False
        if use.alone and not self.alone:
            return False
        if use.given is None:
            return True
        name, value = use.given
        there = getattr(self.config, name)
        return bool(there) if value is True else there == value


def check_used(
    config: Config, given: Mapping[str, Any], setups: Mapping[str, PolicySetup], why: str | None = None
) -> None:
    """Checks that a run uses the settings that the user gave.

    Args:
        config: the settings of the run, none left open.
        given: the settings that the user gave; those equal to the defaults are no error, unless another given setting
            turns off what a preset has.
        setups: policy name → its setup.
        why: why the run has no samplers, if the user did not choose that.

    Raises:
        OptionError: no policy uses one of them, one of the schedules, or one of a policy's own settings; the message
            names the algorithms that would.
    """
    plain = _plain(config)
    every = list(setups.values())
    for name in sorted(given):
        value = getattr(config, name, given[name])
        harmless = (
            default_of(type(config), name) if _switches(name, config, plain, given) else getattr(plain, name, None)
        )
        if value and value != harmless:
            _check(name, value, every, why)
    for name, points in sorted(config.schedules.items()):
        _check(name, points, every, why, "a schedule of ")
    for policy, own in sorted(given.get("policies", {}).items()):
        theirs = policy_preset_values(config.task, config.algo, config.network, config.preset, own)
        for name in sorted(own.keys() - {"agents", "copies"}):
            if own[name] and own[name] not in (getattr(config, name, None), theirs.get(name)):
                _check(name, own[name], [setups[policy]], why, f"policy {policy!r}: ")


def check_learns(
    config: Config, given: Collection[str], setups: Mapping[str, PolicySetup], why: str | None = None
) -> None:
    """Checks that a run's policies learn; arguments as for `check_used`.

    Raises:
        OptionError: all policies are frozen, a replay ratio is missing, or learning would start after the end.
    """
    if all(setup.config.frozen for setup in setups.values()):
        raise OptionError(
            "with frozen=True no policy would learn: it is for one of several policies, of which another learns"
        )
    for name, setup in setups.items():
        own, whose = setup.config, f"policy {name!r}: " if name else ""
        if not setup.capabilities.replay or own.frozen:
            continue
        if own.replay_ratio is None and setup.way == IN_TURN:
            way = IN_TURN + (f" (as it is since {why})" if why else "")
            words = f"replay_ratio=None lets samplers and learner run free; with {way} it must be a number"
            raise OptionError(whose + words)
        chosen = "learning_starts" in {*given, *config.policies.get(name, {})}
        if chosen and (words := learns_nothing(setup)):
            raise OptionError(f"{whose}{words}")


def learns_nothing(setup: PolicySetup) -> str | None:
    """Returns in words why a policy would learn nothing, if learning starts after the end of the run; else None."""
    own = setup.config
    collected = own.total_steps * setup.agents
    if not setup.capabilities.replay or own.frozen or own.learning_starts <= collected:
        return None
    return f"with learning_starts={own.learning_starts} and total_steps={own.total_steps} nothing would be learnt"


def check_asked_for(setup: PolicySetup) -> None:
    """Raises `OptionError` for a setting that is off by default, turned on, even by a preset, and would not be used."""
    for name in settings_of(type(setup.config)):
        value = getattr(setup.config, name)
        if value and name != "task" and not default_of(type(setup.config), name):
            _check(name, value, [setup], None)


def _check(name: str, value: Any, setups: list[PolicySetup], why: str | None, before: str = "") -> None:
    if any(setup.uses(name) for setup in setups):
        return
    last = setups[-1]
    way = "samplers" if last.way == WORKERS else IN_TURN + (f" (as it is since {why})" if why else "")
    kind = "" if last.network == "mlp" else f" for a network that is {last.network}"
    words = f"{before}{name}={value!r} would not be used by {last.config.algo} with {way}{kind}"
    raise OptionError(f"{words}: it is for {who_uses(name)}")


def _plain(config: Config) -> Config:
    """Returns the settings with which a run of the same task, algorithm and preset begins, if nothing else is given."""
    return make_config(config.task, algo=config.algo, preset=config.preset)


def turned_off(config: Config, given: Collection[str], setups: Mapping[str, PolicySetup]) -> Iterator[tuple[str, str]]:
    """Yields the settings that have a preset's value and are not used, since the user gave another setting.

    Args:
        config: the settings of the run, none left open.
        given: the names of the settings that the user gave.
        setups: policy name → its setup.

    Yields:
        The names of the setting, and of the other one.
    """
    kind, plain = type(config), _plain(config)
    for name in settings_of(kind):
        if default_of(kind, name) != getattr(config, name) == getattr(plain, name):
            others = _switches(name, config, plain, given)
            if others and not any(setup.uses(name) for setup in setups.values()):
                yield name, others[0]


def _switches(name: str, config: Config, plain: Config, given: Collection[str]) -> list[str]:
    """Returns the settings that decide whether another one is used, and that the user gave another value."""
    known = settings_of(type(config)).get(name)
    others = [use.given[0] for use in known.uses if use.given is not None] if known else []
    return [other for other in others if other in given and getattr(config, other) != getattr(plain, other)]


def unused_defaults(setup: PolicySetup) -> Iterator[tuple[str, Any]]:
    """Yields the values of presets, name → value, that this run does not use, which is no error."""
    kind = type(setup.config)
    for name, known in settings_of(kind).items():
        value, some = getattr(setup.config, name), all(use.ways == (WORKERS,) or use.alone for use in known.uses)
        if known.group != "workers" and some and value != default_of(kind, name) and not setup.uses(name):
            yield name, value
