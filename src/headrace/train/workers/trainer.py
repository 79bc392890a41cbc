"""A run whose samplers, learner and evaluator work at the same time.

The process that was asked to train is the learner. Between updates it looks around, a few times a second: at the
workers, the episodes that ended, what the evaluator found, and whether a line of metrics or a checkpoint is due.
What samplers write and the learner reads is a subclass's: `headrace.train.workers.off_policy`,
`headrace.train.workers.on_policy`.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, Protocol

import torch
from torch import Tensor

from headrace.errors import StateError
from headrace.pool.registry import build_task
from headrace.train import checkpoint as checkpoints
from headrace.train.checkpoint import Checkpoint
from headrace.train.config import Config
from headrace.train.dashboard import Dashboard
from headrace.train.episodes import EpisodeTracker
from headrace.train.experience import InputEncoder
from headrace.train.interrupt import Interrupt
from headrace.train.memory import in_use
from headrace.train.metrics import MetricsWriter
from headrace.train.policy import Policy
from headrace.train.run import RunFolder
from headrace.train.setup import dealt_seats, find_device, make_policy, prepare
from headrace.train.workers import evaluator, viewer
from headrace.train.workers.acting import Acting
from headrace.train.workers.address import address
from headrace.train.workers.board import PARTS, Board
from headrace.train.workers.pace import REST
from headrace.train.workers.supervisor import Supervisor

LOOK = 0.1  # seconds between looks around
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
    """The state of a run with workers; for the rest as `headrace.train.trainer.Trainer`.

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
        self.device = find_device(config.critic_device or config.device)
        self.spec = build_task(config.task, **config.env_options).spec
        (seat,) = dealt_seats(config, self.spec).values()
        prepare(config, [seat])
        self.policy: Policy = make_policy("", config, seat, self.device)
        self.policies, policy = [self.policy], self.policy
        self.encoder = InputEncoder(config, seat.observation, self.device)
        self.acting = Acting(policy, self.encoder)
        self.tracker = policy.tracker = EpisodeTracker(1, config.stop_episodes)
        self.weights = self.acting.buffer(self._extras())
        self.evaluations = self.acting.buffer(len(evaluator.RESULTS))
        self._evaluated = torch.zeros_like(policy.acting, device="cpu"), self.acting.known()
        self.board = Board(config.samplers)
        self.seconds, self.restarts = 0.0, 0
        self.best_return, self.evaluation = float("-inf"), dict[str, float]()
        self.remarks: deque[str] = deque(maxlen=REMARKS)
        self._logged, self._lost = 0, 0.0
        self.step = self.updates = 0
        self.learner = self._make_learner()
        self._rates = _Rates()
        offset = self.load(resume) if resume is not None else 0
        self.writer = MetricsWriter(
            run.metrics_file, offset, run.tensorboard if config.tensorboard else None, self.step
        )
        self.supervisor = Supervisor(self.board.stop)
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
        config, began, before = self.config, time.monotonic(), self.seconds
        saved = now = began
        with self._interrupt as interrupt, dashboard, self.supervisor:
            self._start()
            self._rates.start(self.step, self.updates)
            while not (self.finished() or self.solved() or interrupt):
                self._learn(LOOK)
                now = time.monotonic()
                self.seconds = before + now - began
                self._look()
                dashboard.update(self)
                if now - saved >= config.checkpoint_seconds:
                    self.save()
                    saved = now
            self.learner.publish()
            while self._evaluation_is_due() and not interrupt and time.monotonic() - now < LAST_EVALUATION:
                time.sleep(REST)
                self._look()
            self.supervisor.close()
            self._look_at_board()
            self._log()
            dashboard.update(self, force=True)
            self.save()
        return "solved" if self.solved() else "finished" if self.finished() else "interrupted"

    def _start(self) -> None:
        config, board, workers = self.config, self.board, self.supervisor
        for number in range(config.samplers):
            target, arguments = self._sampler(number)
            name = f"sampler {number}" if config.samplers > 1 else "sampler"
            workers.start(name, target, *arguments, progress=lambda n=number: int(board.steps[n]))
        if config.evaluate_episodes:
            arguments = (config, self.weights, self.evaluations, board)
            workers.start("evaluator", evaluator.work, *arguments, progress=lambda: int(board.played[0]))
        if config.viewer and viewer.has_pictures(config):
            arguments = (config, self.run.path, self.weights, board)
            workers.start("viewer", viewer.work, *arguments, progress=lambda: int(board.viewers[0]))

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
        for words in self.supervisor.check():
            self.remarks.append(words)
        self.restarts = self.supervisor.restarts
        self._look_at_board()
        self._rates.note(self.step, self.updates)
        if self.step - self._logged >= config.log_steps:
            self._log()

    def _look_at_board(self) -> None:
        self.step = self.board.total_steps()
        self.updates = self.board.updates[0] = self.learner.updates
        ended = self.board.new_episodes()
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
        port = int(self.board.port[0])
        return address(port) if port else None

    def split(self) -> dict[str, float]:
        """Seconds of all samplers by what they did, and of the learner."""
        parts = dict(zip(PARTS, self.board.seconds.sum(0).tolist(), strict=True))
        return parts | {"learning": max(0.0, self._rates.seconds - self._lost), "idle": self._lost}

    def speeds(self) -> dict[str, float | None]:
        """A second, of late: agent steps sampled, updates, and update frames, samples that updates learnt from."""
        sampled, updated = self._rates.of_late()
        frames = None if updated is None else updated * self.config.minibatch_size
        return {"sampling": sampled, "updates": updated, "update_frames": frames}

    def _log(self) -> None:
        self._logged = self.step
        losses = self.learner.statistics()
        if losses is not None:
            self.policy.losses = losses
        line = {
            "step": self.step,
            "updates": self.updates,
            "episodes": self.tracker.episodes,
            "return": self.tracker.mean_return(),
            "length": self.tracker.mean_length(),
            "loss": self.policy.last_losses(),
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

    def save(self) -> Path:
        """Write a checkpoint."""
        folder = self.run.checkpoints
        path = checkpoints.save(folder, checkpoints.step_name(self.step), self.checkpoint())
        checkpoints.prune(folder, self.config.keep_checkpoints)
        return path

    @torch.no_grad()
    def save_best(self) -> None:
        """Keep the weights that were evaluated last as the best."""
        learning = self.acting.vector.clone(), self.acting.known()
        self.acting.take(*self._evaluated)
        counters = self._counters() | {"step": int(self.evaluation["step"])}
        point = Checkpoint(self.acting.model(), {}, {}, counters)
        checkpoints.save(self.run.checkpoints, checkpoints.BEST, point)
        self.acting.take(*learning)

    def checkpoint(self) -> Checkpoint:
        """Everything that this process knows of how the run goes on; samplers begin new episodes."""
        state: dict[str, Tensor] = {"generator": self.learner.generator.get_state()}
        state |= checkpoints.prefixed("episodes", self.tracker.state())
        return Checkpoint(self.acting.model(), self.policy.optimisers(), state, self._counters())

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
            self.acting.load_model(point.model)
            self.policy.load_optimisers(point.optimizer)
            self.learner.generator.set_state(point.state["generator"])
            self.tracker.load(checkpoints.group("episodes", point.state))
            self.updates = self.learner.updates = point.counters["updates"]
        except (KeyError, RuntimeError) as error:
            raise StateError(f"the checkpoint does not fit this configuration: {error}") from error
        self.step, self._logged, self.seconds = (point.counters[name] for name in ("step", "logged", "seconds"))
        self.board.steps[0] = self.step
        if point.counters["best_return"] is not None:
            self.best_return = point.counters["best_return"]
        self.learner.publish()
        return point.counters["metrics_bytes"]

    def close(self) -> None:
        """End all workers, and free what they shared."""
        self.supervisor.close()
        self.writer.close()
        for shared in (self.weights, self.evaluations, self.board):
            shared.close()


class _Rates:
    """Steps and updates a second, over the last seconds."""

    WINDOW = 5.0

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int, int]] = deque()
        self.seconds = 0.0

    def start(self, step: int, updates: int) -> None:
        self._began = time.perf_counter()
        self.note(step, updates)

    def note(self, step: int, updates: int) -> None:
        now = time.perf_counter()
        self.seconds = now - self._began
        self._seen.append((now, step, updates))
        while len(self._seen) > 2 and now - self._seen[1][0] > self.WINDOW:
            self._seen.popleft()

    def of_late(self) -> tuple[float | None, float | None]:
        if len(self._seen) < 2:
            return None, None
        (then, step, updates), (now, step_now, updates_now) = self._seen[0], self._seen[-1]
        return (step_now - step) / (now - then), (updates_now - updates) / (now - then)
