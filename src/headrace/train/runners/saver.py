"""The checkpoints of a run: when they are written, what they hold, and which is the best."""

from __future__ import annotations

import dataclasses
import math
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch

from headrace.errors import EnvironmentFailure, HeadraceError, NotFiniteError, StateError, StorageError
from headrace.train.collect.curriculum import stage_at
from headrace.train.logging.finite import all_finite
from headrace.train.play.agent import Agent
from headrace.train.play.evaluate import JUDGED, Judged, best_evaluation, compare, judged
from headrace.train.runners.parts import Learner, Source
from headrace.train.runners.reporter import Reporter
from headrace.train.runners.result import RunState
from headrace.train.runs import checkpoint as checkpoints
from headrace.train.runs.checkpoint import Checkpoint
from headrace.train.runs.events import one_line
from headrace.train.runs.folder import RunFolder
from headrace.train.settings.config import Config

LAST_EVALUATION = 60.0
"""maximum time for the evaluation of the last weights, in seconds"""
INTERRUPTED = 20.0  # the same after Ctrl-C or TERM, which launchers let a kill follow
EVALUATED = 0.1  # maximum of that time, beside a second, as a part of the training's


class Writing:
    """Jobs that a background thread runs in order, so that training does not wait for the disk.

    Their data are copied before, or may be read while they are written to, as those of a replay. Errors are raised in
    the thread that calls `check` or `wait`.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._jobs: dict[str, Callable[[], object]] = {}
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None

    @property
    def busy(self) -> bool:
        with self._lock:
            return self._thread is not None

    def start(self, name: str, job: Callable[[], object]) -> None:
        """Runs ``job`` after all earlier jobs; it replaces a job of the same name that has not begun."""
        with self._lock:
            self._jobs[name] = job
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="headrace-writing")
                self._thread.start()

    def check(self) -> None:
        """Raises the exception of a job, once; the jobs after it have not been run."""
        error, self._error = self._error, None
        if error is not None:
            raise error

    def wait(self) -> None:
        """Waits until all jobs are done; then calls `check`."""
        if (thread := self._thread) is not None:
            thread.join()
        self.check()

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._jobs:
                    self._thread = None
                    return
                job = self._jobs.pop(next(iter(self._jobs)))
            try:
                job()
            except BaseException as error:
                with self._lock:
                    self._error, self._jobs = error, {}


class Saver:
    """Writes the checkpoints of a run, with workers in a background thread.

    Args:
        written: called with the path of each checkpoint that was written, in whichever thread.

    Attributes:
        writing: the thread in which checkpoints of a run with workers are written.
    """

    def __init__(
        self,
        config: Config,
        run: RunFolder,
        parts: tuple[RunState, Source, Learner],
        reporter: Reporter,
        written: Callable[[Path], object],
    ):
        self.config, self.run, self.reporter, self.group = config, run, reporter, reporter.group
        self.state, self.source, self.learner = parts
        self._written = written
        self.writing, self._meanwhile = Writing(), config.samplers > 0
        self._best: Checkpoint | None = None  # not written yet

    def save(self, wait: bool = True) -> Path | None:
        """Writes a checkpoint, and the best if there is a new one; of several processes only the first writes.

        Args:
            wait: whether to wait until one that is written in the background is complete.

        Returns:
            Its path; None in a process that does not write.

        Raises:
            NotFiniteError: a loss, a mean return or a weight is not finite.
            StorageError: the checkpoint cannot be written.
        """
        if not self._meanwhile:
            self.reporter.check()
        self.learner.prepare()
        point = self.group.gather_checkpoint(self.checkpoint())
        if point is None:
            return None
        name = checkpoints.step_name(self.state.step)
        if not self._meanwhile:
            self._write_best()
            self._write(name, point)
        else:
            copied = point.copied()
            for part, values in copied.model.items():
                if values.is_floating_point() and not all_finite(values):
                    raise NotFiniteError(f"after the updates {self.source.when()}, {part} is not finite")
            self.writing.start(name, lambda: self._write(name, copied))
            if wait:
                self.writing.wait()
        return self.run.checkpoints / name

    def checkpoint(self) -> Checkpoint:
        """Returns a checkpoint of this process's present state, with the tensors that training goes on with."""
        model, policies = self.reporter.model(), self.source.policies
        optimisers = {name: tensor for policy in policies for name, tensor in policy.optimisers().items()}
        return Checkpoint(model, optimisers, self.source.state() | self.learner.state(), self._counters())

    def _counters(self) -> dict[str, Any]:
        writer = self.reporter.writer
        counts = self.state.counters() | self.learner.counters()
        return counts | {"metrics_bytes": 0 if writer is None else writer.offset()}

    def _write(self, name: str, point: Checkpoint) -> None:
        folder = self.run.checkpoints
        self.learner.write(point.counters)
        self._save_point(name, point)
        checkpoints.prune(folder, self.config.keep_checkpoints)
        self._written(folder / name)

    def _save_point(self, name: str, point: Checkpoint) -> None:
        """Writes a checkpoint of this name, and logs the event; may be called in any thread."""
        checkpoints.save(self.run.checkpoints, name, point)
        self.run.events.note("checkpoint", name, point.counters["step"], point.counters["seconds"])

    def rescue(self, error: Exception) -> Exception:
        """Writes a checkpoint of a run that has failed, for new episodes, unless one of this step exists.

        A deterministic run of which an environment has failed goes on from its last checkpoint, with its episodes.

        Returns:
            The error to report: with workers a `NotFiniteError` of the weights, from which those of samplers follow.
        """
        try:
            name = checkpoints.step_name(self.state.step)
            if self._meanwhile:
                self.save()
            elif isinstance(error, NotFiniteError | StorageError) or not self.group.leads:
                return error
            elif self.config.deterministic and isinstance(error, EnvironmentFailure):
                return error  # a checkpoint without environments would not lead on to the same run
            elif not (self.run.checkpoints / name).exists():
                self.source.saves_environments = False
                if self.group.size == 1:
                    self.save()
                else:  # the other processes do not answer any more
                    self.reporter.check()
                    self._write(name, self.checkpoint())
        except NotFiniteError as found:
            return error if not self._meanwhile or isinstance(error, NotFiniteError) else found
        except Exception:
            pass  # only the first error is reported
        return error

    # -- the best --------------------------------------------------------------------------------

    def note_best(self) -> None:
        """Copies the model of the newest mean return if that is the best so far; without workers, `save` writes it."""
        found = self.source.score()
        newest = self.source.ladder is not None  # the returns of self-play are all 0
        if found is None:
            return
        reached = found.stage, found.judged["return"]  # an easier stage's return does not compare
        if not (newest or reached > (self.state.best_stage, self.state.best_return)):
            return
        self.state.best_stage, self.state.best_return = reached
        counters = self._counters() | {"step": found.step, JUDGED: found.judged}
        self._best = Checkpoint({name: tensor.clone() for name, tensor in found.model().items()}, {}, {}, counters)
        if self._meanwhile:
            self.writing.start(checkpoints.BEST, self._write_best)

    def _write_best(self) -> None:
        if (best := self._best) is not None:
            self._best = None
            self._save_point(checkpoints.BEST, best)

    def judge(self, interrupted: bool, evaluate: bool) -> None:
        """Keeps the last weights as the best checkpoint if they are it, by their evaluation if ``evaluate``.

        An evaluation ends after a limited time.
        """
        if not self.group.leads or not self.state.step:
            return
        path = self.run.checkpoints / checkpoints.BEST
        best = checkpoints.load(path) if path.is_dir() else None
        last, known = self._evaluated(best, interrupted, evaluate)
        if last is not None and (best is None or known is None or self._beats(last, best, known)):
            counters = self._counters() | {"best_return": last["return"], JUDGED: last}
            self._save_point(checkpoints.BEST, Checkpoint(self.reporter.model(), {}, {}, counters))
        elif best is not None and known != best.counters.get(JUDGED):
            self._save_point(checkpoints.BEST, dataclasses.replace(best, counters=best.counters | {JUDGED: known}))

    def _beats(self, last: Judged, best: Checkpoint, known: Judged) -> bool:
        """Returns whether the last weights are the best; returns of training compare with those of their stage alone.

        They say nothing against an evaluation, which has no exploration and is of the final task.
        """
        if last["by"] == "training":
            if known["by"] == "evaluation":
                return False
            if best.counters.get("best_stage", 0) != stage_at(self.config, self.state.step):
                return True
        return last["return"] >= known["return"]

    def _evaluated(
        self, best: Checkpoint | None, interrupted: bool, evaluate: bool
    ) -> tuple[Judged | None, Judged | None]:
        """Returns what is known of the last weights and of the best checkpoint.

        Without an evaluation it is the mean return of training, and what the checkpoint says.
        """
        known = None if best is None else best.counters.get(JUDGED)
        most = INTERRUPTED if interrupted else LAST_EVALUATION
        seconds = math.inf if self.config.deterministic else min(most, 1.0 + EVALUATED * self.state.seconds)
        if evaluate:
            try:
                last, known = compare(self.config, self.agent(), best, seconds)
                if last is not None:
                    return last, known
            except Exception as error:  # of the environment: the run is saved
                self.reporter.remark(f"the last weights were not evaluated: {one_line(error)}")
        tracker = self.source.trackers[0]
        mean = tracker.mean_return()
        how = "training" if self.source.ladder is None else "self-play"
        return None if mean is None else judged(how, mean, tracker.counted), known

    def agent(self) -> Agent:
        """Returns an agent with copies of the present policies; training is not affected."""
        spec = self.config.build().spec
        with torch.random.fork_rng(devices=[]):
            return Agent(self.config, spec, Checkpoint(self.reporter.model()))

    # -- resuming --------------------------------------------------------------------------------

    def load(self, point: Checkpoint) -> None:
        """Continues from a checkpoint.

        The order matters: counters (`RunState`); of each policy its network with its normalisers, then optimisers and
        targets, from which updates are counted; the learner's replay and generators; last the source's environments,
        episodes and generators. `Reporter` has cut the metrics at the checkpoint's position before.

        Raises:
            StateError: the checkpoint does not fit the run's settings.
        """
        try:
            self.state.load(point.counters)
            for policy in self.source.policies:
                policy.load_model(point.model)
                policy.load_optimisers(point.optimizer)
            self.learner.load(point, self.state.step)
            self.source.load(point, self.learner.continues)
        except (KeyError, RuntimeError) as error:
            if isinstance(error, HeadraceError):
                raise
            raise StateError(f"the checkpoint does not fit this configuration: {error}") from error
        if self._meanwhile:
            known = best_evaluation(self.run)
            self.state.best_return = max(self.state.best_return, -math.inf if known is None else known)

    def close(self) -> None:
        with suppress(HeadraceError, OSError):  # an error was raised before, or follows from another one
            self.writing.wait()
