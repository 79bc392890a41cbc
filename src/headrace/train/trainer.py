"""One training run: collect, learn, note, and now and then save.

`Trainer` holds everything that decides how the run goes on; `Trainer.checkpoint` is exactly that, so a run
that continues from one does, on the CPU, bit for bit what it would have done undisturbed.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from headrace.errors import StateError
from headrace.pool.views.torch import TorchPool
from headrace.train import checkpoint as checkpoints
from headrace.train.agent import load_checkpoint
from headrace.train.checkpoint import Checkpoint
from headrace.train.config import Config
from headrace.train.dashboard import Dashboard
from headrace.train.device_rollout import DeviceCollector
from headrace.train.episode_log import played_episode
from headrace.train.episodes import EpisodeTracker
from headrace.train.graphs import Graph
from headrace.train.memory import in_use
from headrace.train.metrics import MetricsWriter
from headrace.train.policy import Policy
from headrace.train.run import RunFolder
from headrace.train.self_play import SelfPlay
from headrace.train.setup import find_device, make_collector, make_policies, training_pool
from headrace.train.stopwatch import Stopwatch
from headrace.train.team import Team


class Trainer:
    """The state of a run.

    Args:
        config: its settings.
        run: its folder.
        resume: where to go on.
        team: the processes that train together; by default this one alone.

    Attributes:
        step: agent steps so far, all environments together.
        iteration: rollouts learnt from so far.
        seconds: time spent training so far, resumed parts included.
    """

    def __init__(self, config: Config, run: RunFolder, resume: Checkpoint | None = None, team: Team | None = None):
        self.team = team or Team()
        self.config, self.run = config, run = self.team.share_of(config), run
        self.device = find_device(config.device)
        self.pool = training_pool(config)
        self.policies = make_policies(config, self.pool, self.device)
        self.collector = make_collector(config, self.pool, self.policies, self.device)
        whole = config.graphs and isinstance(self.collector, DeviceCollector)
        captured = whole and self.team.may_capture(self.collector.experiences)
        self._collect = Graph(self.collector.collect, self.device, captured)
        self.generator = torch.Generator("cpu" if config.host_random else self.device).manual_seed(config.seed)
        self.self_play = SelfPlay(self.collector.experiences)
        self.step = self.iteration = 0
        self.seconds = 0.0
        self.best_return = float("-inf")
        self.evaluation: dict[str, float] = {}
        self.remarks: list[str] = []
        self.address: str | None = None  # only runs with workers can be watched
        self._logged = 0
        self._watch = Stopwatch(self.device, "rollout", "learning")
        self._began: tuple[float, int] | None = None  # when, and after how many steps, this process began to train
        if resume is None:
            self._begin_with_networks()
        self.team.join(self.collector.experiences)
        self.collector.start()
        offset = self.load(resume) if resume is not None else 0
        self.team.merge(self.policies)
        events = run.tensorboard if config.tensorboard else None
        self.writer = MetricsWriter(run.metrics_file, offset, events, self.step) if self.team.leads else None

    def train(self, dashboard: Dashboard) -> Literal["solved", "finished", "interrupted"]:
        """Run to the end; returns why it ended: ``"solved"``, ``"finished"`` or ``"interrupted"``."""
        config = self.config
        began, before = time.monotonic(), self.seconds
        saved = began
        faults = self.pool.faults_named() if isinstance(self.pool, TorchPool) else nullcontext()
        with self.team.interrupt() as interrupt, dashboard, faults:
            stop = False
            while self.step < config.total_steps and not self.solved() and not stop:
                self.iterate()
                now = time.monotonic()
                self.seconds = before + now - began
                dashboard.update(self)
                stop, due = self.team.agree(bool(interrupt), now - saved >= config.checkpoint_seconds)
                if due:
                    self.save()
                    saved = time.monotonic()
            self.seconds = before + time.monotonic() - began
            over = self.solved() or self.step >= config.total_steps
            if over and self.step > self._logged:
                self._log()
            dashboard.update(self, force=True)
            self.save()
        return "solved" if self.solved() else "finished" if over else "interrupted"

    def iterate(self) -> None:
        """One rollout, the updates from it, and a line of metrics if one is due."""
        config = self.config
        if self._began is None:
            self._began = time.perf_counter(), self.step
        self._watch.start()
        self.self_play.draw(self.step, self.generator)
        self.collector.draw(self.generator)
        rollouts = self._collect()
        self._watch.lap("rollout")
        ends = self.collector.ends
        for policy in self.policies:
            seat = policy.seat
            policy.tracker.update(self.collector.scores(seat), ends, self.collector.scores_by_type(seat))
        for policy, samples in zip(self.policies, rollouts, strict=True):
            policy.learn(samples, self.step, self.generator)
        self.team.merge(self.policies)
        self._watch.lap("learning")
        self.step += config.num_envs * config.num_steps * self.team.size
        self.iteration += 1
        if self.step - self._logged >= config.log_steps:
            self._log()

    @property
    def tracker(self) -> EpisodeTracker:
        """Episodes as the first policy's agents fared in them."""
        return self.policies[0].tracker

    def solved(self) -> bool:
        """Whether the last episodes reached ``stop_at_return``."""
        goal, mean = self.config.stop_at_return, self.tracker.mean_return()
        return goal is not None and mean is not None and self.tracker.full and mean >= goal

    def split(self) -> dict[str, float]:
        """Seconds since this process began to train: in the environments, in inference, in learning.

        On a GPU they are the device's own: of whole rollouts, and of updates. What of a rollout belongs to which is
        then taken from one that was run step by step, before it became a graph.
        """
        parts, spent = dict(self.collector.seconds), self._watch.seconds()
        scale = spent["rollout"] / (sum(parts.values()) or 1.0)
        parts = {name: seconds * scale for name, seconds in parts.items()}
        return parts | {"learning": parts["learning"] + spent["learning"]}

    def speeds(self) -> dict[str, float | None]:
        """Agent steps a second since this process began to train, all processes together; None before they are known.

        ``stepping`` counts the time in environments alone, ``inference`` that of choosing actions, too, ``training``
        all the time that went by.
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
        self._logged = self.step
        if self.writer is None:
            return
        tracker = self.tracker
        line = {
            "step": self.step,
            "iteration": self.iteration,
            "episodes": tracker.episodes,
            "return": tracker.mean_return(),
            "length": tracker.mean_length(),
            "loss": self.policies[0].last_losses(),
            "time": self._time(),
        }
        if self.policies[0].name:
            line["policies"] = {p.name: self._line_of(p) for p in self.policies}
        self.writer.write(line)

    def _time(self) -> dict[str, Any]:
        """What differs from run to run: seconds, speeds, memory."""
        speeds = {name: None if speed is None else round(speed) for name, speed in self.speeds().items()}
        split = {name: round(seconds, 3) for name, seconds in self.split().items()}
        memory = in_use(self.device)
        return {"seconds": round(self.seconds, 3), **split, "steps_per_second": speeds, "memory": memory}

    def _line_of(self, policy: Policy) -> dict[str, Any]:
        tracker = policy.tracker
        line = {"return": tracker.mean_return(), "length": tracker.mean_length(), "loss": policy.last_losses()}
        if tracker.types:
            line["types"] = {name: {"return": r, "length": n} for name, (r, n) in tracker.by_type().items()}
        return line | ({"version": self.self_play.version(policy.name)} if policy.config.copies else {})

    def _begin_with_networks(self) -> None:
        """Take over the networks of other runs, where the settings name one, with what they know of observations."""
        for experience in self.collector.experiences:
            source = experience.policy.config.load
            if source is not None:
                model = load_checkpoint(RunFolder.open(source)[0], checkpoints.BEST).model
                experience.policy.load_model(model)
                experience.load_model(model)

    def log_episode(
        self, names: Sequence[str] | None = None, env_id: int = 0, *, seed: int = 1000, deterministic: bool = True
    ) -> dict[str, np.ndarray]:
        """An episode with the policies as they are now, as `headrace.train.log_episode`; training does not notice."""
        with torch.random.fork_rng(devices=[]):
            point = Checkpoint(self._model(), {}, {}, {})
            return played_episode(self.config, point, names, env_id, seed, deterministic)

    # -- checkpoints -----------------------------------------------------------------------------

    def save(self) -> Path | None:
        """Write a checkpoint, and note it as the best if it is; of several processes only the first writes."""
        point, folder = self.team.collect(self.checkpoint()), self.run.checkpoints
        if point is None:
            return None
        mean = self.tracker.mean_return()
        if mean is not None and mean > self.best_return:
            self.best_return = mean
            point.counters["best_return"] = mean
            checkpoints.save(folder, checkpoints.BEST, point)
        path = checkpoints.save(folder, checkpoints.step_name(self.step), point)
        checkpoints.prune(folder, self.config.keep_checkpoints)
        return path

    def checkpoint(self) -> Checkpoint:
        """Everything that decides the rest of the run, as far as this process knows it."""
        optimiser: dict[str, Tensor] = {}
        state = checkpoints.pack_blobs(self.pool.save_state())
        for experience in self.collector.experiences:
            policy = experience.policy
            optimiser |= policy.optimisers()
            state |= policy.state() | experience.state()
        state |= self.collector.state() | self.self_play.state()
        state["generator"] = self.generator.get_state()
        counters = {
            "step": self.step,
            "iteration": self.iteration,
            "logged": self._logged,
            "seconds": self.seconds,
            "best_return": self.best_return if self.best_return > float("-inf") else None,
            "metrics_bytes": 0 if self.writer is None else self.writer.offset(),
        }
        return Checkpoint(self._model(), optimiser, state, counters)

    def _model(self) -> dict[str, Tensor]:
        """All that is needed to play."""
        model: dict[str, Tensor] = {}
        for experience in self.collector.experiences:
            model |= experience.policy.model() | experience.model()
        return model

    def load(self, point: Checkpoint) -> int:
        """Continue from a checkpoint; returns how many bytes of the metrics belong to it."""
        state = self.team.own(point.state)
        try:
            for experience in self.collector.experiences:
                policy = experience.policy
                policy.load_model(point.model)
                experience.load_model(point.model)
                policy.load_optimisers(point.optimizer)
                policy.load_state(state)
                experience.load_state(state)
            self.collector.load_state(state)
            self.self_play.load_state(state)
            self.generator.set_state(state["generator"])
        except (KeyError, RuntimeError) as error:
            raise StateError(f"the checkpoint does not fit this configuration: {error}") from error
        self.pool.load_state(None, checkpoints.unpack_blobs(state))
        counters = point.counters
        self.step, self.iteration, self._logged = counters["step"], counters["iteration"], counters["logged"]
        self.seconds = counters["seconds"]
        self.best_return = counters["best_return"] if counters["best_return"] is not None else float("-inf")
        return counters["metrics_bytes"]

    def close(self) -> None:
        """Free the pool and the files."""
        if self.writer is not None:
            self.writer.close()
        self.pool.close()
