"""The shared counters of a run on a cluster, and the messages of the process that talks to it.

That process, the coordinator, writes them; the learner's process reports them.
"""

from __future__ import annotations

import multiprocessing
from typing import Any

import numpy as np

from headrace.pool.executors.processes.shared import SharedArrays

COUNTS = ("connected", "nodes", "actors", "received", "sent", "restarts", "exchanges", "pulse")
LONGEST = 900  # characters of a message, so that a write to the pipe is atomic


class ClusterStatus:
    """Counters in shared memory, int64[1] each, written by the coordinator alone, and a pipe for its messages.

    Attributes:
        connected: 1 once the coordinator is connected to the cluster.
        nodes: nodes on which the run has actors.
        actors: actors that have answered: samplers and the evaluator.
        received: bytes of steps received since the run began or was resumed.
        sent: bytes of weights put into the cluster's object store, each version once.
        restarts: actors that were lost and started again.
        exchanges: answers received from actors.
        pulse: a count that increases as long as the coordinator runs.
    """

    connected: np.ndarray
    nodes: np.ndarray
    actors: np.ndarray
    received: np.ndarray
    sent: np.ndarray
    restarts: np.ndarray
    exchanges: np.ndarray
    pulse: np.ndarray

    def __init__(self) -> None:
        self._reader, writer = multiprocessing.Pipe(duplex=False)
        self.__setstate__((SharedArrays(dict.fromkeys(COUNTS, ((1,), np.dtype(np.int64)))), writer))

    def __getstate__(self) -> tuple[SharedArrays, Any]:
        return self._shared, self._writer

    def __setstate__(self, state: tuple[SharedArrays, Any]) -> None:
        self._shared, self._writer = state
        for name in COUNTS:
            setattr(self, name, self._shared[name])

    def counts(self) -> dict[str, int]:
        return {name: int(self._shared[name][0]) for name in ("nodes", "actors", "restarts")}

    def send(self, message: str) -> None:
        """Sends a message to the learner's process; only its first 900 characters."""
        self._writer.send(message[:LONGEST])

    def new_messages(self) -> list[str]:
        """Returns the messages sent since the last call."""
        found = []
        while self._reader.poll():
            found.append(self._reader.recv())
        return found

    def close(self) -> None:
        self._shared.close()
        self._reader.close()
        self._writer.close()
