"""What a run will take, in words before it begins: the memory of its replay, and the hours of its environments.

Both are known before the first step, and a run that ends after hours for want of either has wasted them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from headrace.machine import free_memory, readable, usable_cores
from headrace.train.logging.dashboard import duration
from headrace.train.recipes.recipes import measured_seconds
from headrace.train.settings.config import Config

LEAST_BYTES = 1 << 30  # of a replay that is told of
LEAST_SECONDS = 600.0  # of all steps of the environments that are told of


def forecast(config: Config) -> Iterator[str]:
    """Yields what takes much memory or long."""
    if config.algorithm.replays and (needed := _replay_bytes(config)) >= LEAST_BYTES:
        left = free_memory()
        words = f"replay_size={config.replay_size:,} takes {readable(needed)} of memory once it is full"
        yield f"{words}; {readable(left)} are free" + (": a smaller one is safe" if needed > left else "")
    each = measured_seconds(config.task, config.env_options)
    processes = max(1, min(usable_cores(), config.num_envs * max(1, config.samplers)))
    if (seconds := each * config.total_steps / processes) >= LEAST_SECONDS:
        yield (
            f"{config.total_steps:,} steps of the environments alone take some {duration(seconds)}: "
            f"{1000 * each:.3g} ms each, on {processes} cores"
        )


def _replay_bytes(config: Config) -> int:
    """Returns the bytes of a run's replay, without action masks."""
    from headrace.train.collect.steps import replay_layout, replays_steps

    if replays_steps(config):
        return replay_layout(config).nbytes
    spec = config.build().spec
    agents = spec.num_agents
    inputs, actions = (math.prod(space.shape or (getattr(space, "n", 1),)) for space in (spec.observation, spec.action))
    return np.dtype(np.float32).itemsize * config.replay_size * (2 * inputs + actions + 2 * agents) // agents
