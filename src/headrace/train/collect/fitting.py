"""Checks that policies fit the agents of a task, and that samplers can train them."""

from __future__ import annotations

import math
from collections.abc import Callable

import gymnasium as gym

from headrace.errors import OptionError
from headrace.pool.registry import is_known_here_only
from headrace.pool.spec import TaskSpec
from headrace.pool.structure import is_array, leaves
from headrace.train.collect.self_play import check_copies
from headrace.train.modules.action_masks import check_masks, has_masks
from headrace.train.modules.network import network_kind, uses_images
from headrace.train.modules.policy_mapping import AgentGroup, policy_mapping
from headrace.train.settings.algorithm import ALGORITHMS, Algorithm
from headrace.train.settings.config import Config, Fit
from headrace.train.settings.kinds import NETWORKS
from headrace.train.settings.owners import check_asked_for
from headrace.train.settings.rollouts import decides_only


def agent_groups(config: Config, spec: TaskSpec) -> dict[str, AgentGroup]:
    """Returns policy name → the agents that it plays, from the setting ``policies``.

    Raises:
        OptionError: an agent has no policy or several, or an algorithm cannot play its agents.
    """
    groups = policy_mapping(spec, config.policies)
    check_copies(config, groups)
    for name, agent_group in groups.items():
        check_capable(config.of_policy(name), spec, agent_group)
    return groups


def policy_settings(config: Config, spec: TaskSpec) -> dict[str, Config]:
    """Returns name → settings of each policy, fitted to its agents."""
    policies = {}
    for name, group in agent_groups(config, spec).items():
        own = config.of_policy(name)
        kind, continuous = network_kind(own.network, group.observation), isinstance(group.action, gym.spaces.Box)
        policies[name] = own.replace(Fit(kind, continuous, group.width, not spec.agents))
    return policies


def check_capable(config: Config, spec: TaskSpec, agent_group: AgentGroup) -> None:
    """Checks that a policy's algorithm can play its agents.

    Raises:
        OptionError: the algorithm cannot play them; the message names algorithms that can.
    """
    algo, able = config.algo, config.algorithm
    for what in ("observation", "action"):
        check_space(config.task, what, getattr(agent_group, what))
    kind = "continuous" if isinstance(agent_group.action, gym.spaces.Box) else "discrete"
    if kind not in able.action_kinds:
        raise OptionError(
            f"algo={algo!r} is for {' and '.join(able.action_kinds)} actions, not {agent_group.action}; "
            f"for {kind} ones there are {_algorithms_for(lambda other: kind in other.action_kinds)}"
        )
    if spec.agents and not able.several_agents:
        raise OptionError(f"algo={algo!r} is for tasks with one agent, not for {config.task}")
    if config.action_masks and has_masks(spec):
        check_masks(spec)
        if agent_group.heads and not able.keeps_masks:
            raise OptionError(f"algo={algo!r} does not keep to action masks: train with action_masks=False")
    if decides_only(config) and not has_masks(spec):
        raise OptionError(f"decisions_only needs action masks, which say who waits: {config.task} has none")
    if spec.agents and able.replays and uses_images(config.network, agent_group.observation):
        raise OptionError(f"the replay of algo={algo!r} holds images of tasks with one agent, not of {config.task}")
    _check_network(config, agent_group.observation, kind)
    if agent_group.critic and not critic_sees_more(config, agent_group.observation):
        raise OptionError(
            f"{config.task} shows what only a critic may see, and by these settings algo={config.algo!r} has no critic "
            "apart from its actor, as the two perceptrons of ppo and a2c are: leave it out by the option critic=False"
        )


def critic_sees_more(config: Config, space: gym.Space) -> bool:
    """Returns whether a critic can read columns of observations that its actor does not: they are two perceptrons."""
    apart = config.algorithm.critic_sees_more and not vars(config).get("shared")
    return apart and network_kind(config.network, space) == "mlp"


def check_space(task: str, what: str, space: gym.Space) -> None:
    """Raises `OptionError` for a space of observations or actions that holds no array of at least one number."""
    arrays = [leaf for leaf in leaves(space).values() if is_array(leaf)]
    if others := [leaf for leaf in leaves(space).values() if not is_array(leaf)]:
        kind = "ObservationWrapper" if what == "observation" else "ActionWrapper"
        raise OptionError(
            f"{task} has {what}s of {others[0]}, whose values have no fixed shape, as networks need: wrap the "
            f"environment in a gymnasium.{kind} whose {what}s have one"
        )
    if not any(math.prod(leaf.shape or ()) for leaf in arrays):
        rest = "let it observe a constant, such as 0" if what == "observation" else "there is nothing to learn"
        raise OptionError(f"{task} has {what}s without a number, {space}: {rest}")


def _check_network(config: Config, space: gym.Space, actions: str) -> None:
    """Checks that an algorithm has the kind of network that the settings request, or that images need.

    Raises:
        OptionError: it does not have one; the message names algorithms that have.
    """
    kinds, images = config.algorithm.network_kinds, uses_images(config.network, space)
    network = config.network if config.network in NETWORKS else network_kind(config.network, space)
    if network in kinds:
        return
    others = _algorithms_for(lambda other: actions in other.action_kinds and network in other.network_kinds)
    needed = f", which images such as {space} need" if images else ""
    pixels = ", and network='mlp' takes pixels as numbers" if images and "mlp" in kinds else ""
    raise OptionError(
        f"algo={config.algo!r} has networks of kind {', '.join(kinds)}, not {network}{needed}: "
        f"{others} have one for {actions} actions{pixels}"
    )


def _algorithms_for(able: Callable[[Algorithm], bool]) -> str:
    return ", ".join(name for name, algorithm in ALGORITHMS.items() if able(algorithm))


def check_workers(config: Config, policy: Config, *others: Config) -> None:
    """Raises `OptionError` where a run with samplers does not support the task or a setting."""
    if not config.algorithm.has_workers:
        raise OptionError(f"algo={config.algo!r} is for samplers=0: it does not learn from what workers collect")
    if others or config.build().spec.agents:
        raise OptionError(f"{config.task} has several agents: train it with samplers=0")
    if is_known_here_only(config.task):
        raise OptionError(
            f"{config.task} is registered in a notebook or by a script from standard input, which samplers cannot "
            "import: put it into a file, my_env.py:NAME, or train with samplers=0"
        )
    check_asked_for(policy)
