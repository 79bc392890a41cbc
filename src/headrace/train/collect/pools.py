"""Makes the pool of a run, and what collects from it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch

from headrace.errors import OptionError
from headrace.machine import readable
from headrace.pool.batch import observation_fields
from headrace.pool.executors.processes.deaths import deaths_accepted
from headrace.pool.pool import Pool
from headrace.pool.sources import module_of, split
from headrace.pool.spec import TaskSpec
from headrace.pool.torch.pool import TorchPool
from headrace.pool.views.make import make, make_torch
from headrace.pool.wrappers import Step, TransformReward, unwrapped
from headrace.train.algorithms.policy import Policy
from headrace.train.collect.device import DeviceCollector
from headrace.train.collect.host import HOST, HostCollector
from headrace.train.collect.steps import Frames, StepCollector, replays_steps
from headrace.train.logging.memory_use import free
from headrace.train.settings import user_objects
from headrace.train.settings.config import Config
from headrace.train.storage.step_replay import StepReplay


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
