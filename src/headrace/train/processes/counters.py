"""Numbers that all workers of a run share: their progress, the steps allowed, and whether to stop.

Every number has a single writer and is one machine word. Therefore no lock is needed, and a worker that dies leaves no
partly written number.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from headrace.pool.shared import SharedArrays

FREE = 2**62  # the number of allowed steps if there is no limit
KEPT = 4096  # maximum number of finished episodes that a sampler keeps until they are read
PARTS = ("inference", "env", "paced", "waiting")
"""the parts of a sampler's time; ``paced`` is spent waiting for the replay ratio, ``waiting`` for the learner"""
PACED, WAITING = PARTS.index("paced"), PARTS.index("waiting")


class Episodes(NamedTuple):
    """Returns float64[K] and lengths int64[K] of finished episodes, and what was reported of them.

    Attributes:
        reported: the metrics' values and whether they were reported, float64[2 metrics, K].
    """

    returns: np.ndarray
    lengths: np.ndarray
    reported: np.ndarray


class Counters:
    """The shared numbers of a run with S samplers.

    Args:
        samplers: number of samplers, S.
        metrics: number of metrics that environments may report.

    Attributes:
        steps: agent steps of each sampler, including its earlier processes, int64[S].
        seconds: time that each sampler has spent on each of `PARTS`, float64[S, 4].
        begun: agent steps of the run before it was resumed, int64[1].
        rests: number of polls of each sampler while it waits, and, as the last element, of the actor learner,
            int64[S + 1]. A process that neither works nor polls does not run.
        allowed: agent steps that all samplers together may reach, int64[1].
        updates: updates of the learner, int64[1].
        actor_updates: updates of the actor learner, int64[1].
        played: episodes that the evaluator has played, int64[1].
    """

    def __init__(self, samplers: int, metrics: int = 0):
        words, floats = np.dtype(np.int64), np.dtype(np.float64)
        fields = dict.fromkeys(("stop", "begun", "allowed", "updates", "actor_updates", "played"), ((1,), words))
        fields |= dict.fromkeys(("steps", "ended"), ((samplers,), words)) | {"rests": ((samplers + 1,), words)}
        fields |= {"seconds": ((samplers, len(PARTS)), floats), "episodes": ((samplers, KEPT, 2 + 2 * metrics), floats)}
        self._shared = SharedArrays(fields)
        self._name_arrays()
        self.allowed[0] = FREE

    def _name_arrays(self) -> None:
        shared = self._shared
        self._stop, self._episodes, self._ended = shared["stop"], shared["episodes"], shared["ended"]
        self.begun, self.allowed, self.played = shared["begun"], shared["allowed"], shared["played"]
        self.updates, self.actor_updates = shared["updates"], shared["actor_updates"]
        self.steps, self.rests, self.seconds = shared["steps"], shared["rests"], shared["seconds"]
        self._read = np.zeros(len(self.steps), np.int64)

    def __getstate__(self) -> SharedArrays:
        return self._shared

    def __setstate__(self, shared: SharedArrays) -> None:
        self._shared = shared
        self._name_arrays()

    def stop(self) -> None:
        self._stop[0] = 1

    @property
    def stopped(self) -> bool:
        return bool(self._stop[0])

    def begin(self, steps: int) -> None:
        """Continues a run that has taken ``steps`` agent steps."""
        self.begun[0] = self.steps[0] = steps

    def total_steps(self) -> int:
        return int(self.steps.sum())

    def note_episodes(
        self, sampler: int, returns: np.ndarray, lengths: np.ndarray, reported: np.ndarray | None = None
    ) -> None:
        """Records a sampler's finished episodes, see `Episodes`; ``reported`` is None if nothing was."""
        count = int(self._ended[sampler])
        places = (count + np.arange(len(returns))) % KEPT
        self._episodes[sampler, places, 0] = returns
        self._episodes[sampler, places, 1] = lengths
        self._episodes[sampler, places, 2:] = 0.0 if reported is None else reported.T
        self._ended[sampler] = count + len(returns)

    def new_episodes(self) -> Episodes:
        """Returns the episodes noted since the last call; at most the last `KEPT` of each sampler."""
        found = []
        for sampler, count in enumerate(self._ended.tolist()):
            first = max(int(self._read[sampler]), count - KEPT // 2)
            found.append(self._episodes[sampler, np.arange(first, count) % KEPT])
            self._read[sampler] = count
        rows = np.concatenate(found)
        return Episodes(rows[:, 0].copy(), rows[:, 1].astype(np.int64), rows[:, 2:].T.copy())

    def close(self) -> None:
        self._shared.close()
