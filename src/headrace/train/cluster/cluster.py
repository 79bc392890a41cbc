"""A run's cluster, as the learner sees it: a worker like others, and numbers to report."""

from __future__ import annotations

from typing import Any

from headrace.train.cluster import courier
from headrace.train.cluster.cluster_status import ClusterStatus
from headrace.train.config.settings import Config
from headrace.train.logging.throughput import Throughput
from headrace.train.processes.counters import Counters
from headrace.train.processes.supervisor import Supervisor
from headrace.train.processes.weight_buffer import WeightBuffer
from headrace.train.storage.rollout_slots import Rollouts
from headrace.train.storage.step_replay import StepReplay

END = 10.0
"""seconds that actors, and a cluster that the run started, have to end"""


class Cluster:
    """The samplers and the evaluator of a run on a Ray cluster.

    Args:
        config: the run's settings.
    """

    def __init__(self, config: Config):
        self._config = config
        self._status, self._bytes = ClusterStatus(), Throughput()

    def start(
        self,
        supervisor: Supervisor,
        counters: Counters,
        weights: WeightBuffer,
        evaluations: WeightBuffer,
        memory: StepReplay | Rollouts,
    ) -> None:
        """Start the process that talks to the cluster, with what the learner shares with its workers."""
        status = self._status
        shared = courier.Shared(counters, weights, evaluations, memory, status)
        supervisor.start(
            "courier",
            courier.work,
            self._config,
            shared,
            progress=lambda: int(status.exchanges[0]),
            pulse=lambda: int(status.pulse[0]),
        )

    @property
    def connected(self) -> bool:
        """Whether the cluster is there."""
        return bool(self._status.connected[0])

    @property
    def restarts(self) -> int:
        """Actors that were lost and started again."""
        return int(self._status.restarts[0])

    def new_messages(self) -> list[str]:
        """Returns what became of actors since the last call."""
        return self._status.new_messages()

    def numbers(self) -> dict[str, Any]:
        """Returns what a line of metrics says: nodes, actors, their restarts, and bytes a second in and out."""
        status = self._status
        self._bytes.note(int(status.received[0]), int(status.sent[0]))
        received, sent = self._bytes.per_second() or (0.0, 0.0)
        return status.counts() | {"received_bytes": round(received), "sent_bytes": round(sent)}

    def close(self) -> None:
        """Free the shared memory."""
        self._status.close()
