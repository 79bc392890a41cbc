"""Decides which settings a run uses, and raises errors for settings that no policy would use.

Only settings that the user gave are checked, as presets of a task or an algorithm may be for other ways of training.
Values that turn a setting off (False, 0, None, an empty collection) are never an error.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple

from headrace.errors import OptionError
from headrace.train.config.fields import CONTINUOUS, IN_TURN, KINDS, LAYERS, ONE_AGENT, WORKERS, default_of, settings_of
from headrace.train.config.merge import policy_preset_values
from headrace.train.config.registry import described_owners
from headrace.train.config.replay import ActorCriticConfig, ReplayConfig
from headrace.train.config.settings import Config, make_config


class PolicyCase(NamedTuple):
    """A policy, as far as it decides which settings are used.

    Attributes:
        config: the run's settings, none left open, with those of the policy.
        network: the kind of its network, one of `KINDS`.
        agents: the number of agents of an environment that it plays.
        conditions: the conditions that hold for it, see `Setting.needs`.
    """

    config: Config
    network: str
    agents: int
    conditions: frozenset[str]

    @classmethod
    def of(
        cls, config: Config, network: str = "mlp", continuous: bool = True, agents: int = 1, alone: bool = True
    ) -> PolicyCase:
        """Returns the case of a policy; ``alone`` says whether the task has one agent."""
        conditions = {WORKERS if config.samplers > 0 else IN_TURN, *KINDS[network]}
        if network == "cnn" and isinstance(config, ActorCriticConfig):
            conditions.add(LAYERS)  # after the CNN
        conditions |= ({CONTINUOUS} if continuous else set()) | ({ONE_AGENT} if alone else set())
        return cls(config, network, agents, frozenset(conditions))

    def uses(self, name: str) -> bool:
        known = settings_of(type(self.config)).get(name)
        if known is None or not self.conditions.issuperset(known.needs):
            return False
        if known.given is None:
            return True
        other, value = known.given
        return bool(getattr(self.config, other)) if value is True else getattr(self.config, other) == value


def check_used(
    config: Config, given: Mapping[str, Any], cases: Mapping[str, PolicyCase], why: str | None = None
) -> None:
    """Checks that a run uses the settings that the user gave.

    Args:
        config: the settings of the run, none left open.
        given: the settings that the user gave; those equal to the defaults are no error, unless another given setting
            turns off what a preset has.
        cases: by the names of the policies.
        why: why the run has no samplers, if the user did not choose that.

    Raises:
        OptionError: no policy uses one of them, one of the schedules, or one of a policy's own settings; the message
            names the algorithms that would.
    """
    plain, every = _plain(config), list(cases.values())
    for name in sorted(given):
        value = getattr(config, name, given[name])
        off = _turned_off_by(name, config, plain, given) is not None
        if value and value != (default_of(type(config), name) if off else getattr(plain, name, None)):
            _check(name, value, every, why)
    for name, points in sorted(config.schedules.items()):
        _check(name, points, every, why, "a schedule of ")
    for policy, own in sorted(given.get("policies", {}).items()):
        theirs = policy_preset_values(config.task, config.env_options, config.algo, config.network, config.preset, own)
        for name in sorted(own.keys() - {"agents", "copies"}):
            if own[name] and own[name] not in (getattr(config, name, None), theirs.get(name)):
                _check(name, own[name], [cases[policy]], why, f"policy {policy!r}: ")


def check_learns(
    config: Config, given: Collection[str], cases: Mapping[str, PolicyCase], why: str | None = None
) -> None:
    """Checks that a run's policies learn; arguments as for `check_used`.

    Raises:
        OptionError: all policies are frozen, a replay ratio is missing, or learning would start after the end.
    """
    if all(case.config.frozen for case in cases.values()):
        raise OptionError(
            "with frozen=True no policy would learn: set it for one of several policies, while another one learns"
        )
    for name, case in cases.items():
        own, whose = case.config, f"policy {name!r}: " if name else ""
        if isinstance(own, ReplayConfig) and not own.frozen and own.replay_ratio is None and own.samplers == 0:
            words = f"replay_ratio=None is for runs with samplers; {_way(own, why)} it must be a number"
            raise OptionError(whose + words)
        chosen = "learning_starts" in {*given, *config.policies.get(name, {})}
        if chosen and (words := learns_nothing(case)):
            raise OptionError(f"{whose}{words}")


def learns_nothing(case: PolicyCase) -> str | None:
    """Returns in words why a policy would learn nothing, if learning starts after the end of the run; else None."""
    own = case.config
    if not isinstance(own, ReplayConfig) or own.frozen or own.learning_starts <= own.total_steps * case.agents:
        return None
    return f"with learning_starts={own.learning_starts} and total_steps={own.total_steps} nothing would be learnt"


def check_asked_for(case: PolicyCase) -> None:
    """Raises `OptionError` for a setting that is off by default, turned on, even by a preset, and would not be used."""
    for name in settings_of(type(case.config)):
        value = getattr(case.config, name)
        if value and name != "task" and not default_of(type(case.config), name):
            _check(name, value, [case], None)


def _check(name: str, value: Any, cases: list[PolicyCase], why: str | None, before: str = "") -> None:
    if not any(case.uses(name) for case in cases):
        config, kind = cases[-1].config, cases[-1].network
        network = "" if kind == "mlp" else f" for a network that is {kind}"
        words = f"{before}{name}={value!r} would not be used by {config.algo} {_way(config, why)}{network}"
        raise OptionError(f"{words}: it is for {described_owners(name)}")


def _way(config: Config, why: str | None) -> str:
    return WORKERS if config.samplers > 0 else IN_TURN + (f" (because {why})" if why else "")


def _plain(config: Config) -> Config:
    """Returns the settings with which a run of the same task, algorithm and preset begins, if nothing else is given."""
    return make_config(config.task, algo=config.algo, preset=config.preset, env_options=config.env_options)


def unused_presets(
    config: Config, given: Collection[str], cases: Mapping[str, PolicyCase]
) -> Iterator[tuple[str, str | None]]:
    """Yields the settings of a preset that are not used, though the way of training has them, which is no error.

    Yields:
        The name of the setting, and of the one that the user gave and that turns it off; or None, if it is for tasks
        with one agent.
    """
    kind, plain = type(config), _plain(config)
    for name, known in settings_of(kind).items():
        if default_of(kind, name) != getattr(config, name) == getattr(plain, name):
            other = _turned_off_by(name, config, plain, given)
            unused = other is not None or ONE_AGENT in known.needs
            if unused and not any(case.uses(name) for case in cases.values()):
                yield name, other


def _turned_off_by(name: str, config: Config, plain: Config, given: Collection[str]) -> str | None:
    """Returns the setting that decides whether another one is used, if the user gave it another value."""
    known = settings_of(type(config)).get(name)
    if known is None or known.given is None:
        return None
    other = known.given[0]
    return other if other in given and getattr(config, other) != getattr(plain, other) else None
