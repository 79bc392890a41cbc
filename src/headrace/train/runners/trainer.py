"""The loop of a run, which its parts share: a source of experience, a learner, a reporter and a saver.

An iteration collects experience, learns from it, and writes a line of metrics if one is due. Without workers a rollout
is collected, then learnt from. Workers collect meanwhile, and an iteration is a fraction of a second of updates.

A checkpoint of a run without workers holds everything that the rest of the run depends on, except a replay of steps,
which lies beside it in the run folder. On the CPU a resumed run is therefore bit for bit the run without an
interruption, except with the groups of an asynchronous pool.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from headrace.errors import EnvironmentFailure, OptionError
from headrace.pool.remarks import heard_by
from headrace.train.algorithms.policy import Policy
from headrace.train.collect.curriculum import is_last_stage
from headrace.train.logging.dashboard import Dashboard
from headrace.train.logging.episode_tracker import EpisodeTracker
from headrace.train.logging.finite import naming_what_is_kept
from headrace.train.play.episode_log import played_episode
from headrace.train.processes.process_group import ProcessGroup
from headrace.train.runners.callbacks import Callback, Callbacks
from headrace.train.runners.parts import Learner, Source
from headrace.train.runners.reporter import Reporter
from headrace.train.runners.result import Reason, RunState
from headrace.train.runners.saver import LAST_EVALUATION, Saver
from headrace.train.runs.checkpoint import Checkpoint
from headrace.train.runs.events import one_line
from headrace.train.runs.folder import RunFolder
from headrace.train.settings.config import Config
from headrace.train.workers.rate_limiter import REST

LOOK = 0.1  # seconds


class Trainer:
    """One run; `headrace.train.runners.assembly.make_trainer` makes it from its settings.

    Args:
        source, learner: where experience comes from, and what learns from it.
        group: the processes that train together.
        callbacks: the user's callbacks.
        resume: the checkpoint to continue from, as `ProcessGroup.scatter` returns it; None for a new run.

    Attributes:
        state: how far the run is.
        reporter: writes metrics and events.
        saver: writes checkpoints.
    """

    def __init__(
        self,
        config: Config,
        run: RunFolder,
        source: Source,
        learner: Learner,
        group: ProcessGroup,
        callbacks: Sequence[Callback] = (),
        resume: Checkpoint | None = None,
    ):
        self.config, self.run, self.source, self.learner, self.group = config, run, source, learner, group
        self.policies: Sequence[Policy] = source.policies
        self.device = self.policies[0].device
        self.state = RunState()
        self.callbacks = Callbacks(callbacks, self)
        parts = self.state, source, learner
        kept = None if resume is None else (resume.counters["metrics_bytes"], resume.counters["logged"])
        self.reporter = Reporter(config, run, self.device, group, parts, kept)
        self.saver = Saver(config, run, parts, self.reporter, self.callbacks.note_checkpoint)
        if resume is not None:
            self.saver.load(resume)
        group.merge(self.policies, source.trackers)
        self._looked_at, self._seen_solved = float("-inf"), False
        self._evaluation = source.evaluation

    def train(self, dashboard: Dashboard) -> Reason:
        """Trains until the run is over or told to end, and writes a last checkpoint."""
        state, saver = self.state, self.saver
        if 0 < state.step == state.logged and self._at_end():  # it had ended, and written its last line of metrics
            return self._note_end()
        self.reporter.say = dashboard.say
        state.since = saved = time.monotonic()
        self.reporter.begin()
        with naming_what_is_kept(self.run.checkpoints), self._running() as interrupt, dashboard:
            self.callbacks.start()
            stop = self.callbacks.stopped
            while not (stop or self._at_end()):
                try:
                    self.iterate()
                except EnvironmentFailure as error:
                    if not interrupt:  # else the run is told to end, and does not fail
                        raise
                    self.source.saves_environments = False
                    self.reporter.remark(f"an environment failed while the run was stopping: {one_line(error)}")
                self.callbacks.update()
                dashboard.update(self.reporter.progress)
                self.reporter.write_live_weights()
                due = time.monotonic() - saved >= self.config.checkpoint_seconds and not saver.writing.busy
                stop, due = self.group.agree(bool(interrupt) or self.callbacks.stopped, due)
                if due:
                    saver.save(wait=False)
                    saved = time.monotonic()
            self._finish(interrupt)
            dashboard.update(self.reporter.progress, force=True)
            saver.save()
            state.trained, state.since = state.seconds, None
            # the evaluator of a run with workers has judged the last weights at its end; of self-play the last are best
            judged = (self.config.samplers > 0 and self.finished()) or self.source.ladder is not None
            evaluate = self.config.evaluate_episodes > 0 and not judged
            saver.judge(bool(interrupt), evaluate)
            if state.step > state.logged:
                self.log()  # after the checkpoint, so a resumed run overwrites this line
        reason = self._note_end()
        self.callbacks.end(reason)
        return reason

    @contextmanager
    def _running(self) -> Iterator[Any]:
        """Provides the context of the loop; its value is true once the run is told to end.

        Workers end with it. A run that fails writes a checkpoint.
        """
        if not self.state.step:
            self.saver.save(wait=False)  # there is always a checkpoint to go back to
        with self.group.interrupt() as interrupt, heard_by(self.reporter.on_remark):
            try:
                self.learner.begin(interrupt)
                with self.source.running(interrupt):
                    yield interrupt
            except Exception as error:
                self._read()
                cause = self.saver.rescue(error)
                if cause is error:
                    raise
                raise cause from error

    def iterate(self) -> None:
        """Collects, learns, and writes a line of metrics if one is due."""
        rollouts = self.source.collect()
        self.learner.learn(rollouts, self.state.step)
        if self.device.type == "cpu":  # on a GPU, only reports and checkpoints wait for the losses
            self.reporter.check(returns=False)
        self.source.advance()
        self._read()
        self.saver.writing.check()
        if self.reporter.is_due():
            self.log()

    def _read(self) -> None:
        """Reads what has happened at the source of experience."""
        self.state.step = self.source.steps
        while self.source.news:
            self.reporter.remark(*self.source.news.popleft())
        if self.source.evaluation is not self._evaluation:
            self._evaluation = self.source.evaluation
            self.saver.note_best()

    def log(self) -> None:
        """Writes a line of metrics; raises `NotFiniteError` if a loss or a mean return in it is not finite."""
        self.learner.report()
        line = self.reporter.next_line()
        self.saver.note_best()
        if self.reporter.writer is not None:
            self.callbacks.log(line)
            self.reporter.writer.write(line)

    def _finish(self, interrupt: object) -> None:
        """Completes the run between the loop and the last checkpoint, with an evaluation of the last weights."""
        self.learner.publish()
        until = time.monotonic() + LAST_EVALUATION
        while self.finished() and self.source.awaits_evaluation() and not interrupt and time.monotonic() < until:
            time.sleep(REST)
            self.source.advance()
            self._read()
        self.source.finish()
        self._read()
        if self._at_end() and (self.config.samplers > 0 or self.state.step > self.state.logged):
            self.log()

    # -- the end ---------------------------------------------------------------------------------

    def finished(self) -> bool:
        """Returns whether all steps, and all updates from them, are done."""
        return self.step >= self.config.total_steps and not self.learner.is_behind()

    def solved(self) -> bool:
        """Returns whether the mean return of the last episodes, in a curriculum's last stage, is ``stop_at_return``."""
        goal = self.config.stop_at_return
        if goal is None or not is_last_stage(self.config, self.step):
            return False
        mean = self.tracker.mean_return()
        return mean is not None and self.tracker.full and mean >= goal

    def _at_end(self) -> bool:
        """Returns whether the run is finished or solved.

        On a GPU, where the host waits for the mean return, it was looked at in the last `LOOK` seconds.
        """
        now = time.monotonic()
        if self.device.type == "cpu" or now - self._looked_at >= LOOK:
            self._looked_at, self._seen_solved = now, self.solved()
        return self.finished() or self._seen_solved

    def _note_end(self) -> Reason:
        reason: Reason = "solved" if self.solved() else "finished" if self.finished() else "interrupted"
        self.reporter.end(reason, self.callbacks.stopped)
        return reason

    # -- for callbacks, and programs that call the run step by step ------------------------------

    @property
    def step(self) -> int:
        return self.state.step

    @property
    def seconds(self) -> float:
        return self.state.seconds

    @property
    def tracker(self) -> EpisodeTracker:
        """The episodes of the first policy, whose returns are those of the run."""
        return self.source.trackers[0]

    def set_rates(self, values: Mapping[str, float]) -> None:
        """Sets settings that may have a schedule to these values; raises `OptionError` as `Training.set`."""
        points = {name: [(0, float(value))] for name, value in values.items()}
        config = self.config.replace(schedules=self.config.schedules | points)
        if config.apart:
            raise OptionError(
                f"{min(values)} cannot change while the actor learns in a process of its own: train with "
                "actor_device=''"
            )
        self.config = config
        for policy in self.policies:
            policy.reschedule(points)

    def log_episode(
        self, names: Sequence[str] | None = None, env_id: int = 0, *, seed: int = 1000, deterministic: bool = True
    ) -> dict[str, np.ndarray]:
        """Returns an episode of the present policies, as `headrace.train.log_episode`; training is not affected."""
        with torch.random.fork_rng(devices=[]):
            point = Checkpoint(self.reporter.model())
            return played_episode(self.config, point, names, env_id, seed, deterministic)

    def close(self) -> None:
        self.source.close()
        self.saver.close()
        self.reporter.close()
        self.learner.close()
