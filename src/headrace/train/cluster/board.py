"""Numbers and words of a run's cluster: the process that talks to it writes them, the learner reports them."""

from __future__ import annotations

import multiprocessing
from typing import Any

import numpy as np

from headrace.pool.executors.processes.shared import SharedArrays

COUNTS = ("connected", "nodes", "actors", "received", "sent", "restarts", "exchanges", "pulse")
LONGEST = 900  # characters of a message: a pipe takes it whole, or not at all


class Board:
    """The shared numbers of a cluster, int64[1] each; every one has a single writer.

    Attributes:
        connected: 1 once the cluster is there.
        nodes: nodes on which actors of the run are.
        actors: samplers that have begun, and the evaluator.
        received: bytes of steps that came in, since the run began or was resumed.
        sent: bytes of weights that went out, each once for all who read them.
        restarts: actors that were lost and started again.
        exchanges: answers of actors.
        pulse: grows as long as the process runs.
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

    def numbers(self) -> dict[str, int]:
        """Returns the numbers of nodes, actors, and restarts of actors."""
        return {name: int(self._shared[name][0]) for name in ("nodes", "actors", "restarts")}

    def say(self, words: str) -> None:
        """Tell the learner's process what became of an actor."""
        self._writer.send(words[:LONGEST])

    def words(self) -> list[str]:
        """Returns what was said since the last call."""
        found = []
        while self._reader.poll():
            found.append(self._reader.recv())
        return found

    def close(self) -> None:
        """Free the shared memory."""
        self._shared.close()
        self._reader.close()
        self._writer.close()
