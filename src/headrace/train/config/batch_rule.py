"""Scaling of learning rates and the replay ratio with the minibatch.

With a minibatch k times as large, 1/k of the updates learn from each step as often. The learning rate is multiplied by
√k, as gradients are less noisy (for Adam: Malladi et al. 2022, arXiv:2205.10287), and targets move in one update as far
as in k updates before (Busbridge et al. 2023, arXiv:2307.13813).
``benchmarks/batch_rule.py`` measures the effect on learning. SAC on Pendulum learns as well for k = 4, and somewhat
worse for 16. On HalfCheetah about 10,000 consecutive updates are needed at first, whatever their size. So `TIMES`
limits k, and `UPDATES` leaves short runs unchanged.
"""

from __future__ import annotations

import dataclasses
import math

from headrace.train.config.settings import Config

TIMES = 4
"""the largest factor k for which learning rates and targets are scaled"""
UPDATES = 100_000
"""the fewest updates of a run, whatever its minibatch"""
LARGEST = 1 << 15
"""the largest minibatch with a free replay ratio"""


def follow_batch(config: Config, minibatch_size: int) -> Config:
    """Returns the settings with another minibatch, k times their own, and with other settings scaled for it.

    The settings' method ``followed`` scales them, for k up to `TIMES`, and for larger k as for `TIMES`. Only the replay
    ratio, and the number of updates between two copies of a target, are divided by any k.
    """
    times = minibatch_size / config.minibatch_size
    if times == 1:
        return config
    return dataclasses.replace(config, minibatch_size=minibatch_size, **config.followed(times, min(times, TIMES)))


def largest_batch(config: Config) -> int:
    """Returns the largest minibatch for `follow_batch`, a power of two times the configuration's own.

    With a fixed replay ratio it is at most `TIMES` as large, and leaves at least `UPDATES`; with a free one it is at
    most `LARGEST`, and a tenth of the replay.
    """
    own, ratio = config.minibatch_size, config.replay_ratio
    if ratio is None:
        most = min(LARGEST, config.replay_size // 10) / own
    else:
        most = min(TIMES, ratio * (config.total_steps - config.learning_starts) / UPDATES)
    return own * 2 ** max(0, math.floor(math.log2(max(most, 1))))
