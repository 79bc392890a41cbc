"""The learner's view of a run's cluster: one worker process, the coordinator, and counts to report."""

from __future__ import annotations

from typing import Any

from headrace.train.cluster import coordinator
from headrace.train.cluster.cluster_status import ClusterStatus
from headrace.train.config.settings import Config
from headrace.train.logging.throughput import Throughput
from headrace.train.processes.counters import Counters
from headrace.train.processes.supervisor import Supervisor
from headrace.train.processes.weight_buffer import WeightBuffer
from headrace.train.storage.rollout_slots import Rollouts
from headrace.train.storage.step_replay import StepReplay

END = 10.0
"""seconds within which actors, and a cluster that the run started, must end"""


class Cluster:
    """The samplers and the evaluator of a run on a Ray cluster."""

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
        """Starts the coordinator.

        Args:
            counters, weights, evaluations: the same objects as for local workers.
            memory: the replay, or the slots of rollouts, into which the samplers' steps are written.
        """
        status = self._status
        shared = coordinator.Shared(counters, weights, evaluations, memory, status)
        supervisor.start(
            "coordinator",
            coordinator.work,
            self._config,
            shared,
            progress=lambda: int(status.exchanges[0]),
            pulse=lambda: int(status.pulse[0]),
        )

    @property
    def connected(self) -> bool:
        return bool(self._status.connected[0])

    @property
    def restarts(self) -> int:
        return int(self._status.restarts[0])

    def new_messages(self) -> list[str]:
        """Returns the messages about actors lost and started again since the last call."""
        return self._status.new_messages()

    def numbers(self) -> dict[str, Any]:
        """Returns the numbers for a line of metrics: nodes, actors, restarts, and bytes a second received and sent."""
        status = self._status
        self._bytes.note(int(status.received[0]), int(status.sent[0]))
        received, sent = self._bytes.per_second() or (0.0, 0.0)
        return status.counts() | {"received_bytes": round(received), "sent_bytes": round(sent)}

    def close(self) -> None:
        self._status.close()
