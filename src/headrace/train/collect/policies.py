"""Makes the policies of a run, and prepares this process to learn."""

from __future__ import annotations

import ctypes
import os
import platform
from collections.abc import Iterable
from typing import Any

import torch

from headrace.errors import OptionError
from headrace.machine import usable_cores
from headrace.pool.torch.pool import TorchPool
from headrace.pool.wrappers import unwrapped
from headrace.train.algorithms.policy import Policy
from headrace.train.collect.fitting import agent_groups
from headrace.train.modules.network import uses_cnn
from headrace.train.modules.policy_mapping import AgentGroup
from headrace.train.recipes.algorithms import find_algorithm
from headrace.train.settings.config import Config

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3  # mallopt(3)
MANY_ROWS = 1024  # rows of network inputs from which on matrix products are faster on several cores


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


def make_policy(name: str, config: Config, agent_group: AgentGroup, device: torch.device) -> Policy:
    """Returns the policy of one agent group, an object of its algorithm's class."""
    return find_algorithm(config.algo)(name, config, agent_group, device)


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
