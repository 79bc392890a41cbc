"""Workers as the source of experience: samplers and an evaluator, which work while this process learns.

A few times a second, between updates, this process checks the workers, and reads the episodes that have ended and the
evaluator's results.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor

from headrace.train.algorithms.policy import Policy
from headrace.train.cluster import driver
from headrace.train.cluster.driver import Cluster
from headrace.train.collect.curriculum import stage_at
from headrace.train.collect.game_values import metric_names
from headrace.train.logging.episode_tracker import EpisodeTracker
from headrace.train.logging.timer import Throughput
from headrace.train.play.evaluate import judged
from headrace.train.processes.counters import PARTS, Counters
from headrace.train.processes.start import needs_script
from headrace.train.processes.supervisor import PATIENCE, RESTARTED, Supervisor
from headrace.train.processes.weight_buffer import WeightBuffer
from headrace.train.runners.parts import Figures, News, Scored, Source
from headrace.train.runs import checkpoint as checkpoints
from headrace.train.runs.checkpoint import Checkpoint
from headrace.train.runs.folder import RunFolder
from headrace.train.settings.config import Config
from headrace.train.storage.rollout_slots import Rollouts
from headrace.train.storage.step_replay import StepReplay
from headrace.train.workers import actor_learner, evaluator, samplers
from headrace.train.workers.actor_learner import Exchange
from headrace.train.workers.policy_copy import PolicyCopy
from headrace.train.workers.rate_limiter import REST

PATIENCE_ON_A_CLUSTER = 10.0  # seconds within which actors, and a cluster that the run started, must end


class WorkerSource(Source):
    """The worker processes of a run.

    Args:
        memory: what samplers write to.
        weights: the buffer in which the learner publishes the weights that samplers and evaluator use.
        exchange: for a process that learns the actor; None where the learner does.

    Attributes:
        counters: the numbers that all processes of the run share.
        restarts: the number of times that a worker died and was started again.
    """

    speeds_name = "per_second"

    def __init__(
        self,
        config: Config,
        run: RunFolder,
        policy: Policy,
        memory: StepReplay | Rollouts,
        weights: WeightBuffer,
        counters: Counters,
        exchange: Exchange | None = None,
    ):
        self.config, self.run, self.policies = config, run, [policy]
        self.memory, self.weights, self.counters, self.exchange = memory, weights, counters, exchange
        self.steps, self.news = 0, deque[News]()
        self.trackers = [EpisodeTracker(1, config.stop_episodes, metrics=metric_names(config))]
        self.policy_copy = PolicyCopy(policy)
        self.evaluations = self.policy_copy.buffer(len(evaluator.RESULTS))
        self._evaluated = torch.zeros_like(self.policy_copy.vector, device="cpu"), self.policy_copy.known()
        self.cluster = Cluster(counters, weights, self.evaluations, memory) if config.ray else None
        patience = PATIENCE_ON_A_CLUSTER if config.ray else PATIENCE
        self.supervisor = Supervisor(self.counters.stop, patience, needs_script(config))
        self.restarts, self._stage = 0, 0
        self._throughput = Throughput()

    @contextmanager
    def running(self, interrupt: object) -> Iterator[None]:
        try:
            with self.supervisor:
                self.start_workers(interrupt)
                self._throughput.note(self.steps)
                yield
        finally:
            self.read_counters()

    def start_workers(self, interrupt: object) -> None:
        """Starts all workers; waits for a cluster until the run is told to end."""
        config, counters, cluster, start = self.config, self.counters, self.cluster, self.supervisor.start
        if cluster is not None:
            progress, pulse = partial(cluster.count, "calls"), partial(cluster.count, "pulse")
            start("driver", driver.work, config, cluster, progress=progress, pulse=pulse)
            while not cluster.count("connected") and not interrupt:
                self.check_workers()
                time.sleep(REST)
        for number in range(config.samplers if cluster is None else 0):
            start(
                f"sampler {number}" if config.samplers > 1 else "sampler",
                samplers.work,
                *(config, number, self.memory, self.weights, counters),
                progress=lambda n=number: int(counters.steps[n]),
                pulse=lambda n=number: int(counters.steps[n] + counters.rests[n]),
            )
        if config.evaluate_episodes and cluster is None:
            arguments = config, self.run.path, self.weights, self.evaluations, counters
            start("evaluator", evaluator.work, *arguments, progress=lambda: int(counters.played[0]))
        if self.exchange is not None:
            made, rests = counters.actor_updates, counters.rests
            start(
                "actor",
                actor_learner.work,
                *(config, self.memory, self.exchange, counters),
                progress=lambda: int(made[0]),
                pulse=lambda: int(made[0] + rests[-1]),
            )

    def check_workers(self) -> None:
        """Restarts workers that have died, with news of each."""
        words, self.restarts = self.supervisor.check(), self.supervisor.restarts
        if self.cluster is not None:
            self.restarts += self.cluster.count("restarts")
        self.news.extend(News(each, "restart" if each.endswith(RESTARTED) else "warning") for each in words)

    def collect(self) -> list[Any]:
        return []

    def advance(self) -> None:
        self.read_counters()
        self.check_workers()

    def read_counters(self) -> None:
        self.steps = self.counters.total_steps()
        self._throughput.note(self.steps)
        ended, stage = self.counters.new_episodes(), stage_at(self.config, self.steps)
        if len(ended.returns):
            self.trackers[0].add(*map(torch.from_numpy, ended))
        if stage != self._stage:  # samplers change their environments by the same count
            self._stage = stage
            self.trackers[0].forget_episodes()
        vector, known = self._evaluated
        found = torch.zeros(len(evaluator.RESULTS) + len(known), dtype=torch.float64)
        if self.evaluations.read(vector, found) is not None:
            results, known[:] = found.split((len(evaluator.RESULTS), len(known)))
            self.evaluation = dict(zip(evaluator.RESULTS, results.tolist(), strict=True))

    def awaits_evaluation(self) -> bool:
        return bool(self.config.evaluate_episodes) and self.evaluation.get("version", 0) != self.weights.version

    def finish(self) -> None:
        self.end_workers()
        self.read_counters()

    def end_workers(self) -> None:
        """Ends the workers; those that have begun may finish, but not those that still wait for a cluster."""
        waits = self.cluster is not None and not self.cluster.count("connected")
        self.supervisor.close(0.0 if waits else None)

    # -- for reporting ---------------------------------------------------------------------------

    def when(self) -> str:
        return f"before agent step {self.steps:,}"

    def score(self) -> Scored | None:
        if not self.evaluation:
            return None
        found = judged("evaluation", self.evaluation["return"], self.config.evaluate_episodes)
        return Scored(found, self._evaluated_model, int(self.evaluation["step"]))

    @torch.no_grad()
    def _evaluated_model(self) -> dict[str, Tensor]:
        copy = self.policy_copy
        learning = copy.vector.clone(), copy.known()
        copy.take(*self._evaluated)
        model = {name: tensor.to("cpu", copy=True) for name, tensor in self.policies[0].model().items()}
        copy.take(*learning)
        return model

    def figures(self) -> Figures:
        """As `Source.figures`; the seconds are those of all samplers together."""
        split = dict[str, float](zip(PARTS, self.counters.seconds.sum(0).tolist(), strict=True))
        (sampled,) = self._throughput.per_second() or (None,)
        details = {"evaluation": self.evaluation, "restarts": self.restarts}
        if self.cluster is not None:
            details["cluster"] = self.cluster.numbers()
        return Figures({}, split, {"sampling": sampled}, details)

    # -- checkpoints -----------------------------------------------------------------------------

    def state(self) -> dict[str, Tensor]:
        """Returns the last episodes; samplers begin new ones when the run is resumed."""
        return checkpoints.prefixed("episodes", self.trackers[0].state())

    def load(self, point: Checkpoint, continues: bool) -> None:
        self.trackers[0].load(checkpoints.group("episodes", point.state))
        self.steps = point.counters["step"]
        self._stage = stage_at(self.config, self.steps)
        self.counters.begin(self.steps)

    def close(self) -> None:
        self.end_workers()
        for shared in (self.weights, self.evaluations, self.counters, *([self.cluster] if self.cluster else [])):
            shared.close()
