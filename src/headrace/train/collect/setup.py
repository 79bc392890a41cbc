"""Which pool, collector and policies a configuration asks for."""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import gymnasium as gym
import torch

import headrace
from headrace.errors import OptionError
from headrace.machine import readable, usable_cores
from headrace.pool.batch import observation_fields
from headrace.pool.pool import Pool
from headrace.pool.registry import build_task
from headrace.pool.sources import module_of
from headrace.pool.spec import TaskSpec
from headrace.pool.torch.pool import TorchPool
from headrace.pool.wrappers import Step, TransformReward, unwrapped
from headrace.train.algorithms.policy import Policy
from headrace.train.collect.device import DeviceCollector
from headrace.train.collect.host import HostCollector
from headrace.train.collect.self_play import check_copies
from headrace.train.config import given
from headrace.train.config.registry import Capabilities, algorithms, find_algorithm
from headrace.train.config.settings import Config
from headrace.train.config.uses import Player
from headrace.train.logging.memory import free
from headrace.train.modules.action_masks import masked_heads
from headrace.train.modules.network import network_kind, uses_cnn, uses_images
from headrace.train.modules.policy_mapping import AgentGroup, policy_mapping
from headrace.train.processes.allocator import keep_freed_memory

MANY_ROWS = 1024  # network inputs at once, from which on sharing one matrix product among cores pays


def make_pool(config: Config, **changes: Any) -> Pool:
    """The pool on the host that a configuration asks for; ``changes`` replace arguments of `headrace.make`."""
    arguments: dict[str, Any] = dict(
        num_envs=config.num_envs,
        batch_size=config.batch_size,
        num_threads=config.num_threads,
        seed=config.seed,
        autoreset="same_step",
        **config.env_options,
    )
    return headrace.make(config.task, **(arguments | changes))


def training_pool(config: Config) -> Pool | TorchPool:
    """The pool to train with: where the policies are, if the task can be there.

    Groups of environments that take turns (``batch_size``) are for simulators that are worth waiting for; a pool
    of them is on the host.
    """
    return rewarded(config, _training_pool(config))


def rewarded(config: Config, pool: Any) -> Any:
    """A pool with the rewards that a configuration asks for."""
    return pool if config.reward is None else TransformReward(pool, reward_function(config.reward))


def reward_function(name: str) -> Callable[[Step], Any]:
    """The function of rewards that a setting names, or stands for.

    Raises:
        OptionError: there is no such function.
    """
    if given.is_given(name):
        found = given.find("reward", name)
    else:
        source, _, function = name.rpartition(":")
        found = getattr(module_of(source), function, None)
    if not callable(found):
        raise OptionError(f"training option reward={name!r} is no function of a headrace.wrappers.Step")
    return found


def _training_pool(config: Config) -> Pool | TorchPool:
    task = build_task(config.task, **config.env_options)
    on_device = task.kernel is not None or (task.make_on_device is not None and config.device != "cpu")
    if config.batch_size or not on_device:
        return make_pool(config)
    return headrace.make_torch(
        config.task,
        config.num_envs,
        config.device,
        config.seed,
        "same_step",
        num_threads=config.num_threads,
        **config.env_options,
    )


def make_collector(
    config: Config, pool: Any, policies: Sequence[Policy], device: torch.device
) -> DeviceCollector | HostCollector:
    """What fills the rollout buffer from this kind of pool.

    Raises:
        OptionError: the rollout's observations alone need more memory than is free.
    """
    there = isinstance(unwrapped(pool), TorchPool)
    with contextlib.suppress(OSError):  # a system that does not say
        _check_room(config, pool.spec, free(device if there else torch.device("cpu")))
    if there:
        return DeviceCollector(config, pool, policies)
    return HostCollector(config, pool, policies, device)


def _check_room(config: Config, spec: TaskSpec, available: int) -> None:
    """Raise `OptionError` where a rollout's observations do not fit into the free memory, in bytes."""
    row = sum(f.dtype.itemsize * math.prod(f.shape) for f in observation_fields(spec.observation))
    needed = (config.num_steps + 1) * config.num_envs * row
    if needed > available:
        raise OptionError(
            f"the observations of num_steps={config.num_steps} and num_envs={config.num_envs} need {readable(needed)} "
            f"of memory, but {readable(available)} are free: take fewer steps or environments"
        )


def agent_groups(config: Config, spec: TaskSpec) -> dict[str, AgentGroup]:
    """Policy name → agent group, as a configuration deals a task's agents out.

    Raises:
        OptionError: it cannot be so.
    """
    dealt = policy_mapping(spec, config.policies)
    check_copies(config, dealt)
    for name, agent_group in dealt.items():
        check_capable(config.of_policy(name), spec, agent_group)
    return dealt


def check_capable(config: Config, spec: TaskSpec, agent_group: AgentGroup) -> None:
    """Raises `OptionError` where a policy's algorithm cannot be that of its agents; the message says what can.

    Args:
        config: its settings.
        spec: the task.
        agent_group: the agents.
    """
    algo, can = config.algo, find_algorithm(config.algo).capabilities
    kind = "continuous" if isinstance(agent_group.action, gym.spaces.Box) else "discrete"
    if kind not in can.actions:
        raise OptionError(
            f"algo={algo!r} is for {' and '.join(can.actions)} actions, not {agent_group.action}; "
            f"for {kind} ones there are {_algorithms_for(lambda other: kind in other.actions)}"
        )
    if spec.agents and not can.agents:
        raise OptionError(f"algo={algo!r} is for tasks with one agent, not for {config.task}")
    if masked_heads(config, spec, agent_group) and not can.masks:
        raise OptionError(f"algo={algo!r} does not keep to action masks: train with action_masks=False")
    _check_network(config, agent_group.observation, kind)


def _check_network(config: Config, space: gym.Space, actions: str) -> None:
    """Raises `OptionError` where an algorithm has no network of the kind that is asked for, or that images need.

    Args:
        config: the policy's settings.
        space: of observations.
        actions: their kind, ``"discrete"`` or ``"continuous"``.
    """
    can, images = find_algorithm(config.algo).capabilities, uses_images(config, space)
    network = config.network if config.network in ("cnn", "gru") else network_kind(config, space)
    if network == "own" and images and can.replay and "cnn" not in can.networks:
        network = "cnn"  # the replays of these algorithms hold vectors
    if network in can.networks:
        return
    others = _algorithms_for(lambda other: actions in other.actions and network in other.networks)
    needed = f", which images such as {space} need" if images else ""
    pixels = ", and network='mlp' takes pixels as numbers" if images and "mlp" in can.networks else ""
    raise OptionError(
        f"algo={config.algo!r} has networks of kind {', '.join(can.networks)}, not {network}{needed}: "
        f"{others} have one for {actions} actions{pixels}"
    )


def _algorithms_for(able: Callable[[Capabilities], bool]) -> str:
    """The names of the algorithms that can do something, in words."""
    return ", ".join(name for name in algorithms() if able(find_algorithm(name).capabilities))


def players_of(config: Config, spec: TaskSpec) -> dict[str, Player]:
    """Policy name → what decides which settings are used for it; raises as `agent_groups`."""
    players = {}
    for name, agent_group in agent_groups(config, spec).items():
        own = config.of_policy(name)
        continuous = isinstance(agent_group.action, gym.spaces.Box)
        players[name] = Player(own, network_kind(own, agent_group.observation), continuous, agent_group.width)
    return players


def make_policies(config: Config, pool: Pool | TorchPool, device: torch.device) -> list[Policy]:
    """The policies of a run, their networks initialised from the configuration's seed; `prepare` comes first."""
    dealt = agent_groups(config, pool.spec)
    prepare(config, dealt.values())
    there = isinstance(unwrapped(pool), TorchPool)
    return [
        make_policy(name, config.of_policy(name), agent_group.on(device) if there else agent_group, device)
        for name, agent_group in dealt.items()
    ]


def prepare(config: Config, dealt: Iterable[AgentGroup]) -> None:
    """Set this process up for learning: torch's threads, precision, first seed; it keeps the memory that it frees."""
    keep_freed_memory()
    # before anything is computed: sums depend on how many threads share them
    torch.set_num_threads(config.torch_threads or _torch_threads(config, list(dealt)))
    torch.set_float32_matmul_precision(config.matmul_precision)
    if config.deterministic:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # what cuBLAS asks for, before its first use
        torch.use_deterministic_algorithms(True)
    torch.manual_seed(config.seed)


def make_policy(name: str, config: Config, agent_group: AgentGroup, device: torch.device) -> Policy:
    """The policy of one agent group, by its own algorithm."""
    algorithm: Any = find_algorithm(config.algo, whole=True)
    return algorithm(name, config, agent_group, device)


def _torch_threads(config: Config, dealt: Sequence[AgentGroup]) -> int:
    cnn = any(uses_cnn(config, agent_group.observation) for agent_group in dealt)
    rows = config.num_envs * max(agent_group.width for agent_group in dealt)
    return usable_cores() if cnn or rows >= MANY_ROWS else 1


def find_device(name: str) -> torch.device:
    """The device of this name; raises `OptionError` where there is none."""
    try:
        device = torch.device(name)
    except RuntimeError:
        raise OptionError(f"device must be cpu, cuda or cuda:i, not {name!r}") from None
    there = torch.cuda.device_count() if device.type == "cuda" else int(device.type == "cpu")
    if (device.index or 0) >= there:
        raise OptionError(f"device {name!r} is not available here")
    return torch.device("cuda", device.index or 0) if device.type == "cuda" else device
