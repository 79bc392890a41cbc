"""Runs that collect and learn in turn, in one process.

A checkpoint of a `Trainer` holds everything that the rest of the run depends on, except a replay of steps, which lies
beside it in the run folder (`headrace.train.runners.step_trainer`). On the CPU a resumed run is therefore bit for bit
the run without an interruption, except with the groups of an asynchronous pool.
"""

from __future__ import annotations

import dataclasses
import math
import os
import platform
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from headrace.errors import ActionError, NotFiniteError, StateError, StorageError, TrustError
from headrace.pool.torch.pool import TorchPool
from headrace.pool.wrappers import unwrapped
from headrace.train.algorithms.graphs import Graph
from headrace.train.algorithms.policy import Policy
from headrace.train.collect.collector import Collector
from headrace.train.collect.curriculum import options_at, words_of
from headrace.train.collect.device import DeviceCollector
from headrace.train.collect.self_play import SelfPlay
from headrace.train.collect.setup import find_device, make_collector, make_policies, training_pool
from headrace.train.config.settings import Config
from headrace.train.logging.finite import check_observations, check_rewards
from headrace.train.logging.hardware import HardwareUse
from headrace.train.logging.loggers import make_loggers
from headrace.train.logging.metrics import MetricsWriter
from headrace.train.logging.timer import Timer
from headrace.train.play.episode_log import played_episode
from headrace.train.play.judging import JUDGED, judged
from headrace.train.play.loading import begin_with_network
from headrace.train.runners.process_group import ProcessGroup
from headrace.train.runners.runner import Runner
from headrace.train.runs import checkpoint as checkpoints
from headrace.train.runs.checkpoint import Checkpoint
from headrace.train.runs.events import one_line
from headrace.train.runs.folder import RunFolder

MOST_SAVED = 256 << 20  # bytes of the environments' states in a checkpoint; larger ones are left out
AT_ONCE = 64 << 20  # approximate bytes of the states that are taken from a pool at a time
LEAST_LINES = 100  # the fewest lines of metrics of a whole run, so that short runs have a curve as well


class Trainer(Runner):
    """A run that collects and learns in turn.

    Args:
        resume: the checkpoint to go on from, as `ProcessGroup.scatter` returns it.
        group: the processes that train together; by default this one alone.

    Attributes:
        iteration: number of rollouts learnt from so far.
    """

    SPEEDS = "steps_per_second"

    pool: Any
    collector: Collector

    def __init__(
        self, config: Config, run: RunFolder, resume: Checkpoint | None = None, group: ProcessGroup | None = None
    ):
        self.group = group or ProcessGroup()
        config = self.group.share_of(config)
        super().__init__(config, run, find_device(config.device))
        self._options = options_at(config, 0 if resume is None else resume.counters["step"])
        self.pool = self._training_pool()
        self.policies = self._make_policies()
        self.collector = self._make_collector()
        self._collect = self._whole_rollout()
        self.generator = torch.Generator("cpu" if config.host_random else self.device).manual_seed(config.seed)
        self.self_play = SelfPlay(self.collector.experiences)
        self.iteration = 0
        self._best: Checkpoint | None = None  # not written yet
        self._watch = Timer(self.device, "rollout", "learning")
        self._own_use, self._ranks = HardwareUse(self.device), dict[str, Any]()
        self._began: tuple[float, int] | None = None  # when, and after how many steps, this process began to train
        if resume is None and self.group.leads:  # the other processes receive its parameters
            for policy in self.policies:
                begin_with_network(policy)
        self.group.join(self.collector.experiences)
        self.collector.start()
        offset = self.load(resume) if resume is not None else 0
        self.group.merge(self.policies)
        leads = self.group.leads
        loggers = make_loggers(config, run, self.step) if leads else []
        self.writer = MetricsWriter(run.metrics_file, offset, loggers) if leads else None

    # -- the loop --------------------------------------------------------------------------------

    @contextmanager
    def _running(self) -> Iterator[Any]:
        pool = unwrapped(self.pool)
        faults = pool.faults_named() if isinstance(pool, TorchPool) else nullcontext()
        if not self.iteration:
            self.save()  # there is always a checkpoint to go back to
        with self.group.interrupt() as interrupt, faults:
            try:
                yield interrupt
            except Exception as error:
                if not isinstance(error, NotFiniteError | StorageError):
                    self._save_what_is_left()
                raise
            if self.step > self._logged:
                self._log()  # after the checkpoint, so a resumed run overwrites this line

    def _save_what_is_left(self) -> None:
        """Writes a checkpoint of a run that has failed, for new episodes, unless one of this step exists."""
        name = checkpoints.step_name(self.step)
        if not self.group.leads or (self.run.checkpoints / name).exists():
            return
        self._saves_environments = False
        with suppress(Exception):  # only the first error is reported
            if self.group.size == 1:
                self.save()
            else:  # the other processes do not answer any more
                self._check_reported()
                self._write(name, self.checkpoint())

    def _agree(self, stop: bool, save: bool) -> tuple[bool, ...]:
        return self.group.agree(stop, save)

    def _finish(self) -> None:
        if self._at_end() and self.step > self._logged:
            self._log()

    def finished(self) -> bool:
        return self.step >= self.config.total_steps

    def iterate(self) -> None:
        """Collects a rollout, learns from it, and writes a line of metrics if one is due."""
        if self._began is None:
            self._began = time.perf_counter(), self.step
        self._watch.start()
        self.self_play.draw(self.step, self.generator)
        self.collector.draw(self.generator)
        rollouts = self._collected()
        self._watch.lap("rollout")
        taken = self._steps_taken()
        self._learn(rollouts, taken)
        if self.device.type == "cpu":  # on a GPU, only reports and checkpoints wait for the losses
            for policy in self.policies:
                self._check(policy, policy.last_losses())
        self.group.merge(self.policies)
        self._watch.lap("learning")
        self.step += taken
        self.iteration += 1
        if options_at(self.config, self.step) != self._options:
            self._next_stage()
        if self.step - self._logged >= min(self.config.log_steps, self.config.total_steps / LEAST_LINES):
            self._log()

    def _training_pool(self) -> Any:
        return training_pool(dataclasses.replace(self.config, env_options=self._options))

    def _make_policies(self) -> Sequence[Policy]:
        return make_policies(self.config, self.pool, self.device)

    def _make_collector(self) -> Collector:
        return make_collector(self.config, self.pool, self.policies, self.device)

    def _steps_taken(self) -> int:
        """Returns the agent steps of the last rollout, of all processes together."""
        return self.rollout

    def _learn(self, rollouts: list[Any], taken: int) -> None:
        """Makes the updates that are due after a rollout of ``taken`` agent steps."""
        for policy, samples in zip(self.policies, rollouts, strict=True):
            policy.learn(samples, self.step, self.generator)

    def _whole_rollout(self) -> Graph:
        """Returns the collection of a rollout, as a CUDA graph where it can be one."""
        whole = self.config.graphs and isinstance(self.collector, DeviceCollector)
        captured = whole and self.group.may_capture(self.collector.experiences)
        return Graph(self._collect_and_track, self.device, captured)

    def _collect_and_track(self) -> list[Any]:
        rollouts, ends = self.collector.collect(), self.collector.ends
        for policy in self.policies:
            agent_group = policy.agent_group
            scores, by_type = self.collector.scores(agent_group), self.collector.scores_by_type(agent_group)
            policy.tracker.update(scores, ends, by_type, self.collector.taken)
        return rollouts

    def _next_stage(self) -> None:
        self._options = options_at(self.config, self.step)
        self.remarks.append(f"from step {self.step:,}: {words_of(self.config, self._options)}")
        spent = self.collector.seconds
        self.pool.close()
        self.pool = self._training_pool()
        self.collector = self._make_collector()
        self.collector.seconds = spent
        self._collect = self._whole_rollout()
        for experience in self.collector.experiences:
            experience.static = experience.static or self.group.size > 1
        self._begin_anew()

    def _collected(self) -> list[Any]:
        """Collects a rollout; raises `NotFiniteError` for rewards, on the CPU, or observations that are not finite."""
        try:
            rollouts = self._collect()
        except ActionError:  # which may be due to an observation that is not finite
            self._check_seen()
            raise
        for policy in self.policies:
            policy.tracker.forget_summary()
        if self.collector.storage.type == "cpu":
            check_rewards(self.collector.rewards, self._when())
        return rollouts

    def _check(self, policy: Policy, statistics: Mapping[str, float]) -> None:
        """As `Runner._check`; the error names the environment if a reward or an observation is not finite."""
        if not all(map(math.isfinite, statistics.values())):
            self._check_seen()
            super()._check(policy, statistics)

    def _check_seen(self) -> None:
        """Raises `NotFiniteError` where a reward or an observation of the last rollout is not finite."""
        check_rewards(self.collector.rewards, self._when())
        check_observations(self.collector.observations, self._when())

    def _when(self) -> str:
        return f"of the rollout after {self.step:,} agent steps"

    @property
    def rollout(self) -> int:
        """The most agent steps that one rollout of all processes takes."""
        return self.config.num_envs * self.config.num_steps * self.group.size

    @property
    def end(self) -> int:
        """Agent steps at which the run ends, as the last rollout is collected whole."""
        return self.step - (self.step - self.config.total_steps) // self.rollout * self.rollout

    # -- for reporting ---------------------------------------------------------------------------

    def split(self) -> dict[str, float]:
        """Returns the seconds since this process began to train, in environments, inference and learning.

        On a GPU they are the device's time of whole rollouts and of updates. A rollout's time is divided in the
        proportions of an early one that was run step by step.
        """
        parts, spent = dict(self.collector.seconds), self._watch.seconds()
        scale = spent["rollout"] / (sum(parts.values()) or 1.0)
        parts = {name: seconds * scale for name, seconds in parts.items()}
        return parts | {"learning": parts["learning"] + spent["learning"]}

    def speeds(self) -> dict[str, float | None]:
        """Returns agent steps a second since this process began to train; None before they are known.

        ``stepping`` counts the time in environments alone, ``inference`` also that of choosing actions, and
        ``training`` all the time that passed.
        """
        now, first = self._began or (time.perf_counter(), self.step)
        steps, split = self.step - first, self.split()
        seconds = {
            "stepping": split["env"],
            "inference": split["env"] + split["inference"],
            "training": time.perf_counter() - now,
        }
        return {name: steps / spent if steps and spent > 0 else None for name, spent in seconds.items()}

    def _log(self) -> None:
        self._check_reported()
        self._note_best()
        if self.group.size > 1:
            self._ranks = {str(rank): said for rank, said in enumerate(self.group.gather_objects(self._own()))}
        super()._log()

    def _time(self) -> dict[str, Any]:
        return super()._time() | ({"ranks": self._ranks} if self._ranks else {})

    def _own(self) -> dict[str, Any]:
        """Returns this process's entry in a line of metrics: host, device, agent steps a second, use of hardware."""
        collected = self.speeds()["inference"]
        speed = None if collected is None else round(collected / self.group.size)
        where = {"host": platform.node(), "device": str(self.device)}
        return where | {"steps_per_second": speed, **self._own_use.read()}

    @property
    def _root(self) -> int:
        return (
            os.getppid() if self.group.watched else os.getpid()
        )  # the processes of torchrun have no parent that trains

    def _counts(self) -> dict[str, int]:
        return {"iteration": self.iteration}

    def _details(self) -> dict[str, Any]:
        return {"policies": {p.name: self._line_of(p) for p in self.policies}} if self.policies[0].name else {}

    def _line_of(self, policy: Policy) -> dict[str, Any]:
        tracker = policy.tracker
        line = {"return": tracker.mean_return(), "length": tracker.mean_length(), "loss": policy.reported(self.step)}
        if tracker.types:
            line["types"] = {name: {"return": r, "length": n} for name, (r, n) in tracker.by_type().items()}
        return line | ({"version": self.self_play.version(policy.name)} if policy.config.copies else {})

    def _note_best(self) -> None:
        """Copies the model if its mean return is the best so far; the next checkpoint writes it."""
        mean = self.tracker.mean_return()
        if mean is not None and mean > self.best_return:
            self.best_return = mean
            model = {name: tensor.clone() for name, tensor in self._model().items()}
            known = {JUDGED: judged("training", mean, self.tracker.counted)}
            self._best = Checkpoint(model, {}, {}, self._counters() | known)

    def log_episode(
        self, names: Sequence[str] | None = None, env_id: int = 0, *, seed: int = 1000, deterministic: bool = True
    ) -> dict[str, np.ndarray]:
        """Returns an episode of the present policies, as `headrace.train.log_episode`; training is not affected."""
        with torch.random.fork_rng(devices=[]):
            point = Checkpoint(self._model(), {}, {}, {})
            return played_episode(self.config, point, names, env_id, seed, deterministic)

    # -- checkpoints -----------------------------------------------------------------------------

    def save(self) -> Path | None:
        """Writes a checkpoint, and the best if there is a new one; of several processes only the first writes.

        Raises:
            NotFiniteError: a loss or a mean return is not finite.
            StorageError: the checkpoint cannot be written.
        """
        self._check_reported()
        point, folder = self.group.gather_checkpoint(self.checkpoint()), self.run.checkpoints
        if point is None:
            return None
        if self._best is not None:
            self._save_point(checkpoints.BEST, self._best)
            self._best = None
        name = checkpoints.step_name(self.step)
        self._write(name, point)
        return folder / name

    def _state(self) -> dict[str, Tensor]:
        state = self._environments()
        for experience in self.collector.experiences:
            state |= experience.policy.state() | experience.state()
        return state | self.collector.state() | self.self_play.state() | {"generator": self.generator.get_state()}

    def _environments(self) -> dict[str, Tensor]:
        """Returns the states of the environments; empty if they cannot be saved, and new episodes begin instead."""
        if self._saves_environments:
            try:
                return checkpoints.pack_blobs(self._saved(), math.inf if self.config.deterministic else MOST_SAVED)
            except StateError as error:
                if self.config.deterministic:
                    raise
                self._saves_environments = False
                self.remark(f"a resumed run will begin new episodes, as {one_line(error)}")
        return {}

    def _saved(self) -> Iterator[bytes]:
        """Yields the environments' states, which are taken from the pool some at a time, as they may be large."""
        begin, few = 0, 1
        while begin < self.pool.num_envs:
            ids = range(begin, min(begin + few, self.pool.num_envs))
            blobs = self.pool.save_state(ids)
            yield from blobs
            begin, few = ids.stop, max(1, AT_ONCE // max(map(len, blobs)))

    def load(self, point: Checkpoint) -> int:
        """As `Runner.load`; environments continue their episodes if their states were saved.

        Raises:
            TrustError: their states are pickles that somebody else may have written.
        """
        if "environments" in point.state and unwrapped(self.pool).saves_pickles and not point.trusted:
            raise TrustError(
                f"the checkpoint in {self.run.checkpoints} has no seal of yours from this machine, and holds the "
                "environments of its task as pickles: loading them may do whatever you may do.\n"
                "If you trust who wrote it, say --trust (in Python trust=True)"
            )
        metrics_bytes = super().load(point)
        if self._continues(point):
            self.pool.load_state(None, checkpoints.unpack_blobs(point.state))
        else:
            self._begin_anew()
        return metrics_bytes

    def _continues(self, point: Checkpoint) -> bool:
        return "environments" in point.state

    def _load(self, point: Checkpoint) -> None:
        state, self.iteration = point.state, point.counters["iteration"]
        for experience in self.collector.experiences:
            experience.policy.load_state(state)
            experience.load_state(state)
        if self._continues(point):
            self.collector.load_state(state)
        self.self_play.load_state(state)
        self.generator.set_state(state["generator"])

    def _begin_anew(self) -> None:
        """Begins new episodes in all environments, with other seeds than at the beginning of the run."""
        seed = np.random.SeedSequence((self.config.seed, self.step)).generate_state(1)[0] >> 1
        self.pool.reset(seed=int(seed))
        self.collector.start()
        for experience in self.collector.experiences:
            experience.begin_anew()
            experience.policy.tracker.begin_anew()

    def close(self) -> None:
        super().close()
        self.pool.close()
