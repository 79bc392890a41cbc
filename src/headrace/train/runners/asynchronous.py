"""Runs whose samplers, learner and evaluator work at the same time.

The learner runs in the main process. A few times a second, between updates, that process checks the workers, reads the
episodes that have ended and the evaluator's results, and writes a line of metrics or a checkpoint if one is due.
Subclasses define the memory between samplers and learner: `headrace.train.runners.off_policy`,
`headrace.train.runners.on_policy`.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import torch
from torch import Tensor

from headrace.errors import HeadraceError, NotFiniteError, OptionError
from headrace.pool.registry import build_task
from headrace.train.algorithms.policy import Policy
from headrace.train.cluster.cluster import END, Cluster
from headrace.train.collect.setup import agent_groups, find_device, make_policy, prepare
from headrace.train.config.settings import Config
from headrace.train.logging.episode_tracker import EpisodeTracker
from headrace.train.logging.finite import all_finite
from headrace.train.logging.loggers import make_loggers
from headrace.train.logging.metrics import MetricsWriter
from headrace.train.logging.throughput import Throughput
from headrace.train.play.agent import Agent
from headrace.train.play.judging import JUDGED, best_evaluation, judged
from headrace.train.play.loading import begin_with_network
from headrace.train.processes.background import Writing
from headrace.train.processes.counters import PARTS, Counters
from headrace.train.processes.interrupt import Interrupt
from headrace.train.processes.start import needs_script
from headrace.train.processes.supervisor import PATIENCE, RESTARTED, Supervisor
from headrace.train.runners.learner import Learner
from headrace.train.runners.runner import LAST_EVALUATION, Runner
from headrace.train.runs import checkpoint as checkpoints
from headrace.train.runs.checkpoint import Checkpoint
from headrace.train.runs.folder import RunFolder
from headrace.train.storage.rollout_slots import Rollouts
from headrace.train.storage.step_replay import StepReplay
from headrace.train.workers import evaluator
from headrace.train.workers.policy_copy import PolicyCopy
from headrace.train.workers.rate_limiter import REST

POLL = 0.1  # seconds between checks of the workers
LOG_SECONDS = 2.0  # maximum time between two lines of metrics, in seconds


class AsyncTrainer(Runner):
    """A run with workers.

    Args:
        config: the settings of the run; ``samplers`` is at least 1.
        resume: the checkpoint to continue from; None for a new run.

    Attributes:
        updates: the number of the learner's updates so far.
        restarts: the number of times that a worker died and was started again.

    Raises:
        OptionError: the task or a setting does not allow workers.
    """

    SPEEDS = "per_second"

    def __init__(self, config: Config, run: RunFolder, resume: Checkpoint | None = None):
        super().__init__(config, run, find_device(config.learns_on))
        self.spec = build_task(config.task, **config.env_options).spec
        (agent_group,) = agent_groups(config, self.spec).values()
        prepare(config, [agent_group])
        self.policy: Policy = make_policy("", config, agent_group, self.device)
        self.policies, policy = [self.policy], self.policy
        self.policy_copy = PolicyCopy(policy)
        policy.tracker = EpisodeTracker(1, config.stop_episodes)
        self.weights = self.policy_copy.buffer(self._extras())
        self.evaluations = self.policy_copy.buffer(len(evaluator.RESULTS))
        self._evaluated = torch.zeros_like(policy.actor_parameters, device="cpu"), self.policy_copy.known()
        self.counters = Counters(config.samplers)
        self.updates = self.restarts = 0
        self._lost = 0.0
        self.learner = self._make_learner()
        self._throughput = Throughput()
        if resume is None:
            begin_with_network(policy)
            self.learner.publish()
        offset = self.load(resume) if resume is not None else 0
        self.writer = MetricsWriter(run.metrics_file, offset, make_loggers(config, run, self.step))
        self.cluster = Cluster(config) if config.ray else None
        patience = END if config.ray else PATIENCE
        self.supervisor, self.writing = Supervisor(self.counters.stop, patience, needs_script(config)), Writing()
        self._interrupt = Interrupt()

    def _extras(self) -> int:
        return 0

    @abstractmethod
    def _make_learner(self) -> Learner:
        """Makes the learner, and the memory that it shares with samplers."""

    @abstractmethod
    def _sampler(self, number: int) -> tuple[Callable[..., None], tuple[Any, ...]]:
        """Returns a sampler's main function, and its arguments but for the last, the number of earlier starts."""

    @abstractmethod
    def _memory(self) -> StepReplay | Rollouts:
        """Returns the memory that samplers write to."""

    @abstractmethod
    def _update(self) -> bool:
        """Makes one update if one is due; returns whether it did."""

    @contextmanager
    def _running(self) -> Iterator[Interrupt]:
        """Provides the context of the loop: workers end with it, and a checkpoint is saved even if a worker fails."""
        try:
            with self.supervisor, self._interrupt:
                if not checkpoints.newest(self.run.checkpoints):
                    self._save_meanwhile()  # so that there is always a checkpoint to continue from
                self._start()
                self._throughput.note(self.step, self.updates)
                yield self._interrupt
        except Exception as error:
            cause: Exception = error
            with suppress(Exception):  # only the first error is reported
                try:
                    self._read_counters()
                    self._save_meanwhile()
                except NotFiniteError as found:  # samplers that act with such weights fail as well
                    cause = error if isinstance(error, NotFiniteError) else found
                self.writing.wait()
            if cause is not error:
                raise cause from error
            raise

    def iterate(self) -> None:
        self._learn(POLL)
        self._poll()

    def _agree(self, stop: bool, save: bool) -> tuple[bool, ...]:
        return stop, save and not self.writing.busy

    def set_rates(self, values: Mapping[str, float]) -> None:
        if getattr(self.config, "apart", False):
            raise OptionError(
                f"{min(values, default='')} cannot change while the actor learns in a process of its own: "
                "train with actor_device=''"
            )
        super().set_rates(values)
        self.learner.config = self.config

    def agent(self) -> Agent:
        self.learner.settle()
        return super().agent()

    def _finish(self) -> None:
        self.learner.publish()
        until = time.monotonic() + LAST_EVALUATION
        while self._evaluation_is_due() and not self._interrupt and time.monotonic() < until:
            time.sleep(REST)
            self._poll()
        self._end_workers()
        self._read_counters()
        self._log()

    def _end_workers(self) -> None:
        """Ends the workers; those that have begun may finish, but not those that still wait for a cluster."""
        waits = self.cluster is not None and not self.cluster.connected
        self.supervisor.close(0.0 if waits else None)

    def _start(self) -> None:
        config, counters, workers = self.config, self.counters, self.supervisor
        if self.cluster is not None:
            self.cluster.start(workers, counters, self.weights, self.evaluations, self._memory())
            while not self.cluster.connected and not self._interrupt:
                self._watch_workers()
                time.sleep(REST)
            return
        for number in range(config.samplers):
            target, arguments = self._sampler(number)
            name = f"sampler {number}" if config.samplers > 1 else "sampler"
            workers.start(
                name,
                target,
                *arguments,
                progress=lambda n=number: int(counters.steps[n]),
                pulse=lambda n=number: int(counters.steps[n] + counters.rests[n]),
            )
        if config.evaluate_episodes:
            arguments = (config, self.run.path, self.weights, self.evaluations, counters)
            workers.start("evaluator", evaluator.work, *arguments, progress=lambda: int(counters.played[0]))

    def _learn(self, seconds: float) -> None:
        """Makes the updates that are due, for ``seconds``."""
        clock = time.perf_counter
        until, now = clock() + seconds, 0.0
        while now < until:
            if self._update():
                now = clock()
            else:
                began = clock()
                if self.finished():
                    return
                time.sleep(REST)
                now = clock()
                self._lost += now - began

    def _poll(self) -> None:
        """Checks workers, reads their counters, and writes a line of metrics if one is due."""
        config = self.config
        self.writing.check()
        self._watch_workers()
        self._read_counters()
        self._throughput.note(self.step, self.updates)
        late = self.seconds - self._logged_at >= LOG_SECONDS and self.step > self._logged
        if late or self.step - self._logged >= config.log_steps:
            self._log()

    def _watch_workers(self) -> None:
        """Restarts workers that have died, and adds a remark for each."""
        words, self.restarts = self.supervisor.check(), self.supervisor.restarts
        if self.cluster is not None:
            words += self.cluster.new_messages()
            self.restarts += self.cluster.restarts
        for each in words:
            self.remark(each, "restart" if each.endswith(RESTARTED) else "warning")

    def _read_counters(self) -> None:
        self.step = self.counters.total_steps()
        self.updates = self.counters.updates[0] = self.learner.updates
        ended = self.counters.new_episodes()
        if len(ended.returns):
            self.tracker.add(*map(torch.from_numpy, ended))
        vector, known = self._evaluated
        found = torch.zeros(len(evaluator.RESULTS) + len(known), dtype=torch.float64)
        if self.evaluations.read(vector, found) is not None:
            results, known[:] = found.split((len(evaluator.RESULTS), len(known)))
            self._note_evaluation(dict(zip(evaluator.RESULTS, results.tolist(), strict=True)))

    def _note_evaluation(self, found: dict[str, float]) -> None:
        self.evaluation = found
        if found["return"] > self.best_return:
            self.best_return = found["return"]
            self.save_best()

    def _evaluates_last(self) -> bool:
        return super()._evaluates_last() and not self.finished()  # then the evaluator has been asked to

    def _evaluation_is_due(self) -> bool:
        """Returns whether all steps are done, but the last weights have not been evaluated yet."""
        known = self.evaluation.get("version", 0) == self.weights.version
        return bool(self.config.evaluate_episodes) and self.finished() and not known

    # -- for reporting ---------------------------------------------------------------------------

    def split(self) -> dict[str, float]:
        """Returns the kind of work → seconds that all samplers together, and the learner, have spent on it."""
        parts = dict(zip(PARTS, self.counters.seconds.sum(0).tolist(), strict=True))
        return parts | {"learning": max(0.0, self._throughput.seconds - self._lost), "idle": self._lost}

    def speeds(self) -> dict[str, float | None]:
        """Returns recent rates per second: ``sampling`` (agent steps), ``updates``, and ``update_frames`` (samples)."""
        sampled, updated = self._throughput.per_second() or (None, None)
        frames = None if updated is None else updated * self.config.minibatch_size
        return {"sampling": sampled, "updates": updated, "update_frames": frames}

    def _log(self) -> None:
        losses = self.learner.statistics()
        if losses is not None:
            self.policy.losses = losses
        super()._log()

    def _counts(self) -> dict[str, int]:
        return {"updates": self.updates}

    def _details(self) -> dict[str, Any]:
        known = {"evaluation": self.evaluation, "staleness": self.learner.staleness(), "restarts": self.restarts}
        return known if self.cluster is None else known | {"cluster": self.cluster.numbers()}

    # -- checkpoints -----------------------------------------------------------------------------

    def save(self) -> None:
        """Writes a checkpoint, and waits until it is written; raises the errors of `Runner.save`."""
        self._save_meanwhile()
        self.writing.wait()

    def _save_meanwhile(self) -> None:
        """Copies the present state, and writes it as a checkpoint while training continues."""
        name, point = checkpoints.step_name(self.step), self.checkpoint().copied()
        for part, values in point.model.items():
            if values.is_floating_point() and not all_finite(values):
                raise NotFiniteError(f"after the updates {self._when()}, {part} is not finite")
        self.writing.start(name, lambda: self._write(name, point))

    def _when(self) -> str:
        return f"before agent step {self.step:,}"

    @torch.no_grad()
    def save_best(self) -> None:
        learning = self.policy_copy.vector.clone(), self.policy_copy.known()
        self.policy_copy.take(*self._evaluated)
        known = judged("evaluation", self.evaluation["return"], self.config.evaluate_episodes)
        counters = self._counters() | {"step": int(self.evaluation["step"]), JUDGED: known}
        point = Checkpoint(self.policy.model(), {}, {}, counters).copied()
        self.writing.start(checkpoints.BEST, lambda: self._save_point(checkpoints.BEST, point))
        self.policy_copy.take(*learning)

    def _state(self) -> dict[str, Tensor]:
        """Returns the state of this process; samplers begin new episodes when the run is resumed."""
        state: dict[str, Tensor] = {"generator": self.learner.generator.get_state()}
        return state | checkpoints.prefixed("episodes", self.tracker.state())

    def load(self, point: Checkpoint) -> int:
        metrics_bytes = super().load(point)
        self.best_return = max(self.best_return, best_evaluation(self.run) or self.best_return)
        self.counters.begin(self.step)
        self.learner.publish()
        return metrics_bytes

    def _load(self, point: Checkpoint) -> None:
        self.updates = self.learner.updates = point.counters["updates"]
        self.learner.generator.set_state(point.state["generator"])
        self.tracker.load(checkpoints.group("episodes", point.state))

    def close(self) -> None:
        self._end_workers()
        with suppress(HeadraceError, OSError):  # an error was raised before, or follows from another one
            self.writing.wait()
        super().close()
        for shared in (self.weights, self.evaluations, self.counters, *([self.cluster] if self.cluster else [])):
            shared.close()
