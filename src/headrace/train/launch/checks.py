"""Checks of a run before its folder is made: settings, task and machine; and the settings left open are decided."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import gymnasium as gym

from headrace.errors import OptionError
from headrace.pool.flat_observation import PICTURES, picture_shape
from headrace.pool.registry import is_known_here_only
from headrace.pool.spec import CRITIC
from headrace.pool.structure import leaves
from headrace.train.launch.forecast import forecast
from headrace.train.launch.used import check_learns, check_used, learns_nothing, unused_presets
from headrace.train.logging.loggers import check_loggers
from headrace.train.processes.place import place
from headrace.train.processes.start import worker_context
from headrace.train.recipes.algorithms import CLASSES
from headrace.train.recipes.make import make_config
from headrace.train.recipes.recipes import another, preset_of, recipe_of
from headrace.train.settings.algorithm import ALGORITHMS
from headrace.train.settings.config import Config
from headrace.train.settings.workers import Apart

PHYSICS = "physics"
"""the option of a MuJoCo task that says what steps it"""
FLAT = "flat_observation"
"""the option with which a task's observations of several parts are one array"""


@dataclass(frozen=True)
class Request:
    """A run whose settings have passed all checks.

    Attributes:
        config: the settings with which the run begins; none is left open.
        policies: name → settings of each policy, as `headrace.train.collect.fitting.policy_settings` returns them.
        remarks: lines that tell the user which settings were decided for them, and why.
    """

    config: Config
    policies: dict[str, Config]
    remarks: tuple[str, ...]


def check_request(task: str, overrides: Mapping[str, Any]) -> Request:
    """Checks settings against the task, the algorithm and this machine, and decides those left open."""
    requested = make_config(task, **overrides)
    check_launcher(requested)
    config = resolved(requested)
    from headrace.train.collect.fitting import check_workers  # imports torch

    # in words, why an algorithm with a replay has no samplers; None if it has some, or never has any
    why = why_no_samplers(config) if requested.samplers < 0 and config.algorithm.replays else None
    policies = _check_task(config)
    check_used(config, overrides, policies, why)
    check_learns(config, overrides, policies, why)
    if config.samplers > 0:
        check_workers(config, *policies.values())
    remarks = [*_on_presets(config, overrides, policies, why), *map(learns_nothing, policies.values())]
    remarks.append(_decided_by_cores(requested, config))
    remarks.append(_what_is_seen(requested, config))
    if config.env_options.get(CRITIC) is False and CRITIC not in requested.env_options:
        remarks.append(f"learns without what only a critic sees ({CRITIC}=False)")
    remarks += forecast(config)
    if "algo" not in overrides:
        remarks.insert(0, _chosen(config, overrides))
    remarks.insert(0, _how_it_runs(config))
    return Request(config, policies, tuple(filter(None, remarks)))


def _how_it_runs(config: Config) -> str | None:
    """Returns in words what the task says of how it runs, such as its physics; None for nothing, and on a device."""
    task = config.build()
    on_device = config.device != "cpu" and not config.samplers and not config.batch_size
    words = task.remark() if task.remark is not None and not on_device else ""
    return f"{config.task}: {words}" if words else None


def _what_is_seen(requested: Config, config: Config) -> str | None:
    """Returns in words which one array was chosen to be learnt from, in place of several; None for none."""
    flat, spec = config.env_options.get(FLAT), config.build().spec
    if spec.critic:
        return f"the critic sees {spec.critic} numbers that the actor does not ({CRITIC}=True)"
    if not flat or FLAT in requested.env_options:
        return None
    parts = leaves(requested.build().spec.observation)
    if len(parts) > 1 and len(config.build().spec.observation.shape or ()) == 3:
        others = ", ".join(":".join(map(str, path)) for path, leaf in parts.items() if not picture_shape(leaf))
        return f"learns from pictures by convolutions, not from {others} ({FLAT}={flat})"
    kept = ", pictures by convolutions" if flat == PICTURES else ""
    return f"learns from the parts of an observation as one array{kept} ({FLAT}={flat})"


def _has(chosen: Any, recommended: Any) -> bool:
    """Returns whether a setting is a recipe's; options of the task that are added to the recipe's replace none."""
    return chosen == (chosen | recommended if isinstance(recommended, dict) else recommended)


def _chosen(config: Config, given: Mapping[str, Any]) -> str:
    recipe = recipe_of(config.task, given)
    values = preset_of(config.algorithm.presets, config.task, config.network, config.preset, config.env_options)
    own = [name for name in given if name in values and not _has(vars(config)[name], values[name])]
    spec = config.build().spec
    action = (spec.agents[0] if spec.agents else spec).action
    other = another(recipe.algo, action)
    words = f"{recipe.describe(config.task)}; for {CLASSES[other]} instead: --algo {other}"
    return f"{words}; your {', '.join(own)} in place of the recipe's" if own else words


def _on_presets(
    config: Config, given: Mapping[str, Any], policies: Mapping[str, Config], why: str | None
) -> Iterator[str]:
    """Yields in words why there are no samplers, and which settings of the preset are not used."""
    unused = {f"{name}={vars(config)[name]!r}": by for name, by in unused_presets(config, given, policies)}
    if why is not None:
        without = "".join(f"; {setting} is not used then" for setting, by in unused.items() if by is None)
        yield f"{config.algo} samples and learns in turn, without workers (samplers=0), because {why}{without}"
    for setting, by in unused.items():
        if by is not None:
            yield f"the preset's {setting} is not used with {by}={vars(config)[by]!r}"


def resolved(config: Config) -> Config:
    """Returns the configuration with which a run begins.

    Settings that ``config`` leaves open, such as ``samplers=-1``, are decided for its task and this machine.
    """
    from headrace.machine import usable_cores

    config = _with_flat_observation(_with_critics_part(config))
    spec = config.build().spec
    config = with_options(config, spec.options, PHYSICS)
    decided: dict[str, Any] = {"metrics": tuple(dict.fromkeys((*config.metrics, *spec.metrics)))}
    if config.deterministic:
        decided["torch_threads"] = config.torch_threads or 1  # results must not depend on the number of cores
    if config.samplers < 0:
        decided["samplers"] = int(config.algorithm.replays and why_no_samplers(config) is None)
    if vars(config).get("actor_device") == "auto":
        apart = _can_learn_apart(config.replace(**decided))
        decided["actor_device"] = "cpu" if apart and usable_cores() > 1 else ""
    return config.replace(**decided)


def _with_critics_part(config: Config) -> Config:
    """Returns settings with what only critics see of a task at the end of an observation, where nobody chose.

    Without it where the critic cannot see more than the actor, or observations are no such array.
    """
    from headrace.train.collect.fitting import critic_sees_more  # imports torch

    if not config.build().spec.options.get(CRITIC) or CRITIC in config.env_options:
        return config
    whole = config.replace(env_options={CRITIC: True, FLAT: True} | config.env_options)
    try:
        spec = whole.build().spec
        if spec.critic and critic_sees_more(config, spec.observation):
            return whole
    except OptionError:  # no array has both
        pass
    return config.replace(env_options={CRITIC: False} | config.env_options)


def with_options(config: Config, options: Mapping[str, Any], *names: str) -> Config:
    """Returns settings with those of these options of the task that are named, where they have none of that name."""
    chosen = {name: options[name] for name in names if name in options}
    return config.replace(env_options=chosen | config.env_options)


def _with_flat_observation(config: Config) -> Config:
    """Returns settings with one array as observation, where nobody chose, and the task's is none, or channels are last.

    Pictures stay pictures if the algorithm has a CNN, and the task can keep them.
    """
    spec = config.build().spec
    if FLAT in config.env_options or spec.agents:
        return config
    seen, cnn = spec.observation, config.network in ("auto", "cnn") and config.algorithm.has_network("cnn")
    shapes = [shape for leaf in leaves(seen).values() if cnn and (shape := picture_shape(leaf))]
    if isinstance(seen, gym.spaces.Box | gym.spaces.Discrete) and shapes in ([], [seen.shape]):
        return config
    for how in (PICTURES, True) if shapes else (True,):  # what looks like a picture may be none to the task
        flat = config.replace(env_options={**config.env_options, FLAT: how})
        try:
            flat.build()
        except OptionError:  # such as no array of it: what follows names the space
            continue
        return flat
    return config


def why_no_samplers(config: Config) -> str | None:
    """Returns in words why an algorithm with a replay has no samplers by default; None if it has some."""
    from headrace.train.collect.steps import replays_steps

    task = config.build()
    if task.spec.agents:
        return f"{config.task} has several agents"
    if is_known_here_only(config.task):
        return f"{config.task} is registered where no other process can import it, in place of a file"
    for name in ("deterministic", "devices", "batch_size"):
        if value := vars(config)[name]:
            return f"{name}={value}"
    if place() is not None:
        return "torchrun starts several processes, each of which samples for itself"
    if config.device != "cpu" and task.kernel is not None and not replays_steps(config):
        return f"{config.task} lives on the policy's device, {config.device}"
    return None


def preload_workers(task: str, settings: Mapping[str, Any]) -> None:
    """Starts the process that workers are forked from, if the run may have workers.

    It imports the same modules as this process does meanwhile, which hides the time that they take.
    """
    samplers = settings.get("samplers", -1)
    if not isinstance(samplers, int) or place() is not None:  # another check raises an error for other types
        return
    algo = settings["algo"] if "algo" in settings else recipe_of(task, settings).algo
    # a user's algorithm is not looked up, as that imports torch
    by_default = algo in ALGORITHMS and ALGORITHMS[algo].replays
    if samplers > 0 or (samplers < 0 and by_default and not settings.get("deterministic")):
        worker_context()


def check_launcher(config: Config) -> None:
    """Checks that settings suit processes that torchrun has started; raises `OptionError` where they do not."""
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


def _check_task(config: Config) -> dict[str, Config]:
    """Checks devices, files and the settings that depend on the task; raises `OptionError` for what is missing."""
    from headrace.train.collect.curriculum import check_curriculum
    from headrace.train.collect.fitting import policy_settings
    from headrace.train.collect.policies import find_device
    from headrace.train.collect.pools import reward_function
    from headrace.train.play.loading import check_loads
    from headrace.train.storage.hindsight import goals_for

    for name in (config.device, *config.devices, config.learns_on, *([config.actor_device] if config.apart else [])):
        find_device(name)
    check_cluster(config)
    check_loggers(config.log)
    check_curriculum(config)
    if config.reward is not None:
        reward_function(config.reward)
    if config.algorithm.replays and config.hindsight:
        goals_for(config)
    _check_groups(config)
    spec = config.build().spec
    policies = policy_settings(config, spec)
    check_loads(config, spec, policies)
    return policies


def _check_groups(config: Config) -> None:
    """Raises `OptionError` where environments would take turns in groups, but a replay has a row for all of them."""
    from headrace.train.collect.steps import needing_steps, replays_steps

    if config.batch_size and config.samplers == 0 and config.algorithm.replays and replays_steps(config):
        needing = needing_steps(config)
        others = [each for each in needing.values() if each is not None]
        otherwise = f", or set {' and '.join(others)}" if len(others) == len(needing) else ""
        raise OptionError(
            f"batch_size={config.batch_size} steps environments in groups, but with {' and '.join(needing)} the replay "
            f"needs a step of all environments at once: leave batch_size out{otherwise}"
        )


def check_cluster(config: Config) -> None:
    """Raises `OptionError` where the samplers are to run on a Ray cluster that cannot be reached."""
    if config.ray:
        from headrace.train.cluster.connection import check_address

        check_address(config.ray)


def _can_learn_apart(config: Config) -> bool:
    from headrace.train.modules.network import uses_cnn

    # with a fixed replay ratio the samplers leave a core to the second process
    fixed_ratio = config.get(Apart) is not None and config.samplers > 0 and config.replay_ratio is not None
    if not fixed_ratio or config.learns_on != "cpu":
        return False
    # an actor of pictures would compute all features once more, and learn only what follows the CNN
    return not uses_cnn(config.network, config.build().spec.observation)


def _decided_by_cores(requested: Config, config: Config) -> str | None:
    """Returns in words a choice that depends on the number of cores and changes what is learnt; None without one.

    An actor that learns in a process of its own sees critics that are a few updates old.
    """
    if not _can_learn_apart(config) or requested.actor_device != "auto":
        return None
    if config.apart:
        return "the actor learns in a process of its own (actor_device=cpu), as there are several cores"
    return "actor and critics learn in turn (actor_device=''), as there is one core"
