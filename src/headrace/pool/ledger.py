"""Which environments have been started, are in flight, or have finished: what may be called when."""

from __future__ import annotations

import numpy as np

from headrace.errors import SequenceError
from headrace.pool.batch import Batch


class Ledger:
    """Keeps account of N environments, and refuses by name what comes at the wrong moment.

    Args:
        num_envs: how many.
        manual: whether finished environments must be reset by hand (autoreset is disabled).
    """

    def __init__(self, num_envs: int, manual: bool):
        self.manual = manual
        self.started = np.zeros(num_envs, np.bool_)
        self.finished = np.zeros(num_envs, np.bool_)
        self.in_flight = np.zeros(num_envs, np.bool_)
        self.num_in_flight = 0

    def all_steppable(self) -> bool:
        """Whether every environment may be stepped now."""
        return self.num_in_flight == 0 and bool(self.started.all()) and not (self.manual and self.finished.any())

    def check_idle(self, ids: np.ndarray) -> None:
        if self.num_in_flight:
            busy = ids[self.in_flight[ids]]
            if busy.size:
                raise SequenceError(f"environment {busy[0]} is in flight: recv its result first")

    def check_started(self, ids: np.ndarray) -> None:
        fresh = ids[~self.started[ids]]
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
        self.started[where] = True
        self.finished[where] = False

    def note_sent(self, ids: np.ndarray) -> None:
        self.in_flight[ids] = True
        self.num_in_flight += len(ids)

    def note_received(self, ids: np.ndarray) -> None:
        self.in_flight[ids] = False
        self.num_in_flight -= len(ids)

    def note_results(self, batch: Batch) -> None:
        """Remember whose episode has ended; only needed where nobody resets them automatically."""
        if self.manual:
            arrays = batch.arrays
            self.finished[arrays["env_id"]] = arrays["terminated"] | arrays["truncated"]
