"""The learner's view of a run's cluster: what it shares with the driver, and the numbers that it reports."""

from __future__ import annotations

from typing import Any

import numpy as np

from headrace.pool.executors.processes.shared import SharedArrays
from headrace.train.logging.throughput import Throughput
from headrace.train.processes.counters import Counters
from headrace.train.processes.weight_buffer import WeightBuffer
from headrace.train.storage.rollout_slots import Rollouts
from headrace.train.storage.step_replay import StepReplay

COUNTS = ("connected", "nodes", "actors", "received", "sent", "restarts", "calls", "pulse")


class Cluster:
    """The memory that the learner shares with the driver, which writes it.

    Args:
        counters, weights, evaluations: the same as for local workers.
        memory: the replay or the slots into which the samplers' steps are written.

    Attributes:
        counts: int64[1] each: whether the cluster is ``connected``; ``nodes`` with actors; ``actors`` that have begun;
            bytes of steps ``received`` and of weights ``sent``; ``restarts`` of actors that were lost or failed;
            ``calls`` that have returned; and a ``pulse`` that increases while the driver works.
    """

    def __init__(
        self, counters: Counters, weights: WeightBuffer, evaluations: WeightBuffer, memory: StepReplay | Rollouts
    ):
        self.counters, self.weights, self.evaluations, self.memory = counters, weights, evaluations, memory
        self.counts = SharedArrays(dict.fromkeys(COUNTS, ((1,), np.dtype(np.int64))))
        self._bytes = Throughput()

    def count(self, name: str) -> int:
        return int(self.counts[name][0])

    def numbers(self) -> dict[str, Any]:
        """Returns the numbers for a line of metrics: nodes, actors, restarts, and bytes a second received and sent."""
        self._bytes.note(self.count("received"), self.count("sent"))
        received, sent = self._bytes.per_second() or (0.0, 0.0)
        known = {name: self.count(name) for name in ("nodes", "actors", "restarts")}
        return known | {"received_bytes": round(received), "sent_bytes": round(sent)}

    def close(self) -> None:
        self.counts.close()
