"""Makes the pool, the collector and the policies of a configuration, and checks that they fit the task."""

from __future__ import annotations

import ctypes
import math
import os
import platform
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import gymnasium as gym
import torch

from headrace.errors import OptionError
from headrace.machine import readable, usable_cores
from headrace.pool.batch import observation_fields
from headrace.pool.executors.processes.deaths import deaths_accepted
from headrace.pool.pool import Pool
from headrace.pool.registry import is_known_here_only
from headrace.pool.sources import module_of, split
from headrace.pool.spec import TaskSpec
from headrace.pool.structure import is_array, leaves
from headrace.pool.torch.pool import TorchPool
from headrace.pool.views.make import make, make_torch
from headrace.pool.wrappers import Step, TransformReward, unwrapped
from headrace.train.algorithms.policy import Policy
from headrace.train.collect.device import DeviceCollector
from headrace.train.collect.host import HOST, HostCollector
from headrace.train.collect.self_play import check_copies
from headrace.train.collect.steps import Frames, StepCollector, replays_steps
from headrace.train.logging.memory_use import free
from headrace.train.modules.action_masks import check_masks, has_masks
from headrace.train.modules.network import network_kind, uses_cnn, uses_images
from headrace.train.modules.policy_mapping import AgentGroup, policy_mapping
from headrace.train.recipes.algorithms import find_algorithm
from headrace.train.settings import user_objects
from headrace.train.settings.algorithm import ALGORITHMS, Algorithm
from headrace.train.settings.config import Config, Fit
from headrace.train.settings.owners import check_asked_for
from headrace.train.settings.rollouts import decides_only
from headrace.train.storage.step_replay import StepReplay

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3  # mallopt(3)
MANY_ROWS = 1024  # rows of network inputs from which on matrix products are faster on several cores


def make_pool(config: Config, **changes: Any) -> Pool:
    """Returns the pool on the host of a configuration; ``changes`` replace arguments of `headrace.make`."""
    arguments: dict[str, Any] = dict(
        num_envs=config.num_envs,
        batch_size=config.batch_size,
        num_threads=config.num_threads,
        seed=config.seed,
        autoreset="same_step",
        **config.env_options,
    )
    with replacing_workers(config):
        return make(config.task, **(arguments | changes))


def replacing_workers(config: Config) -> AbstractContextManager[None]:
    """Returns a context in which pools are made that replace worker processes that die, as long as these are few.

    Another process would draw other random numbers, so that the first death ends a deterministic run.
    """
    if config.deterministic:
        return deaths_accepted(1, "; a deterministic run ends here: resume it, and it goes on from its last checkpoint")
    return deaths_accepted()


def training_pool(config: Config) -> Pool | TorchPool:
    """Returns the pool to train with, on the policies' device if the task can run there.

    A pool with a ``batch_size``, whose groups of environments take turns, is always on the host, and so is that of a
    run with a replay of steps, whose observations are those that are stored.
    """
    task = config.build()
    if replays_steps(config):
        pool = make_pool(config, autoreset="next_step", **Frames.of(config).options)
    elif config.batch_size or (task.kernel is None and (task.make_on_device is None or config.device == "cpu")):
        pool = make_pool(config)
    else:
        arguments = config.task, config.num_envs, config.device, config.seed, "same_step"
        pool = make_torch(*arguments, num_threads=config.num_threads, **config.env_options)
    return rewarded(config, pool)


def rewarded(config: Config, pool: Any) -> Any:
    """Returns the pool; if the setting ``reward`` names a function, wrapped to change rewards by it."""
    return pool if config.reward is None else TransformReward(pool, reward_function(config.reward))


def reward_function(name: str) -> Callable[[Step], Any]:
    """Returns the reward function that the setting ``reward`` names as ``file.py:name`` or ``module:name``.

    Raises:
        OptionError: there is no such function.
    """
    if user_objects.is_given(name):
        found = user_objects.find("reward", name)
    else:
        source, function = split(name)
        found = getattr(module_of(source), function, None) if source else None
    if not callable(found):
        raise OptionError(f"training option reward={name!r} is not a function of a headrace.wrappers.Step")
    return found


def make_collector(
    config: Config, pool: Any, policies: Sequence[Policy], device: torch.device, replay: StepReplay | None = None
) -> DeviceCollector | HostCollector | StepCollector:
    """Returns the collector for a pool.

    Raises:
        OptionError: the rollout's observations need more memory than the device has free.
    """
    if replay is not None:
        check_room(config, config.build().spec, HOST)
        return StepCollector(config, pool, policies[0], device, replay.writer(0))
    there = isinstance(unwrapped(pool), TorchPool)
    check_room(config, pool.spec, device if there else HOST)
    if there:
        return DeviceCollector(config, pool, policies)
    return HostCollector(config, pool, policies, device)


def check_room(config: Config, spec: TaskSpec, device: torch.device) -> None:
    """Raises `OptionError` where a rollout's observations need more memory than is free on a device."""
    try:
        available = free(device)
    except OSError:  # the system does not tell
        return
    row = sum(f.dtype.itemsize * math.prod(f.shape) for f in observation_fields(spec.observation))
    needed = (config.num_steps + 1) * config.num_envs * row
    if needed > available:
        raise OptionError(
            f"the observations of num_steps={config.num_steps} and num_envs={config.num_envs} need {readable(needed)} "
            f"of memory, but {readable(available)} are free: take fewer steps or environments"
        )


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
    network = config.network if config.network in ("cnn", "gru") else network_kind(config.network, space)
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


def policy_settings(config: Config, spec: TaskSpec) -> dict[str, Config]:
    """Returns name → settings of each policy, fitted to its agents."""
    policies = {}
    for name, group in agent_groups(config, spec).items():
        own = config.of_policy(name)
        kind, continuous = network_kind(own.network, group.observation), isinstance(group.action, gym.spaces.Box)
        policies[name] = own.replace(Fit(kind, continuous, group.width, not spec.agents))
    return policies


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


def make_policies(config: Config, pool: Any, device: torch.device) -> list[Policy]:
    """Calls `prepare`, and returns the policies of a run, with networks initialised from the configuration's seed.

    Args:
        pool: the pool that they act in, or a wrapper of one; None where other processes have the pools.
    """
    groups = agent_groups(config, config.build().spec)
    prepare(config, groups.values())
    there = pool is not None and isinstance(unwrapped(pool), TorchPool)
    return [
        make_policy(name, config.of_policy(name), agent_group.on(device) if there else agent_group, device)
        for name, agent_group in groups.items()
    ]


def prepare(config: Config, groups: Iterable[AgentGroup]) -> None:
    """Configures this process for learning: torch's threads, precision and seed, and an allocator that keeps memory."""
    keep_freed_memory()
    # before anything is computed, as sums depend on the number of threads
    every = list(groups)
    many = config.num_envs * max(group.width for group in every) >= MANY_ROWS
    spread = many or any(uses_cnn(config.network, group.observation) for group in every)
    torch.set_num_threads(config.torch_threads or (usable_cores() if spread else 1))
    torch.set_float32_matmul_precision(config.matmul_precision)
    if config.deterministic:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # required by cuBLAS, before its first use
        torch.use_deterministic_algorithms(True)
    torch.manual_seed(config.seed)


def make_policy(name: str, config: Config, agent_group: AgentGroup, device: torch.device) -> Policy:
    """Returns the policy of one agent group, an object of its algorithm's class."""
    return find_algorithm(config.algo)(name, config, agent_group, device)


def find_device(name: str) -> torch.device:
    """Returns the device of this name; raises `OptionError` if it is not available."""
    try:
        device = torch.device(name)
    except RuntimeError:
        raise OptionError(f"device must be cpu, cuda or cuda:i, not {name!r}") from None
    there = torch.cuda.device_count() if device.type == "cuda" else int(device.type == "cpu")
    if (device.index or 0) >= there:
        raise OptionError(f"device {name!r} is not available here")
    return torch.device("cuda", device.index or 0) if device.type == "cuda" else device


def keep_freed_memory() -> None:
    """Makes this process reuse freed blocks of up to 1 GiB; does nothing without glibc.

    glibc returns a block of some hundred kilobytes, such as the activations of a minibatch, to the system as soon as it
    is freed, and the next allocation causes a page fault for each of its pages: up to a third of an update's time.
    """
    if platform.libc_ver()[0] == "glibc":
        libc = ctypes.CDLL(None)
        libc.mallopt(MMAP_THRESHOLD, 1 << 30)
        libc.mallopt(TRIM_THRESHOLD, 1 << 30)
