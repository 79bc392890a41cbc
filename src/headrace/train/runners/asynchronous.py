"""A run whose samplers, learner and evaluator work at the same time.

The process that was asked to train is the learner. Between updates it looks around, a few times a second: at the
workers, the episodes that ended, what the evaluator found, and whether a line of metrics or a checkpoint is due.
What samplers write and the learner reads is a subclass's: `headrace.train.runners.off_policy`,
`headrace.train.runners.on_policy`.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Literal, Protocol

import torch
from torch import Tensor

from headrace.errors import HeadraceError, NotFiniteError, StateError
from headrace.pool.registry import build_task
from headrace.train.algorithms.policy import Policy
from headrace.train.collect.setup import agent_groups, find_device, make_policy, prepare
from headrace.train.config.settings import Config
from headrace.train.logging.dashboard import Dashboard
from headrace.train.logging.episode_tracker import EpisodeTracker
from headrace.train.logging.finite import all_finite, check_statistics, naming_what_is_kept
from headrace.train.logging.memory import in_use
from headrace.train.logging.metrics import MetricsWriter
from headrace.train.logging.progress import Progress
from headrace.train.logging.rates import Rates
from headrace.train.play.loading import begin_with_network
from headrace.train.processes.background import Writing
from headrace.train.processes.counters import PARTS, Counters
from headrace.train.processes.interrupt import Interrupt
from headrace.train.processes.supervisor import Supervisor
from headrace.train.runs import checkpoint as checkpoints
from headrace.train.runs.checkpoint import Checkpoint
from headrace.train.runs.folder import RunFolder
from headrace.train.viewer import server as viewer
from headrace.train.viewer.address import address
from headrace.train.workers import evaluator
from headrace.train.workers.policy_copy import PolicyCopy
from headrace.train.workers.rate_limiter import REST

LOOK = 0.1  # seconds between looks around
LOG_SECONDS = 2.0  # between lines of metrics, at most
LAST_EVALUATION = 60.0  # seconds that the weights at the end may take to be evaluated
REMARKS = 3  # lines about workers that are shown


class Learner(Protocol):
    """What a trainer asks of whatever learns.

    Attributes:
        updates: gradient steps so far, those before a resumption included.
        generator: of all that learning leaves to chance.
    """

    updates: int
    generator: torch.Generator

    def publish(self) -> None:
        """Give samplers the weights as they are."""
        ...

    def statistics(self) -> Tensor | None:
        """Means over the updates since the last call, as the policy's `statistics`; None if there were none."""
        ...

    def staleness(self) -> dict[str, float]:
        """How old what was learnt from last was."""
        ...


class AsyncTrainer(ABC):
    """The state of a run with workers; for the rest as `headrace.train.runners.synchronous.Trainer`.

    Args:
        config: its settings; ``samplers`` is at least 1.
        run: its folder.
        resume: where to go on.

    Attributes:
        step: agent steps so far, of all samplers.
        updates: of the learner so far.
        seconds: time spent training so far, resumed parts included.
        restarts: workers that died and were started again.

    Raises:
        OptionError: the task or the settings are nothing for workers.
    """

    def __init__(self, config: Config, run: RunFolder, resume: Checkpoint | None = None):
        self.config, self.run = config, run
        self.device = find_device(config.learns_on)
        self.spec = build_task(config.task, **config.env_options).spec
        (agent_group,) = agent_groups(config, self.spec).values()
        prepare(config, [agent_group])
        self.policy: Policy = make_policy("", config, agent_group, self.device)
        self.policies, policy = [self.policy], self.policy
        self.acting = PolicyCopy(policy)
        self.tracker = policy.tracker = EpisodeTracker(1, config.stop_episodes)
        self.weights = self.acting.buffer(self._extras())
        self.evaluations = self.acting.buffer(len(evaluator.RESULTS))
        self._evaluated = torch.zeros_like(policy.acting, device="cpu"), self.acting.known()
        self.counters = Counters(config.samplers)
        self.seconds, self.restarts = 0.0, 0
        self.best_return, self.evaluation = float("-inf"), dict[str, float]()
        self.remarks: deque[str] = deque(maxlen=REMARKS)
        self._logged, self._logged_at, self._lost = 0, 0.0, 0.0
        self.step = self.updates = 0
        self.learner = self._make_learner()
        self._rates = Rates()
        if resume is None:
            begin_with_network(policy)
            self.learner.publish()
        offset = self.load(resume) if resume is not None else 0
        self.writer = MetricsWriter(
            run.metrics_file, offset, run.tensorboard if config.tensorboard else None, self.step
        )
        self.supervisor, self.writing = Supervisor(self.counters.stop), Writing()
        self._interrupt = Interrupt()

    def _extras(self) -> int:
        """How many numbers go with the weights."""
        return 0

    @abstractmethod
    def _make_learner(self) -> Learner:
        """The learner, and the memory that it shares with samplers."""

    @abstractmethod
    def _sampler(self, number: int) -> tuple[Callable[..., None], tuple[Any, ...]]:
        """What a sampler's process calls, and with which arguments before its life's number."""

    @abstractmethod
    def _update(self) -> bool:
        """Learn once, if that is due; answers whether it was."""

    @abstractmethod
    def finished(self) -> bool:
        """Whether all steps are done, and all that was to be learnt from them."""

    def train(self, dashboard: Dashboard) -> Literal["solved", "finished", "interrupted"]:
        """Run to the end; returns why it ended: ``"solved"``, ``"finished"`` or ``"interrupted"``."""
        if self.over():
            return self._reason()
        config, began, before = self.config, time.monotonic(), self.seconds
        saved = now = began
        with naming_what_is_kept(self.run.checkpoints), self._kept(), self._interrupt as interrupt, dashboard:
            if not checkpoints.newest(self.run.checkpoints):
                self._begin_to_save()  # whatever happens, there is a good state to go back to
            self._start()
            self._rates.start(self.step, self.updates)
            while not (self.finished() or self.solved() or interrupt):
                self._learn(LOOK)
                now = time.monotonic()
                self.seconds = before + now - began
                self._look()
                dashboard.update(self.progress)
                if now - saved >= config.checkpoint_seconds and not self.writing.busy:
                    self._begin_to_save()
                    saved = now
            self.learner.publish()
            while self._evaluation_is_due() and not interrupt and time.monotonic() - now < LAST_EVALUATION:
                time.sleep(REST)
                self._look()
            self.supervisor.close()
            self._look_at_board()
            self._log()
            dashboard.update(self.progress, force=True)
            self.save()
            if self.solved():
                self._save_solved()
        return self._reason()

    def over(self) -> bool:
        """Whether a run that is resumed was at its end, and all that is told of its end is told."""
        return 0 < self.step == self._logged and (self.finished() or self.solved())

    def _reason(self) -> Literal["solved", "finished", "interrupted"]:
        return "solved" if self.solved() else "finished" if self.finished() else "interrupted"

    @contextmanager
    def _kept(self) -> Iterator[None]:
        """Workers end with what happens here, and what was learnt is kept, also where a worker ends the run."""
        try:
            with self.supervisor:
                yield
        except HeadraceError as error:
            cause: HeadraceError = error
            try:
                self._look_at_board()
                self._begin_to_save()
            except NotFiniteError as found:  # whoever acts with such weights fails, too
                cause = error if isinstance(error, NotFiniteError) else found
            with suppress(HeadraceError, OSError):  # what went wrong first is what counts
                self.writing.wait()
            if cause is not error:
                raise cause from error
            raise

    def _start(self) -> None:
        config, counters, workers = self.config, self.counters, self.supervisor
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
            arguments = (config, self.weights, self.evaluations, counters)
            workers.start("evaluator", evaluator.work, *arguments, progress=lambda: int(counters.played[0]))
        if config.viewer and viewer.has_pictures(config):
            arguments = (config, self.run.path, self.weights, counters)
            workers.start("viewer", viewer.work, *arguments, progress=lambda: int(counters.viewers[0]))

    def _learn(self, seconds: float) -> None:
        """Updates, as many as are due, for so long."""
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

    def _look(self) -> None:
        """What has happened meanwhile."""
        config = self.config
        self.writing.check()
        for words in self.supervisor.check():
            self.remarks.append(words)
        self.restarts = self.supervisor.restarts
        self._look_at_board()
        self._rates.note(self.step, self.updates)
        late = self.seconds - self._logged_at >= LOG_SECONDS and self.step > self._logged
        if late or self.step - self._logged >= config.log_steps:
            self._log()

    def _look_at_board(self) -> None:
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

    def _evaluation_is_due(self) -> bool:
        """Whether the weights with which all steps were done are still to be evaluated."""
        known = self.evaluation.get("version", 0) == self.weights.version
        return bool(self.config.evaluate_episodes) and self.finished() and not known

    def solved(self) -> bool:
        """Whether the last episodes reached ``stop_at_return``."""
        goal, mean = self.config.stop_at_return, self.tracker.mean_return()
        return goal is not None and mean is not None and self.tracker.full and mean >= goal

    # -- for reporting ---------------------------------------------------------------------------

    @property
    def address(self) -> str | None:
        """Where the run can be watched."""
        port = int(self.counters.port[0])
        return address(port) if port else None

    def split(self) -> dict[str, float]:
        """Seconds of all samplers by what they did, and of the learner."""
        parts = dict(zip(PARTS, self.counters.seconds.sum(0).tolist(), strict=True))
        return parts | {"learning": max(0.0, self._rates.seconds - self._lost), "idle": self._lost}

    def speeds(self) -> dict[str, float | None]:
        """A second, of late: agent steps sampled, updates, and update frames, samples that updates learnt from."""
        sampled, updated = self._rates.of_late()
        frames = None if updated is None else updated * self.config.minibatch_size
        return {"sampling": sampled, "updates": updated, "update_frames": frames}

    def progress(self) -> Progress:
        """How the run stands now."""
        return Progress(
            config=self.config,
            folder=self.run.path,
            metrics_file=self.run.metrics_file,
            step=self.step,
            seconds=self.seconds,
            episodes=self.tracker.episodes,
            policies=(self.policy.progress(),),
            evaluation=self.evaluation,
            split=self.split(),
            speeds=self.speeds(),
            memory=in_use(self.device),
            address=self.address,
            remarks=tuple(self.remarks),
        )

    def _log(self) -> None:
        self._logged, self._logged_at = self.step, self.seconds
        losses = self.learner.statistics()
        if losses is not None:
            self.policy.losses = losses
        losses, mean = self.policy.last_losses(), self.tracker.mean_return()
        check_statistics(losses | ({} if mean is None else {"return": mean}), "", self._when())
        line = {
            "step": self.step,
            "updates": self.updates,
            "episodes": self.tracker.episodes,
            "return": mean,
            "length": self.tracker.mean_length(),
            "loss": losses,
            "evaluation": self.evaluation,
            "staleness": self.learner.staleness(),
            "restarts": self.restarts,
            "time": self._time(),
        }
        self.writer.write(line)

    def _time(self) -> dict[str, Any]:
        speeds = {name: None if speed is None else round(speed) for name, speed in self.speeds().items()}
        split = {name: round(seconds, 3) for name, seconds in self.split().items()}
        return {"seconds": round(self.seconds, 3), **split, "per_second": speeds, "memory": in_use(self.device)}

    # -- checkpoints -----------------------------------------------------------------------------

    def save(self) -> None:
        """Write a checkpoint, and wait until it is there.

        Raises:
            NotFiniteError: what was learnt last is not worth keeping.
        """
        self._begin_to_save()
        self.writing.wait()

    def _begin_to_save(self) -> None:
        """Write a checkpoint of what is now, while training goes on."""
        name, point = checkpoints.step_name(self.step), _copied(self.checkpoint())
        for part, values in point.model.items():
            if values.is_floating_point() and not all_finite(values):
                raise NotFiniteError(f"after the updates {self._when()}, {part} is not finite")

        self.writing.start(name, lambda: self._write(name, point))

    def _write(self, name: str, point: Checkpoint) -> None:
        """Write a checkpoint; in a thread of its own."""
        folder = self.run.checkpoints
        checkpoints.save(folder, name, point)
        checkpoints.prune(folder, self.config.keep_checkpoints)

    def _when(self) -> str:
        return f"before agent step {self.step:,}"

    @torch.no_grad()
    def save_best(self) -> None:
        """Keep the weights that were evaluated last as the best."""
        learning = self.acting.vector.clone(), self.acting.known()
        self.acting.take(*self._evaluated)
        counters = self._counters() | {"step": int(self.evaluation["step"])}
        point = _copied(Checkpoint(self.policy.model(), {}, {}, counters))
        folder = self.run.checkpoints
        self.writing.start(checkpoints.BEST, lambda: checkpoints.save(folder, checkpoints.BEST, point))
        self.acting.take(*learning)

    def _save_solved(self) -> None:
        """Keep the weights that solved the task as the best, unless some that were evaluated before were better."""
        mean = self.tracker.mean_return()
        if mean is not None and mean > self.best_return:
            self.best_return = mean
            checkpoints.save(
                self.run.checkpoints, checkpoints.BEST, Checkpoint(self.policy.model(), {}, {}, self._counters())
            )

    def checkpoint(self) -> Checkpoint:
        """Everything that this process knows of how the run goes on; samplers begin new episodes."""
        state: dict[str, Tensor] = {"generator": self.learner.generator.get_state()}
        state |= checkpoints.prefixed("episodes", self.tracker.state())
        return Checkpoint(self.policy.model(), self.policy.optimisers(), state, self._counters())

    def _counters(self) -> dict[str, Any]:
        return {
            "step": self.step,
            "updates": self.updates,
            "logged": self._logged,
            "seconds": self.seconds,
            "best_return": self.best_return if self.best_return > float("-inf") else None,
            "metrics_bytes": self.writer.offset(),
        }

    def load(self, point: Checkpoint) -> int:
        """Continue from a checkpoint; returns how many bytes of the metrics belong to it."""
        try:
            self.policy.load_model(point.model)
            self.policy.load_optimisers(point.optimizer)
            self.learner.generator.set_state(point.state["generator"])
            self.tracker.load(checkpoints.group("episodes", point.state))
            self.updates = self.learner.updates = point.counters["updates"]
        except (KeyError, RuntimeError) as error:
            raise StateError(f"the checkpoint does not fit this configuration: {error}") from error
        self.step, self._logged, self.seconds = (point.counters[name] for name in ("step", "logged", "seconds"))
        self._logged_at = self.seconds
        self.counters.begin(self.step)
        if point.counters["best_return"] is not None:
            self.best_return = point.counters["best_return"]
        self.learner.publish()
        return point.counters["metrics_bytes"]

    def close(self) -> None:
        """End all workers, and free what they shared."""
        self.supervisor.close()
        with suppress(HeadraceError, OSError):  # it was raised, or is of no interest beside what was
            self.writing.wait()
        self.writer.close()
        for shared in (self.weights, self.evaluations, self.counters):
            shared.close()


def _copied(point: Checkpoint) -> Checkpoint:
    """The same on the CPU, in memory of its own."""
    model, optimizer, state = (
        {name: tensor.detach().to("cpu", copy=True) for name, tensor in group.items()}
        for group in (point.model, point.optimizer, point.state)
    )
    return Checkpoint(model, optimizer, state, point.counters)
