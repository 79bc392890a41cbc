"""How many updates belong to how many steps, and who waits for whom.

With a fixed replay ratio one of the two sides is ahead: samplers may be so by ``SLACK`` steps of all environments,
so that they seldom have to stop, and the learner not at all. With a free one nobody ever waits.
"""

from __future__ import annotations

from headrace.train.config import Config
from headrace.train.workers.board import FREE, Board

SLACK = 8
REST = 1e-3
"""seconds between two looks at whether others have caught up: looks, too, take a core from whoever computes"""


class Pace:
    """The replay ratio of a run, kept by the learner.

    Args:
        config: names it, and the steps to wait for and to end at.
        board: where samplers find how far they may go.
        steps, updates: of the run so far; none of the replay is older, so that it has to be filled first.
        filled: whether the replay has been filled already.
    """

    def __init__(self, config: Config, board: Board, steps: int = 0, updates: int = 0, filled: bool = False):
        self._board, self._ratio, self._total = board, config.replay_ratio, config.total_steps
        self._first = steps if filled else steps + config.learning_starts
        self._before = updates
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
