"""The base of all runs: the training loop, metrics and checkpoints.

`headrace.train.runners.synchronous` collects and learns in turn; in `headrace.train.runners.asynchronous`, workers
sample, learn and evaluate at the same time.
"""

from __future__ import annotations

import dataclasses
import math
import os
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, ClassVar

import torch
from torch import Tensor

from headrace.errors import EnvironmentFailure, StateError
from headrace.pool.registry import build_task
from headrace.pool.remarks import heard_by
from headrace.train.algorithms.policy import Policy
from headrace.train.config.settings import Config
from headrace.train.logging.dashboard import Dashboard
from headrace.train.logging.episode_tracker import EpisodeTracker
from headrace.train.logging.finite import check_statistics, naming_what_is_kept
from headrace.train.logging.hardware import HardwareUse
from headrace.train.logging.memory_use import in_use
from headrace.train.logging.metrics import MetricsWriter
from headrace.train.logging.progress import Progress
from headrace.train.play.agent import Agent
from headrace.train.play.judging import JUDGED, compare, judged
from headrace.train.processes.page import address_of
from headrace.train.runners.callbacks import Callbacks
from headrace.train.runners.result import Reason
from headrace.train.runs import checkpoint as checkpoints
from headrace.train.runs.checkpoint import Checkpoint
from headrace.train.runs.events import Kind, one_line, read_events
from headrace.train.runs.folder import RunFolder
from headrace.train.runs.live import LiveWeights

LOOK = 0.1  # seconds
REMARKS = 3  # number of remarks on the dashboard, the newest ones
LAST_EVALUATION = 60.0  # maximum time for the evaluation of the last weights, in seconds
INTERRUPTED = 20.0  # the same after Ctrl-C or TERM, which launchers let a kill follow
EVALUATED = 0.1  # maximum of that time, beside a second, as a part of the training's


class Runner(ABC):
    """The state of a run, and its loop.

    Attributes:
        policies: all policies of the run; the returns of the run are those of the first policy.
        writer: writes the metrics; None in a process that does not write them.
        step: number of agent steps so far, in all environments together.
        best_return: the highest mean return so far for which a checkpoint was kept.
        evaluation: the evaluator's last result; empty before the first result, or without an evaluator.
        remarks: warnings and other events, as lines for the dashboard.
        resumed: whether the run continues from a checkpoint.
    """

    SPEEDS: ClassVar[str]
    """the name of `speeds` in a line of metrics"""

    _saves_environments = True
    """whether checkpoints hold environments' states, so that a resumed run continues their episodes"""
    policies: Sequence[Policy]
    writer: MetricsWriter | None

    def __init__(self, config: Config, run: RunFolder, device: torch.device):
        self.config, self.run, self.device = config, run, device
        self.step = 0
        self._trained: float = 0.0  # seconds, up to the moment `_since`
        self._since: float | None = None
        self.best_return = float("-inf")
        self.evaluation: dict[str, float] = {}
        self.remarks: deque[str] = deque(maxlen=REMARKS)
        self.resumed = False
        self._live = LiveWeights(run.live_file, run.watched_file)
        self._address = address_of(run) if config.viewer else None
        self._hardware = HardwareUse(device, self._root)
        self._looked_at, self._seen_solved = float("-inf"), False
        self._logged, self._logged_at = 0, 0.0  # step and seconds of the last line of metrics
        self.callbacks = Callbacks((), self)

    # -- the loop --------------------------------------------------------------------------------

    def train(self, dashboard: Dashboard) -> Reason:
        if self.over():
            return self._note_end()
        self._since = saved = time.monotonic()
        self._note_beginning()
        with (
            naming_what_is_kept(self.run.checkpoints),
            self._running() as interrupt,
            dashboard,
            heard_by(self._on_remark),
        ):
            self.callbacks.start()
            stop = self.callbacks.stopped
            while not (stop or self._at_end()):
                self._iterate_unless(interrupt)
                self.callbacks.update()
                dashboard.update(self.progress)
                if self.writer is not None:
                    self._live.write_if_watched(self._actor_model, self.step)
                due = time.monotonic() - saved >= self.config.checkpoint_seconds
                stop, due = self._agree(bool(interrupt) or self.callbacks.stopped, due)
                if due:
                    self._save_meanwhile()
                    saved = time.monotonic()
            self._finish()
            dashboard.update(self.progress, force=True)
            self.save()
            self._trained, self._since = self.seconds, None
            self._judge(bool(interrupt))
        reason = self._note_end()
        self.callbacks.end(reason)
        return reason

    def _judge(self, interrupted: bool) -> None:
        """Evaluates the last weights, for a limited time, and keeps them as the best checkpoint if they are it."""
        if self.writer is None or not self.step:
            return
        folder, most = self.run.checkpoints, INTERRUPTED if interrupted else LAST_EVALUATION
        seconds = math.inf if self.config.deterministic else min(most, 1.0 + EVALUATED * self.seconds)
        best = checkpoints.load(folder / checkpoints.BEST) if (folder / checkpoints.BEST).is_dir() else None
        own, known = None, None if best is None else best.counters.get(JUDGED)
        if self._evaluates_last():
            try:
                own, known = compare(self.config, self.agent(), best, seconds)
            except Exception as error:  # of the environment: the run is saved
                self.remark(f"the last weights were not evaluated: {one_line(error)}")
        mean = self.tracker.mean_return()
        if own is None and mean is not None:
            own = judged("training", mean, self.tracker.counted)
        if own is not None and (best is None or known is None or own["return"] >= known["return"]):
            counters = self._counters() | {"best_return": own["return"], JUDGED: own}
            self._save_point(checkpoints.BEST, Checkpoint(self._model(), {}, {}, counters))
        elif best is not None and known != best.counters.get(JUDGED):
            self._save_point(checkpoints.BEST, dataclasses.replace(best, counters=best.counters | {JUDGED: known}))

    def _evaluates_last(self) -> bool:
        return self.config.evaluate_episodes > 0

    def _iterate_unless(self, interrupt: Any) -> None:
        """Iterates; an environment that fails while the run is told to end does not make the run fail."""
        try:
            self.iterate()
        except EnvironmentFailure as error:
            if not interrupt:
                raise
            self._saves_environments = False
            self.remark(f"an environment failed while the run was told to end: {one_line(error)}")

    def _note_end(self) -> Reason:
        """Returns the reason for the run's end, and logs it as an event unless it is the last event already."""
        reason, events = self._reason(), read_events(self.run.events.file)
        if not events or events[-1].kind != reason:
            self.note(reason, self._ended(reason))
        return reason

    def _note_beginning(self) -> None:
        config = self.config
        if self.resumed:
            self.note("resumed", f"from the checkpoint of step {self.step:,}")
        else:
            self.note("began", f"{config.algo} on {config.task}, {config.total_steps:,} steps")
        for policy in self.policies:
            if policy.caveat is not None:
                self.note("warning", policy.caveat)

    def _ended(self, reason: Reason) -> str:
        if reason == "solved":
            return f"mean return {self.tracker.mean_return():.1f} reached the goal of {self.config.stop_at_return:g}"
        if reason == "finished":
            return "all steps done"
        return "stopped by a callback" if self.callbacks.stopped else "stopped by Ctrl-C or TERM"

    @abstractmethod
    def _running(self) -> AbstractContextManager[Any]:
        """Returns the context of the loop, which saves a first checkpoint, and starts and ends the workers.

        The context's value becomes true once the run is told to end.
        """

    @abstractmethod
    def iterate(self) -> None:
        """Samples, learns, and writes a line of metrics if one is due."""

    def _agree(self, stop: bool, save: bool) -> tuple[bool, ...]:
        """Returns whether all processes of the run stop, and whether they save, given the same of this process."""
        return stop, save

    @abstractmethod
    def _finish(self) -> None:
        """Completes the run between the loop and the last checkpoint."""

    @abstractmethod
    def finished(self) -> bool:
        """Returns whether all steps, and all updates from them, are done."""

    def solved(self) -> bool:
        """Returns whether the mean return of the last episodes has reached ``stop_at_return``."""
        goal = self.config.stop_at_return
        if goal is None:
            return False
        mean = self.tracker.mean_return()
        return mean is not None and self.tracker.full and mean >= goal

    def over(self) -> bool:
        """Returns whether a resumed run had already ended, and written its last line of metrics."""
        return 0 < self.step == self._logged and self._at_end()

    def _at_end(self) -> bool:
        return self.finished() or self._looks_solved()

    def _looks_solved(self) -> bool:
        """As `solved`; of a run on a GPU, where the host waits for the mean return, at most `LOOK` seconds ago."""
        now = time.monotonic()
        if self.device.type == "cpu" or now - self._looked_at >= LOOK:
            self._looked_at, self._seen_solved = now, self.solved()
        return self._seen_solved

    def _reason(self) -> Reason:
        return "solved" if self.solved() else "finished" if self.finished() else "interrupted"

    def close(self) -> None:
        if self.writer is not None:
            self.writer.close()
            self._live.close()

    @property
    def _root(self) -> int:
        """The id of the process from which all processes of the run descend."""
        return os.getpid()

    # -- for reporting ---------------------------------------------------------------------------

    def note(self, kind: Kind, text: str) -> None:
        """Logs an event of the run with this text, if this process writes the metrics."""
        if self.writer is not None:
            self.run.events.note(kind, text, self.step, self.seconds)

    def remark(self, words: str, kind: Kind = "warning") -> None:
        self.remarks.append(words)
        self.note(kind, words)

    def _on_remark(self, words: str) -> None:
        """Shows a pool's remark, and logs it as an event, in whichever process of the run."""
        self.remarks.append(words)
        self.run.events.note("warning", words, self.step, self.seconds)

    @property
    def seconds(self) -> float:
        """The seconds spent on training so far, including those before a resumption."""
        return self._trained + (0.0 if self._since is None else time.monotonic() - self._since)

    @property
    def tracker(self) -> EpisodeTracker:
        return self.policies[0].tracker

    @abstractmethod
    def split(self) -> dict[str, float]:
        """Returns the kind of work → seconds that this process has spent on it since training began."""

    @abstractmethod
    def speeds(self) -> dict[str, float | None]:
        """Returns name → rate per second; None before the rate is known."""

    def progress(self) -> Progress:
        return Progress(
            config=self.config,
            folder=self.run.path,
            metrics_file=self.run.metrics_file,
            step=self.step,
            seconds=self.seconds,
            episodes=self.tracker.episodes,
            policies=tuple(policy.progress() for policy in self.policies),
            evaluation=self.evaluation,
            split=self.split(),
            speeds=self.speeds(),
            memory=in_use(self.device),
            hardware=self._hardware.read(),
            address=self._address,
            remarks=tuple(self.remarks),
        )

    def _log(self) -> None:
        """Writes a line of metrics; raises `NotFiniteError` if a loss or a mean return in it is not finite."""
        self._logged, self._logged_at = self.step, self.seconds
        self._check_reported()
        if self.writer is None:
            return
        tracker = self.tracker
        line = {
            "step": self.step,
            **self._counts(),
            "episodes": tracker.episodes,
            "return": tracker.mean_return(),
            "length": tracker.mean_length(),
            "loss": self.policies[0].reported(self.step),
            **self._details(),
            "time": self._time(),
        }
        self.callbacks.log(line)
        self.writer.write(line)

    @abstractmethod
    def _counts(self) -> dict[str, int]:
        """Returns further counts of the run beside agent steps, such as updates."""

    def _details(self) -> dict[str, Any]:
        return {}

    def _time(self) -> dict[str, Any]:
        """Returns the entries of a line of metrics that differ between equal runs: time, speeds, memory, cores."""
        speeds = {name: None if speed is None else round(speed) for name, speed in self.speeds().items()}
        split = {name: round(seconds, 3) for name, seconds in self.split().items()}
        clock = {"seconds": round(self.seconds, 3), "unix": round(time.time(), 3)}
        return {**clock, **split, self.SPEEDS: speeds, "memory": in_use(self.device), **self._hardware.read()}

    def _check_reported(self) -> None:
        """Raises `NotFiniteError` if a loss or a mean return is not finite."""
        for policy in self.policies:
            mean = policy.tracker.mean_return()
            self._check(policy, policy.last_losses() | ({} if mean is None else {"return": mean}))

    def _check(self, policy: Policy, statistics: Mapping[str, float]) -> None:
        """Raises `NotFiniteError` if one of a policy's statistics is not finite."""
        check_statistics(statistics, policy.name, self._when())

    @abstractmethod
    def _when(self) -> str:
        """Returns a text on the time of the last updates."""

    # -- checkpoints -----------------------------------------------------------------------------

    @abstractmethod
    def save(self) -> object:
        """Writes a checkpoint, and waits until it is written.

        Raises:
            NotFiniteError: a loss or a mean return is not finite.
            StorageError: the checkpoint cannot be written.
        """

    def _save_meanwhile(self) -> None:
        self.save()

    def _write(self, name: str, point: Checkpoint) -> None:
        folder = self.run.checkpoints
        self._save_point(name, point)
        checkpoints.prune(folder, self.config.keep_checkpoints)
        self.callbacks.note_checkpoint(folder / name)

    # -- for callbacks ---------------------------------------------------------------------------

    def set_rates(self, values: Mapping[str, float]) -> None:
        """Sets settings that may have a schedule to these values, from the next update on; see `Training.set`."""
        points = {name: [(0, float(value))] for name, value in values.items()}
        self.config = dataclasses.replace(self.config, schedules=self.config.schedules | points)
        for policy in self.policies:
            policy.reschedule(points)

    def agent(self) -> Agent:
        """Returns an agent with copies of the present policies; training is not affected."""
        spec = build_task(self.config.task, **self.config.env_options).spec
        with torch.random.fork_rng(devices=[]):
            return Agent(self.config, spec, Checkpoint(self._model(), {}, {}, {}))

    def _save_point(self, name: str, point: Checkpoint) -> None:
        """Writes a checkpoint of this name, and logs the event; may be called in any thread."""
        checkpoints.save(self.run.checkpoints, name, point)
        known = point.counters
        self.run.events.note("checkpoint", name, known["step"], known["seconds"])

    def checkpoint(self) -> Checkpoint:
        optimisers = {name: tensor for policy in self.policies for name, tensor in policy.optimisers().items()}
        return Checkpoint(self._model(), optimisers, self._state(), self._counters())

    @abstractmethod
    def _state(self) -> dict[str, Tensor]:
        """Returns the tensors, beside networks and optimisers, that continuing the run requires."""

    def _actor_model(self) -> dict[str, Tensor]:
        return self._model()

    def _model(self) -> dict[str, Tensor]:
        return {name: tensor for policy in self.policies for name, tensor in policy.model().items()}

    def _counters(self) -> dict[str, Any]:
        return {
            "step": self.step,
            **self._counts(),
            "logged": self._logged,
            "seconds": self.seconds,
            "best_return": self.best_return if self.best_return > float("-inf") else None,
            "metrics_bytes": 0 if self.writer is None else self.writer.offset(),
        }

    def load(self, point: Checkpoint) -> int:
        """Continues from a checkpoint.

        Returns:
            The size of the metrics file in bytes when the checkpoint was written.

        Raises:
            StateError: the checkpoint does not fit the run's settings.
        """
        counters = point.counters
        try:
            self.step, self._logged, self._trained = (counters[name] for name in ("step", "logged", "seconds"))
            self._logged_at = self._trained
            if counters["best_return"] is not None:
                self.best_return = counters["best_return"]
            for policy in self.policies:
                policy.load_model(point.model)
                policy.load_optimisers(point.optimizer)
            self._load(point)
            self.resumed = True
            return counters["metrics_bytes"]
        except (KeyError, RuntimeError) as error:
            raise StateError(f"the checkpoint does not fit this configuration: {error}") from error

    @abstractmethod
    def _load(self, point: Checkpoint) -> None:
        """Restores the results of `_state` and `_counts` from a checkpoint."""
