"""Which environments have been started, are in flight, or have finished: what may be called when."""

from __future__ import annotations

import numpy as np

from headrace.errors import SequenceError
from headrace.pool.batch import Batch


class EnvironmentStatus:
    """Keeps account of N environments, and refuses by name what comes at the wrong moment.

    Every entry says how things are and none counts, so that one made twice is as good as one made once: a call that
    an interrupt has ended can be made good later. Calls that run at the same time write different rows.

    Args:
        num_envs: how many.
        manual: whether finished environments must be reset by hand (autoreset is disabled).
    """

    def __init__(self, num_envs: int, manual: bool):
        self.manual = manual
        self.started = np.zeros(num_envs, np.bool_)
        self.finished = np.zeros(num_envs, np.bool_)
        self.in_flight = np.zeros(num_envs, np.bool_)
        self.broken = np.zeros(num_envs, np.bool_)  # an exception ended a call in its midst; not started then

    @property
    def num_in_flight(self) -> int:
        return int(np.count_nonzero(self.in_flight))

    def all_steppable(self) -> bool:
        """Whether every environment may be stepped now."""
        return bool(self.started.all()) and not self.in_flight.any() and not (self.manual and self.finished.any())

    def check_idle(self, ids: np.ndarray) -> None:
        busy = ids[self.in_flight[ids]]
        if busy.size:
            raise SequenceError(f"environment {busy[0]} is in flight: recv its result first")

    def check_started(self, ids: np.ndarray) -> None:
        fresh = ids[~self.started[ids]]
        if fresh.size and self.broken[fresh[0]]:
            raise SequenceError(f"an exception interrupted what environment {fresh[0]} was doing: reset it first")
        if fresh.size:
            raise SequenceError(f"environment {fresh[0]} was never reset: call reset() first")

    def check_steppable(self, ids: np.ndarray) -> None:
        self.check_idle(ids)
        self.check_started(ids)
        if self.manual:
            over = ids[self.finished[ids]]
            if over.size:
                raise SequenceError(f"environment {over[0]} has finished and autoreset is disabled: reset it first")

    def note_started(self, ids: np.ndarray | None) -> None:
        where = slice(None) if ids is None else ids
        self.broken[where] = False
        self.finished[where] = False
        self.started[where] = True

    def note_broken(self, ids: np.ndarray) -> None:
        """Nobody knows how far these got: they must be reset."""
        self.broken[ids] = True
        self.started[ids] = False

    def note_sent(self, ids: np.ndarray) -> None:
        self.in_flight[ids] = True

    def note_received(self, ids: np.ndarray) -> None:
        self.in_flight[ids] = False

    def note_results(self, batch: Batch) -> None:
        """Remember whose episode has ended; only needed where nobody resets them automatically."""
        if self.manual:
            arrays = batch.arrays
            self.finished[arrays["env_id"]] = arrays["terminated"] | arrays["truncated"]
