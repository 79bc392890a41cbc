"""Which settings a run uses, and the error for a setting that no policy would use.

Only settings that were chosen are checked, not the presets of a task or an algorithm, of which some are for other ways
of training it. Values that ask for nothing (False, 0, None, an empty collection) are never an error.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from headrace.errors import OptionError
from headrace.train.config.fields import IN_TURN, WORKERS, Use, default_of, settings_of
from headrace.train.config.make import brought
from headrace.train.config.registry import Capabilities, find_algorithm, who_uses
from headrace.train.config.settings import Config, make_config


@dataclass(frozen=True)
class Player:
    """A policy of a run, as far as it decides which settings are used.

    Attributes:
        config: the run's settings, nothing left open, with those of the policy.
        network: its kind: mlp, cnn, gru, or own, for a user's.
        continuous: whether its actions are.
        agents: how many of an environment it plays.
    """

    config: Config
    network: str = "mlp"
    continuous: bool = True
    agents: int = 1

    @property
    def way(self) -> str:
        """In which way it is trained."""
        return WORKERS if self.config.samplers > 0 else IN_TURN

    @property
    def capabilities(self) -> Capabilities:
        """What its algorithm can do."""
        return find_algorithm(self.config.algo).capabilities

    def uses(self, name: str) -> bool:
        """Returns whether the run uses a setting."""
        known = settings_of(type(self.config)).get(name)
        return known is not None and any(map(self._is_in, known.uses))

    def _is_in(self, use: Use) -> bool:
        """Returns whether the run is in the case that a `Use` describes."""
        if use.replay not in (None, self.capabilities.replay):
            return False
        if self.way not in use.ways or self.network not in use.networks or (use.continuous and not self.continuous):
            return False
        if use.given is None:
            return True
        name, value = use.given
        there = getattr(self.config, name)
        return bool(there) if value is True else there == value


def check_used(config: Config, given: Mapping[str, Any], players: Mapping[str, Player], why: str | None = None) -> None:
    """Refuses settings that a run would not use.

    Args:
        config: what the run is to begin with, nothing left open.
        given: the settings that were chosen; those equal to the defaults are no mistake.
        players: the run's policies by name.
        why: the reason why the run has no samplers, where that was not chosen.

    Raises:
        OptionError: no policy uses one of them, one with a schedule, or one of a policy's own; it says who would.
    """
    plain = make_config(config.task, algo=config.algo, preset=config.preset)
    everybody = list(players.values())
    for name in sorted(given):
        value = getattr(config, name, given[name])
        if value and value != getattr(plain, name, None):
            _check(name, value, everybody, why)
    for name, points in sorted(config.schedules.items()):
        _check(name, points, everybody, why, "a schedule of ")
    for policy, own in sorted(given.get("policies", {}).items()):
        theirs = brought(config.task, config.algo, config.network, config.preset, own)
        for name in sorted(own.keys() - {"agents", "copies"}):
            if own[name] and own[name] not in (getattr(config, name, None), theirs.get(name)):
                _check(name, own[name], [players[policy]], why, f"policy {policy!r}: ")


def check_learns(config: Config, given: Collection[str], players: Mapping[str, Player], why: str | None = None) -> None:
    """Refuses a run in which no policy would learn; arguments as for `check_used`.

    Raises:
        OptionError: all policies are frozen, one has no pace to learn at, or one was told to begin after the end.
    """
    if all(player.config.frozen for player in players.values()):
        raise OptionError("frozen=True would let nobody learn: it is for one of several policies, beside one that does")
    for name, player in players.items():
        own, whose = player.config, f"policy {name!r}: " if name else ""
        if not player.capabilities.replay or own.frozen:
            continue
        if own.replay_ratio is None and player.way == IN_TURN:
            way = IN_TURN + (f" (as it is since {why})" if why else "")
            words = f"replay_ratio=None lets samplers and learner run free; with {way} it must be a number"
            raise OptionError(whose + words)
        chosen = "learning_starts" in {*given, *config.policies.get(name, {})}
        if chosen and (words := learns_nothing(player)):
            raise OptionError(f"{whose}{words}")


def learns_nothing(player: Player) -> str | None:
    """In words, why a policy with a replay collects until the end of a run, and learns nothing; None if it learns."""
    own = player.config
    collected = own.total_steps * player.agents
    if not player.capabilities.replay or own.frozen or own.learning_starts <= collected:
        return None
    return f"with learning_starts={own.learning_starts} and total_steps={own.total_steps} nothing would be learnt"


def check_asked_for(player: Player) -> None:
    """Refuses a setting that is off by default, is asked for, and would not be used, even if it comes from a preset."""
    for name in settings_of(type(player.config)):
        value = getattr(player.config, name)
        if value and name != "task" and not default_of(type(player.config), name):
            _check(name, value, [player], None)


def _check(name: str, value: Any, players: list[Player], why: str | None, before: str = "") -> None:
    if any(player.uses(name) for player in players):
        return
    last = players[-1]
    way = "samplers" if last.way == WORKERS else IN_TURN + (f" (as it is since {why})" if why else "")
    kind = "" if last.network == "mlp" else f" for a network that is {last.network}"
    words = f"{before}{name}={value!r} would not be used by {last.config.algo} with {way}{kind}"
    raise OptionError(f"{words}: it is for {who_uses(name)}")


def unused_defaults(player: Player) -> Iterator[tuple[str, Any]]:
    """Yields the presets, name → value, that this run does not use; they were not chosen, so they are no error."""
    kind = type(player.config)
    for name, known in settings_of(kind).items():
        value, with_workers = getattr(player.config, name), all(use.ways == (WORKERS,) for use in known.uses)
        if known.group != "workers" and with_workers and value != default_of(kind, name) and not player.uses(name):
            yield name, value
