"""A run's pool, policies and collector, for tests of how it collects."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from headrace.train.collect.collector import Collector
from headrace.train.collect.device import DeviceCollector
from headrace.train.collect.host import HostCollector
from headrace.train.collect.policies import make_policies
from headrace.train.collect.pools import make_pool, training_pool
from headrace.train.settings.config import Config

CPU = torch.device("cpu")


def collecting(kind: str, config: Config) -> tuple[Any, list[Any]]:
    """A started collector, ``host``, ``device``, or ``static`` as on a GPU; and its policies."""
    pool: Any = make_pool(config) if kind == "host" else training_pool(config)
    if kind == "static":
        pool._executor.guards.now = False  # a pool on the CPU looks at actions at once; on a GPU a kernel does
    policies = make_policies(config, pool, CPU)
    if kind == "host":
        collector: Any = HostCollector(config, pool, policies, CPU)
    else:
        collector = DeviceCollector(config, pool, policies, static=kind == "static")
    collector.start()
    return collector, policies


def recorded_actions(collector: Collector, t: int) -> Any:
    """All agents' actions at step t, put together from the policies' parts."""
    spec, envs = collector.spec, collector.config.num_envs
    parts = []
    for experience in collector.experiences:
        chosen = experience.distribution.to_env(experience.actions[t]).numpy()
        parts.append(
            (experience.agent_group.acts, chosen.reshape(envs, experience.agent_group.width, *chosen.shape[1:]))
        )
    if parts[0][0].key is not None:
        return {place.key: part for place, part in parts}
    whole = np.zeros((envs, spec.num_agents, *parts[0][1].shape[2:]), np.int64)
    for place, part in parts:
        whole[:, place.among] = part
    return whole
