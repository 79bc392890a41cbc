"""Control of the ratio of updates to steps.

With a fixed replay ratio, samplers may be ahead of the learner by ``SLACK`` steps of all environments, so that they
seldom wait, or by the steps that the next update needs, if these are more; the learner is never ahead of them. With a
free ratio, neither waits.
"""

from __future__ import annotations

from headrace.train.processes.counters import FREE, Counters
from headrace.train.settings.config import Config

SLACK = 8  # steps of all environments
REST = 1e-3
"""seconds between two checks of other processes' progress, as checks also take processor time"""


class RateLimiter:
    """The replay ratio of a run, enforced by the learner.

    Args:
        config: the run's settings: the ratio, and the steps at which learning starts and the run ends.
        counters: the counters through which samplers read how many steps they may take.
        emptied: agent steps and updates of the run when its replay was last empty; learning starts ``learning_starts``
            steps later.
    """

    def __init__(self, config: Config, counters: Counters, updates: int = 0, emptied: tuple[int, int] = (0, 0)):
        self._counters, self._ratio, self._total = counters, config.replay_ratio, config.total_steps
        steps, self._before = emptied
        self._first = steps + config.learning_starts
        self._slack = SLACK * config.num_envs * max(config.samplers, 1)
        self.note(updates)

    def note(self, updates: int) -> None:
        """Records that ``updates`` updates have been made, and permits samplers the corresponding steps."""
        allowed = self._total
        if self._ratio is not None:
            made = updates - self._before
            # one step more than is due, so that rounding never permits too few
            next_one = int((made + 1) / self._ratio) + 1
            allowed = min(allowed, self._first + max(int(made / self._ratio) + self._slack, next_one))
        self._counters.updates[0] = updates
        self._counters.allowed[0] = min(allowed, FREE)

    def due(self, steps: int) -> int:
        """Returns the number of updates that may have been made after ``steps`` agent steps."""
        if steps < self._first:
            return 0
        if self._ratio is None:
            return FREE
        return self._before + int(self._ratio * (min(steps, self._total) - self._first))
