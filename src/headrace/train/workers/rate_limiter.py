"""How many updates belong to how many steps, and who waits for whom.

With a fixed replay ratio one of the two sides is ahead: samplers may be so by ``SLACK`` steps of all environments,
so that they seldom have to stop, and the learner not at all. With a free one nobody ever waits.
"""

from __future__ import annotations

from headrace.train.config.settings import Config
from headrace.train.processes.counters import FREE, Counters

SLACK = 8
REST = 1e-3
"""seconds between two looks at whether others have caught up: looks, too, take a core from whoever computes"""


class RateLimiter:
    """The replay ratio of a run, kept by the learner.

    Args:
        config: names it, and the steps to wait for and to end at.
        counters: where samplers find how far they may go.
        updates: of the run so far.
        emptied: steps and updates of the run when its replay was empty; ``learning_starts`` steps fill it from there.
    """

    def __init__(self, config: Config, counters: Counters, updates: int = 0, emptied: tuple[int, int] = (0, 0)):
        self._board, self._ratio, self._total = counters, config.replay_ratio, config.total_steps
        steps, self._before = emptied
        self._first = steps + config.learning_starts
        self._slack = SLACK * config.num_envs * max(config.samplers, 1)
        self.note(updates)

    def note(self, updates: int) -> None:
        """So many updates have been made."""
        allowed = self._total
        if self._ratio is not None:
            allowed = min(allowed, self._first + int((updates - self._before) / self._ratio) + self._slack)
        self._board.updates[0] = updates
        self._board.allowed[0] = min(allowed, FREE)

    def due(self, steps: int) -> int:
        """Updates that may have been made after so many steps."""
        if steps < self._first:
            return 0
        if self._ratio is None:
            return FREE
        return self._before + int(self._ratio * (min(steps, self._total) - self._first))
