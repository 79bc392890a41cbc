"""Seeds of workers: no two lives of any of them begin alike."""

from __future__ import annotations

import numpy as np

from headrace.train.config.settings import Config


def seed_of(config: Config, *path: int) -> int:
    """A seed for one life of one worker: nobody else's environments begin like its own.

    Lives are counted anew when a run is resumed: what goes on with it says `Counters.begun`, too.
    """
    return int(np.random.SeedSequence((config.seed, *path)).generate_state(1, np.uint32)[0] >> 1)
