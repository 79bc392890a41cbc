"""Seeds of worker processes, different for every worker and every start."""

from __future__ import annotations

import numpy as np

from headrace.train.config.settings import Config


def seed_of(config: Config, *path: int) -> int:
    """Returns a seed in [0, 2³¹) from the run's seed and a path of numbers that identifies one start of one worker.

    As starts are counted from 0 again when a run is resumed, ``path`` includes `Counters.begun` for a resumed worker.
    """
    return int(np.random.SeedSequence((config.seed, *path)).generate_state(1, np.uint32)[0] >> 1)
