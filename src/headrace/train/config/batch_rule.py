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

from headrace.train.config.settings import Config

TIMES = 4
"""minibatches that the rule is good for are up to so many times as large as the one that settings were found with"""
UPDATES = 100_000
"""the fewest updates that a run may have, whatever its minibatch"""
LARGEST = 1 << 15
"""a minibatch where the replay ratio is free, and with it the number of updates"""


def follow_batch(config: Config, minibatch_size: int) -> Config:
    """Returns the settings with another minibatch, k times their own, and what follows from it.

    What follows is what the settings' own ``followed`` says, for k up to `TIMES`, and as with `TIMES` beyond; but the
    replay ratio is divided by k whatever that is, and so is the number of updates between two copies of a target.
    """
    times = minibatch_size / config.minibatch_size
    if times == 1:
        return config
    return dataclasses.replace(config, minibatch_size=minibatch_size, **config.followed(times, min(times, TIMES)))


def largest_batch(config: Config) -> int:
    """Returns the largest minibatch that `follow_batch` may be asked for, a power of two times the configuration's own.

    With a fixed replay ratio, `TIMES` as large, as long as `UPDATES` are left; with a free one, up to `LARGEST`, and a
    tenth of the replay.
    """
    own, ratio = config.minibatch_size, config.replay_ratio
    if ratio is None:
        most = min(LARGEST, config.replay_size // 10) / own
    else:
        most = min(TIMES, ratio * (config.total_steps - config.learning_starts) / UPDATES)
    return own * 2 ** max(0, math.floor(math.log2(max(most, 1))))
