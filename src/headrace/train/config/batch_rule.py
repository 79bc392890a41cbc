"""What follows a minibatch that is another than the one whose settings were found.

With a minibatch of k times as many samples a k-th of the updates learn as much from every step. Each update goes √k
as far, as its gradient is that much less noisy (for Adam: Malladi et al. 2022, arXiv:2205.10287), and targets move as
far in one update as they did in k (Busbridge et al. 2023, arXiv:2307.13813).
``benchmarks/batch_rule.py`` shows what that does to learning. SAC on Pendulum is none the worse for k = 4, but somewhat
for 16; on HalfCheetah the first 10,000 updates or so are needed one after the other, whatever their size. So `TIMES`
limits k, and `UPDATES` leaves short runs as they are.
"""

from __future__ import annotations

import dataclasses
import math

from headrace.train.config.checks import as_lists
from headrace.train.config.settings import Config

TIMES = 4
"""minibatches that the rule is good for are up to so many times as large as the one that settings were found with"""
UPDATES = 100_000
"""a run is to have so many updates at least, whatever its minibatch"""
LARGEST = 1 << 15
"""a minibatch where the replay ratio is free, and with it the number of updates"""


def follow_batch(config: Config, minibatch_size: int) -> Config:
    """The configuration with another minibatch, k times its own, and what follows from it.

    The replay ratio is divided by k; a free one, None, stays so. Learning rates are multiplied by √k, those of a
    schedule included, and ``target_rate`` becomes 1 - (1 - target_rate)^k; for k up to `TIMES`, and as with `TIMES`
    beyond. Where targets are copied instead, ``target_update`` is divided by k.
    """
    times = minibatch_size / config.minibatch_size
    if times == 1:
        return config
    limited = min(times, TIMES)
    further, kept = math.sqrt(limited), (1 - config.target_rate) ** limited
    ratio, schedules = config.replay_ratio, dict(config.schedules)
    if "learning_rate" in schedules:
        schedules["learning_rate"] = as_lists([(step, rate * further) for step, rate in schedules["learning_rate"]])
    return dataclasses.replace(
        config,
        minibatch_size=minibatch_size,
        learning_rate=config.learning_rate * further,
        critic_learning_rate=config.critic_learning_rate * further,
        target_rate=1 - kept,
        target_update=-(-config.target_update * config.minibatch_size // minibatch_size),
        replay_ratio=None if ratio is None else ratio / times,
        schedules=schedules,
    )


def largest_batch(config: Config) -> int:
    """The largest minibatch that `follow_batch` may be asked for, a power of two times the configuration's own.

    With a fixed replay ratio, `TIMES` as large, as long as `UPDATES` are left; with a free one, up to `LARGEST`, and a
    tenth of the replay.
    """
    own, ratio = config.minibatch_size, config.replay_ratio
    if ratio is None:
        most = min(LARGEST, config.replay_size // 10) / own
    else:
        most = min(TIMES, ratio * (config.total_steps - config.learning_starts) / UPDATES)
    return own * 2 ** max(0, math.floor(math.log2(max(most, 1))))
