"""Numbers that all workers of a run can see: how far each is, how far it may go, whether it is to end.

Every number has one writer, and is as large as one machine word: no lock is needed, and a worker that dies leaves
nothing half-written behind.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from headrace.pool.executors.processes.shared import SharedArrays

FREE = 2**62  # steps that nobody reaches
KEPT = 4096  # finished episodes of a sampler that wait to be read
PARTS = ("inference", "env", "waiting")
"""what a sampler's time goes to"""


class Episodes(NamedTuple):
    """Episodes that ended: returns float64[K], lengths int64[K]."""

    returns: np.ndarray
    lengths: np.ndarray


class Counters:
    """The shared numbers of a run with so many samplers.

    Attributes:
        steps: agent steps that each sampler has taken, its earlier lives included, int64[S].
        seconds: what they spent them on, float64[S, 3], by `PARTS`.
        begun: agent steps that the run had taken when this process went on with it, int64[1].
        rests: how often each sampler, and after them an actor that learns apart, has looked whether there is something
            to do, int64[S + 1]; who neither works nor looks does not run.
        allowed: steps that all samplers together may have taken, int64[1].
        updates: of the learner, int64[1]; actor_updates: of an actor that learns apart.
        played: episodes that the evaluator has played, int64[1].
        viewers: how often a viewer has begun to listen, int64[1].
        port: where it does; 0 for nowhere, int64[1].
    """

    def __init__(self, samplers: int):
        words, floats = np.dtype(np.int64), np.dtype(np.float64)
        fields = dict.fromkeys(
            ("stop", "begun", "allowed", "updates", "actor_updates", "played", "viewers", "port"), ((1,), words)
        )
        fields |= dict.fromkeys(("steps", "ended"), ((samplers,), words)) | {"rests": ((samplers + 1,), words)}
        fields |= {"seconds": ((samplers, len(PARTS)), floats), "episodes": ((samplers, KEPT, 2), floats)}
        self._shared = SharedArrays(fields)
        self._name_arrays()
        self.allowed[0] = FREE

    def _name_arrays(self) -> None:
        shared = self._shared
        self._stop, self._episodes, self._ended = shared["stop"], shared["episodes"], shared["ended"]
        self.begun, self.allowed, self.played = shared["begun"], shared["allowed"], shared["played"]
        self.updates, self.actor_updates = shared["updates"], shared["actor_updates"]
        self.viewers, self.port = shared["viewers"], shared["port"]
        self.steps, self.rests, self.seconds = shared["steps"], shared["rests"], shared["seconds"]
        self._read = np.zeros(len(self.steps), np.int64)

    def __getstate__(self) -> SharedArrays:
        return self._shared

    def __setstate__(self, shared: SharedArrays) -> None:
        self._shared = shared
        self._name_arrays()

    def stop(self) -> None:
        """Tell all workers to end."""
        self._stop[0] = 1

    @property
    def stopped(self) -> bool:
        """Whether all are to end."""
        return bool(self._stop[0])

    def begin(self, steps: int) -> None:
        """Go on with a run that has taken so many agent steps."""
        self.begun[0] = self.steps[0] = steps

    def total_steps(self) -> int:
        """Agent steps of all samplers."""
        return int(self.steps.sum())

    def note_episodes(self, sampler: int, returns: np.ndarray, lengths: np.ndarray) -> None:
        """A sampler's episodes have ended."""
        count = int(self._ended[sampler])
        places = (count + np.arange(len(returns))) % KEPT
        self._episodes[sampler, places, 0] = returns
        self._episodes[sampler, places, 1] = lengths
        self._ended[sampler] = count + len(returns)

    def new_episodes(self) -> Episodes:
        """Those noted since the last call; of more than a sampler keeps, its last."""
        found = []
        for sampler, count in enumerate(self._ended.tolist()):
            first = max(int(self._read[sampler]), count - KEPT // 2)
            found.append(self._episodes[sampler, np.arange(first, count) % KEPT])
            self._read[sampler] = count
        rows = np.concatenate(found)
        return Episodes(rows[:, 0].copy(), rows[:, 1].astype(np.int64))

    def close(self) -> None:
        """Give the memory back."""
        self._shared.close()
