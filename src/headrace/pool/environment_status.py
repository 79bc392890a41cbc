"""Which environments have been started, are in flight, or have finished; decides which calls are valid."""

from __future__ import annotations

import numpy as np

from headrace.errors import SequenceError
from headrace.pool.batch import Batch


class EnvironmentStatus:
    """The status of N environments, whose methods raise `SequenceError` for calls that are not valid in it.

    Updates only set and clear flags, so repeating one has no further effect: an update that an exception interrupted
    can be repeated. Concurrent calls write different rows.

    Args:
        num_envs: number of environments, N.
        manual: whether the caller must reset finished environments, because autoreset is disabled.
    """

    def __init__(self, num_envs: int, manual: bool):
        self.manual = manual
        self.started = np.zeros(num_envs, np.bool_)
        self.finished = np.zeros(num_envs, np.bool_)
        self.in_flight = np.zeros(num_envs, np.bool_)
        self.broken = np.zeros(num_envs, np.bool_)  # an exception interrupted a call on it; `started` is then False

    @property
    def num_in_flight(self) -> int:
        return int(np.count_nonzero(self.in_flight))

    def all_steppable(self) -> bool:
        """Returns whether every environment may be stepped now."""
        return bool(self.started.all()) and not self.in_flight.any() and not (self.manual and self.finished.any())

    def check_idle(self, ids: np.ndarray) -> None:
        """Raises `SequenceError` if any of the environments ``ids``, int32[k], is in flight."""
        busy = ids[self.in_flight[ids]]
        if busy.size:
            raise SequenceError(f"environment {busy[0]} is in flight: recv its result first")

    def check_started(self, ids: np.ndarray) -> None:
        """Raises `SequenceError` unless all of the environments ``ids``, int32[k], have been reset."""
        fresh = ids[~self.started[ids]]
        if fresh.size and self.broken[fresh[0]]:
            raise SequenceError(f"an exception interrupted what environment {fresh[0]} was doing: reset it first")
        if fresh.size:
            raise SequenceError(f"environment {fresh[0]} was never reset: call reset() first")

    def check_steppable(self, ids: np.ndarray) -> None:
        """Raises `SequenceError` unless all of the environments ``ids``, int32[k], may be stepped now."""
        self.check_idle(ids)
        self.check_started(ids)
        if self.manual:
            over = ids[self.finished[ids]]
            if over.size:
                raise SequenceError(f"environment {over[0]} has finished and autoreset is disabled: reset it first")

    def note_started(self, ids: np.ndarray | None) -> None:
        """Records that the environments ``ids``, int32[k] (None: all), have begun an episode."""
        where = slice(None) if ids is None else ids
        self.broken[where] = False
        self.finished[where] = False
        self.started[where] = True

    def note_broken(self, ids: np.ndarray) -> None:
        """Records that the environments ``ids``, int32[k], are in an unknown state and must be reset."""
        self.broken[ids] = True
        self.started[ids] = False

    def note_sent(self, ids: np.ndarray) -> None:
        """Records that a step or reset of the environments ``ids``, int32[k], is in flight."""
        self.in_flight[ids] = True

    def note_received(self, ids: np.ndarray) -> None:
        """Records that the results of the environments ``ids``, int32[k], have been received."""
        self.in_flight[ids] = False

    def note_results(self, batch: Batch) -> None:
        """Records which environments of a batch have finished their episodes; does nothing unless resets are manual."""
        if self.manual:
            arrays = batch.arrays
            self.finished[arrays["env_id"]] = arrays["terminated"] | arrays["truncated"]
