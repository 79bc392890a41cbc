"""What every run does, however it samples and learns: its loop, its reports, and what its checkpoints have in common.

`headrace.train.runners.synchronous` collects and learns in turn; in `headrace.train.runners.asynchronous` workers
sample, learn and evaluate at the same time.
"""

from __future__ import annotations

import dataclasses
import os
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, ClassVar

import torch
from torch import Tensor

from headrace.errors import StateError
from headrace.pool.registry import build_task
from headrace.train.algorithms.policy import Policy
from headrace.train.config.settings import Config
from headrace.train.logging.dashboard import Dashboard
from headrace.train.logging.episode_tracker import EpisodeTracker
from headrace.train.logging.finite import check_statistics, naming_what_is_kept
from headrace.train.logging.hardware import HardwareUse
from headrace.train.logging.memory import in_use
from headrace.train.logging.metrics import MetricsWriter
from headrace.train.logging.progress import Progress
from headrace.train.play.agent import Agent
from headrace.train.processes.page import address_of
from headrace.train.runners.callbacks import Callbacks
from headrace.train.runners.result import Reason
from headrace.train.runs import checkpoint as checkpoints
from headrace.train.runs.checkpoint import Checkpoint
from headrace.train.runs.events import Kind, read_events
from headrace.train.runs.folder import RunFolder
from headrace.train.runs.live import LiveWeights

REMARKS = 3  # newest lines about what happened by the way that are shown


class Runner(ABC):
    """The state of a run.

    Args:
        config: its settings.
        run: its folder.
        device: where it learns.

    Attributes:
        policies: all that act in it; the first one's episodes are the run's.
        writer: where its metrics go; None in a process that does not write them.
        step: agent steps so far, all environments together.
        best_return: the highest mean return so far that a checkpoint was kept for.
        evaluation: the evaluator's last result; empty before it, or without an evaluator.
        remarks: lines about what happened by the way.
        resumed: whether it goes on from a checkpoint.
    """

    SPEEDS: ClassVar[str]
    """what `speeds` is called in a line of metrics"""

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
        self._logged, self._logged_at = 0, 0.0  # step and seconds of the last line of metrics
        self.callbacks = Callbacks((), self)

    # -- the loop --------------------------------------------------------------------------------

    def train(self, dashboard: Dashboard) -> Reason:
        """Runs to the end, and returns why it ended."""
        if self.over():
            return self._note_end()
        self._since = saved = time.monotonic()
        self._note_beginning()
        with naming_what_is_kept(self.run.checkpoints), self._running() as interrupt, dashboard:
            self.callbacks.start()
            stop = self.callbacks.stopped
            while not (stop or self._at_end()):
                self.iterate()
                self.callbacks.update()
                dashboard.update(self.progress)
                if self.writer is not None:
                    self._live.write_if_watched(self._acting_model, self.step)
                due = time.monotonic() - saved >= self.config.checkpoint_seconds
                stop, due = self._agree(bool(interrupt) or self.callbacks.stopped, due)
                if due:
                    self._save_meanwhile()
                    saved = time.monotonic()
            self._finish()
            dashboard.update(self.progress, force=True)
            self.save()
        self._trained, self._since = self.seconds, None
        reason = self._note_end()
        self.callbacks.end(reason)
        return reason

    def _note_end(self) -> Reason:
        """Returns why the run ended, which is noted unless it is known, as of one that is resumed behind its end."""
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
        """Why the run ended, in words."""
        if reason == "solved":
            return f"mean return {self.tracker.mean_return():.1f} reached the goal of {self.config.stop_at_return:g}"
        if reason == "finished":
            return "all steps done"
        return "stopped by a callback" if self.callbacks.stopped else "stopped by Ctrl-C or TERM"

    @abstractmethod
    def _running(self) -> AbstractContextManager[Any]:
        """The context of the loop: saves a first checkpoint, and starts and ends what runs beside.

        Its value is true once the run is asked to end.
        """

    @abstractmethod
    def iterate(self) -> None:
        """One turn of the loop: samples, learns, and writes a line of metrics if one is due."""

    def _agree(self, stop: bool, save: bool) -> tuple[bool, ...]:
        """Whether the run is to end and whether it is to save, where these are the wishes of this process."""
        return stop, save

    @abstractmethod
    def _finish(self) -> None:
        """What comes between the loop and the last checkpoint."""

    @abstractmethod
    def finished(self) -> bool:
        """Whether all steps are done, and all that was to be learnt from them."""

    def solved(self) -> bool:
        """Whether the last episodes reached ``stop_at_return``."""
        goal, mean = self.config.stop_at_return, self.tracker.mean_return()
        return goal is not None and mean is not None and self.tracker.full and mean >= goal

    def over(self) -> bool:
        """Whether a run that is resumed was at its end, and all that is told of its end is told."""
        return 0 < self.step == self._logged and self._at_end()

    def _at_end(self) -> bool:
        return self.finished() or self.solved()

    def _reason(self) -> Reason:
        return "solved" if self.solved() else "finished" if self.finished() else "interrupted"

    def close(self) -> None:
        """Ends all workers, and frees what the run holds."""
        if self.writer is not None:
            self.writer.close()
            self._live.close()

    @property
    def _root(self) -> int:
        """The process that all processes of the run descend from."""
        return os.getpid()

    # -- for reporting ---------------------------------------------------------------------------

    def note(self, kind: Kind, text: str) -> None:
        """Note an event of the run; of several processes only the one that writes the metrics does."""
        if self.writer is not None:
            self.run.events.note(kind, text, self.step, self.seconds)

    def remark(self, words: str, kind: Kind = "warning") -> None:
        """Show a line about what happened by the way, and note it."""
        self.remarks.append(words)
        self.note(kind, words)

    @property
    def seconds(self) -> float:
        """Time spent training so far, resumed parts included."""
        return self._trained + (0.0 if self._since is None else time.monotonic() - self._since)

    @property
    def tracker(self) -> EpisodeTracker:
        """Episodes as the first policy's agents fared in them."""
        return self.policies[0].tracker

    @abstractmethod
    def split(self) -> dict[str, float]:
        """Seconds since this process began to train, by what they were spent on."""

    @abstractmethod
    def speeds(self) -> dict[str, float | None]:
        """Rates a second by name; None before they are known."""

    def progress(self) -> Progress:
        """How the run stands now."""
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
        """Writes a line of metrics; raises `NotFiniteError` where something in it is not finite."""
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
        """What is counted beside agent steps."""

    def _details(self) -> dict[str, Any]:
        """What else a line of metrics says."""
        return {}

    def _time(self) -> dict[str, Any]:
        """What differs from run to run: seconds, the clock, speeds, memory, cores."""
        speeds = {name: None if speed is None else round(speed) for name, speed in self.speeds().items()}
        split = {name: round(seconds, 3) for name, seconds in self.split().items()}
        clock = {"seconds": round(self.seconds, 3), "unix": round(time.time(), 3)}
        return {**clock, **split, self.SPEEDS: speeds, "memory": in_use(self.device), **self._hardware.read()}

    def _check_reported(self) -> None:
        """Raises `NotFiniteError` where anything that is reported, and will be anyway, is not finite."""
        for policy in self.policies:
            mean = policy.tracker.mean_return()
            self._check(policy, policy.last_losses() | ({} if mean is None else {"return": mean}))

    def _check(self, policy: Policy, statistics: Mapping[str, float]) -> None:
        """Raises `NotFiniteError` where one of a policy's statistics is not finite."""
        check_statistics(statistics, policy.name, self._when())

    @abstractmethod
    def _when(self) -> str:
        """In words, when the last updates were made."""

    # -- checkpoints -----------------------------------------------------------------------------

    @abstractmethod
    def save(self) -> object:
        """Writes a checkpoint, and waits until it is there.

        Raises:
            NotFiniteError: what was learnt last is not worth keeping.
            StorageError: it cannot be written.
        """

    def _save_meanwhile(self) -> None:
        """Writes a checkpoint in the middle of the run."""
        self.save()

    def _write(self, name: str, point: Checkpoint) -> None:
        folder = self.run.checkpoints
        self._save_point(name, point)
        checkpoints.prune(folder, self.config.keep_checkpoints)
        self.callbacks.note_checkpoint(folder / name)

    # -- for callbacks ---------------------------------------------------------------------------

    def set_rates(self, values: Mapping[str, float]) -> None:
        """Set settings that may have a schedule to these values, from the next update on; see `Training.set`."""
        points = {name: [(0, float(value))] for name, value in values.items()}
        self.config = dataclasses.replace(self.config, schedules=self.config.schedules | points)
        for policy in self.policies:
            policy.reschedule(points)

    def agent(self) -> Agent:
        """The policies as they are now, in an agent of their own; training does not notice."""
        spec = build_task(self.config.task, **self.config.env_options).spec
        with torch.random.fork_rng(devices=[]):
            return Agent(self.config, spec, Checkpoint(self._model(), {}, {}, {}))

    def _save_point(self, name: str, point: Checkpoint) -> None:
        """Writes a checkpoint of this name, and notes it; may be called in any thread."""
        checkpoints.save(self.run.checkpoints, name, point)
        known = point.counters
        self.run.events.note("checkpoint", name, known["step"], known["seconds"])

    def checkpoint(self) -> Checkpoint:
        """Everything that decides the rest of the run, as far as this process knows it."""
        optimisers = {name: tensor for policy in self.policies for name, tensor in policy.optimisers().items()}
        return Checkpoint(self._model(), optimisers, self._state(), self._counters())

    @abstractmethod
    def _state(self) -> dict[str, Tensor]:
        """What else than networks and optimisers decides how the run goes on."""

    def _acting_model(self) -> dict[str, Tensor]:
        """As `_model`, of the newest policies, for whoever watches."""
        return self._model()

    def _model(self) -> dict[str, Tensor]:
        """All that is needed to play."""
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
        """Continues from a checkpoint; returns how many bytes of the metrics belong to it.

        Raises:
            StateError: it does not fit the run's settings.
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
        """Restores what `_state` and `_counts` returned."""
