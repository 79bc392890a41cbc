"""What is asked for is checked and decided before there is a run folder: settings, task, machine, samplers."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headrace.errors import OptionError
from headrace.train.config.registry import begins_workers, find_algorithm
from headrace.train.config.replay import ActorCriticConfig, ReplayConfig
from headrace.train.config.settings import Config, make_config
from headrace.train.config.uses import Player, check_learns, check_used, learns_nothing, unused_defaults
from headrace.train.logging.loggers import check_loggers
from headrace.train.processes.start import worker_context
from headrace.train.processes.torchrun import place


@dataclass(frozen=True)
class Asked:
    """A run that may begin.

    Attributes:
        wanted: the settings as they were asked for.
        config: those with which it begins.
        players: policy name → what it is.
        in_turn: in words, why an algorithm with a replay has no samplers; None if it has some, or never has any.
    """

    wanted: Config
    config: Config
    players: dict[str, Player]
    in_turn: str | None

    def remarks(self) -> list[str]:
        """Returns what there is to say of the choices that were made."""
        found = [self._in_turn(), *map(learns_nothing, self.players.values())]
        return [words for words in (*found, _decided_by_cores(self.wanted, self.config)) if words]

    def _in_turn(self) -> str | None:
        if self.in_turn is None:
            return None
        unused = dict(pair for player in self.players.values() for pair in unused_defaults(player))
        without = "".join(f"; {name}={value} is not used so" for name, value in unused.items())
        told = "samples and learns in turn, without workers (samplers=0), since"
        return f"{self.config.algo} {told} {self.in_turn}{without}"


def checked(task: str, overrides: Mapping[str, Any]) -> Asked:
    """Returns what is asked for, checked against the task, the algorithm and this machine.

    Raises:
        OptionError, UnknownTaskError, LimitError: as `headrace.train.train`.
    """
    wanted = make_config(task, **overrides)
    check_launcher(wanted)
    config = settled(wanted)
    why = why_in_turn(config) if wanted.samplers < 0 and find_algorithm(config.algo).capabilities.replay else None
    players = _check_task(config)
    check_used(config, overrides, players, why)
    check_learns(config, overrides, players, why)
    return Asked(wanted, config, players, why)


def side_by_side(task: str, overrides: Mapping[str, Any]) -> tuple[Config, int]:
    """Returns the settings with which a run begins, and how many such runs the cores can train side by side.

    Raises as `train` for what is wrong with them.
    """
    from headrace.pool.registry import build_task
    from headrace.train.jobs.processes import jobs_for

    asked = checked(task, overrides)
    kernel = build_task(task, **asked.config.env_options).kernel
    return asked.config, jobs_for(asked.players, kernel is not None)


def settled(config: Config) -> Config:
    """The configuration with which a run begins: what it leaves open is decided for its task and this machine."""
    from headrace.machine import usable_cores

    settled: dict[str, Any] = {}
    if config.deterministic:
        settled["torch_threads"] = config.torch_threads or 1  # how many cores there are decides nothing then
    if config.samplers < 0:
        replay = find_algorithm(config.algo).capabilities.replay
        settled["samplers"] = int(replay and why_in_turn(config) is None)
    if isinstance(config, ActorCriticConfig) and config.actor_device == "auto":
        halves = _has_halves(dataclasses.replace(config, **settled))
        settled["actor_device"] = "cpu" if halves and usable_cores() > 1 else ""
    return dataclasses.replace(config, **settled)


def why_in_turn(config: Config) -> str | None:
    """In words, what an algorithm with a replay has no samplers for, unless it is told to; None if it has some."""
    from headrace.pool.registry import build_task, is_known_here_only

    task = build_task(config.task, **config.env_options)
    if task.spec.agents:
        return f"{config.task} has several agents"
    if is_known_here_only(config.task):
        return f"{config.task} is registered where no other process can import it, in place of a file"
    for name in ("deterministic", "devices", "batch_size", "hindsight"):
        if value := getattr(config, name, None):
            return f"{name}={value}"
    if place() is not None:
        return "torchrun starts several processes, each of which samples for itself"
    if config.device != "cpu" and task.kernel is not None:
        return f"{config.task} lives on the policy's device, {config.device}"
    return None


def expect_workers(settings: Mapping[str, Any]) -> None:
    """Let what workers are forked from be imported while this process imports the same, if the run may have some.

    Args:
        settings: those that are known, name → value.
    """
    samplers = settings.get("samplers", -1)
    if not isinstance(samplers, int):  # which is an error that others raise
        return
    if place() is not None:
        return
    in_turn = samplers < 0 and (not begins_workers(settings.get("algo", "ppo")) or settings.get("deterministic"))
    if samplers != 0 and not in_turn:
        worker_context()


def check_launcher(config: Config) -> None:
    """Raises `OptionError` for settings that are nothing for the processes that torchrun starts."""
    where = place()
    if where is None:
        return
    if config.devices:
        raise OptionError(f"devices={config.devices!r} starts processes, and so does torchrun: leave devices out")
    if config.samplers > 0:
        raise OptionError(
            f"samplers={config.samplers} would add processes to those of torchrun, each of which samples for itself: "
            "leave samplers out, or torchrun"
        )
    if config.ray:
        raise OptionError(f"ray={config.ray!r} spreads samplers, and torchrun's processes have none: leave ray out")
    where.device(config.device)


def _check_task(config: Config) -> dict[str, Player]:
    """What a task, this machine, or another run does not have ends a run before there is a folder for it.

    Returns:
        Policy name → what it is.
    """
    from headrace.pool.registry import build_task
    from headrace.train.collect.curriculum import check_curriculum
    from headrace.train.collect.setup import find_device, players_of, reward_function
    from headrace.train.play.loading import check_loads
    from headrace.train.storage.hindsight import goals_for

    for name in (config.device, *config.devices, config.learns_on, config.actor_device if _is_apart(config) else ""):
        if name:
            find_device(name)
    check_cluster(config)
    check_loggers(config.log)
    check_curriculum(config)
    if config.reward is not None:
        reward_function(config.reward)
    if isinstance(config, ReplayConfig) and config.hindsight:
        goals_for(config)
    spec = build_task(config.task, **config.env_options).spec
    players = players_of(config, spec)
    check_loads(config, spec, players)
    return players


def check_cluster(config: Config) -> None:
    """Raise `OptionError` where a run is to have its samplers on a Ray cluster that is known to be out of reach."""
    if config.ray:
        from headrace.train.cluster.connection import check_address

        check_address(config.ray)


def _is_apart(config: Config) -> bool:
    """Whether the actor learns in a process of its own."""
    return isinstance(config, ActorCriticConfig) and config.apart


def _has_halves(config: Config) -> bool:
    """Whether the halves of an update are learnt apart, where there are cores for both."""
    # with a fixed replay ratio the samplers leave a core to the second half
    pace = isinstance(config, ActorCriticConfig) and config.samplers > 0 and config.replay_ratio is not None
    return pace and config.learns_on == "cpu"


def _decided_by_cores(asked: Config, config: Config) -> str | None:
    """In words, what the number of cores has decided of what is learnt; None where it has decided nothing.

    An actor that learns apart has critics that are a little old.
    """
    if not _has_halves(config) or asked.actor_device != "auto":
        return None
    if config.apart:
        return "the actor learns in a process of its own (actor_device=cpu), as there are several cores"
    return "actor and critics learn in turn (actor_device=''), as there is one core"
