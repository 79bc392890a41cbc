"""One training run: collect, learn, note, and now and then save.

`Trainer` holds everything that decides how the run goes on; `Trainer.checkpoint` is exactly that, so a run
that continues from one does, on the CPU, bit for bit what it would have done undisturbed.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

import headrace
from headrace.errors import OptionError, StateError
from headrace.pool.registry import usable_cores
from headrace.train import checkpoint as checkpoints
from headrace.train.checkpoint import Checkpoint
from headrace.train.config import Config
from headrace.train.dashboard import Dashboard
from headrace.train.distributions import distribution_for
from headrace.train.interrupt import Interrupt
from headrace.train.metrics import EpisodeTracker, MetricsWriter
from headrace.train.networks import make_network, uses_cnn
from headrace.train.optimiser import FlatAdam
from headrace.train.ppo import STATISTICS, update
from headrace.train.rollout import Collector
from headrace.train.run import RunFolder


class Trainer:
    """The state of a run.

    Attributes:
        step: agent steps so far, all environments together.
        iteration: rollouts learnt from so far.
        seconds: time spent training so far, resumed parts included.
    """

    def __init__(self, config: Config, run: RunFolder, resume: Checkpoint | None = None):
        self.config, self.run = config, run
        self.device = _device(config.device)
        agents = headrace.make_spec(config.task, **config.env_options).agents
        if agents:
            raise OptionError(
                f"{config.task} has {sum(a.count for a in agents)} agents; training is for one agent so far"
            )
        self.pool = make_pool(config)
        self.distribution = distribution_for(self.pool.single_action_space)
        space = self.pool.single_observation_space
        # before anything is computed: sums depend on how many threads share them
        torch.set_num_threads(config.torch_threads or (usable_cores() if uses_cnn(config, space) else 1))
        torch.manual_seed(config.seed)
        self.network = make_network(config, space, self.distribution).to(self.device)
        self.optimiser = FlatAdam(self.network, epsilon=config.adam_epsilon)
        forward = torch.compile(self.network) if config.compile else self.network
        self.forward: Any = forward
        self.collector = Collector(config, self.pool, self.forward, self.distribution, self.device)
        self.tracker = EpisodeTracker(config.num_envs, config.stop_episodes)
        self.generator = torch.Generator(self.device).manual_seed(config.seed)
        self.step = self.iteration = 0
        self.seconds = 0.0
        self.best_return = float("-inf")
        self.losses: Tensor | None = None
        self._logged = 0
        self._learning = 0.0
        self.collector.start()
        offset = self.load(resume) if resume is not None else 0
        events = run.tensorboard if config.tensorboard else None
        self.writer = MetricsWriter(run.metrics_file, offset, events, self.step)

    def train(self, dashboard: Dashboard) -> Literal["solved", "finished", "interrupted"]:
        """Run to the end; returns why it ended: ``"solved"``, ``"finished"`` or ``"interrupted"``."""
        config = self.config
        began, before = time.monotonic(), self.seconds
        saved = began
        with Interrupt() as interrupt, dashboard:
            while self.step < config.total_steps and not self.solved() and not interrupt:
                self.iterate()
                now = time.monotonic()
                self.seconds = before + now - began
                dashboard.update(self)
                if now - saved >= config.checkpoint_seconds:
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
        left = max(0.0, 1.0 - self.step / config.total_steps) if config.anneal_learning_rate else 1.0
        samples = self.collector.collect(self.generator)
        self.tracker.update(self.collector.scores, self.collector.ends)
        began = time.perf_counter()
        self.losses = update(
            self.forward,
            self.optimiser,
            self.distribution,
            config,
            samples,
            config.learning_rate * left,
            self.generator,
        )
        self._learning += time.perf_counter() - began
        self.step += config.num_envs * config.num_steps
        self.iteration += 1
        if self.step - self._logged >= config.log_steps:
            self._log()

    def solved(self) -> bool:
        """Whether the last episodes reached ``stop_at_return``."""
        goal, mean = self.config.stop_at_return, self.tracker.mean_return()
        return goal is not None and mean is not None and self.tracker.full and mean >= goal

    def split(self) -> dict[str, float]:
        """Seconds since this process began to train: in the environments, in inference, in learning."""
        return {**self.collector.seconds, "learning": self._learning}

    def _log(self) -> None:
        assert self.losses is not None
        self._logged = self.step
        self.writer.write(
            {
                "step": self.step,
                "iteration": self.iteration,
                "episodes": self.tracker.episodes,
                "return": self.tracker.mean_return(),
                "length": self.tracker.mean_length(),
                "loss": dict(zip(STATISTICS, self.losses.tolist(), strict=True)),
                "time": {"seconds": round(self.seconds, 3), **{k: round(v, 3) for k, v in self.split().items()}},
            }
        )

    # -- checkpoints -----------------------------------------------------------------------------

    def save(self) -> Path:
        """Write a checkpoint, and note it as the best if it is."""
        point, folder = self.checkpoint(), self.run.checkpoints
        mean = self.tracker.mean_return()
        if mean is not None and mean > self.best_return:
            self.best_return = mean
            point.counters["best_return"] = mean
            checkpoints.save(folder, checkpoints.BEST, point)
        path = checkpoints.save(folder, checkpoints.step_name(self.step), point)
        checkpoints.prune(folder, self.config.keep_checkpoints)
        return path

    def checkpoint(self) -> Checkpoint:
        """Everything that decides the rest of the run."""
        encoder, scaler = self.collector.encoder, self.collector.reward_scaler
        model = checkpoints.prefixed("network", self.network.state_dict())
        if encoder.normaliser is not None:
            model |= checkpoints.prefixed("normaliser", encoder.normaliser.state())
        state = checkpoints.pack_blobs(self.pool.save_state())
        state["observations"] = self.collector.observations[0]
        state["generator"] = self.generator.get_state()
        if scaler is not None:
            state |= checkpoints.prefixed("rewards", scaler.state())
        counters = {
            "step": self.step,
            "iteration": self.iteration,
            "logged": self._logged,
            "seconds": self.seconds,
            "best_return": self.best_return if self.best_return > float("-inf") else None,
            "metrics_bytes": self.writer.offset(),
            "episodes": self.tracker.state(),
        }
        return Checkpoint(model, self.optimiser.state(), state, counters)

    def load(self, point: Checkpoint) -> int:
        """Continue from a checkpoint; returns how many bytes of the metrics belong to it."""
        encoder, scaler = self.collector.encoder, self.collector.reward_scaler
        try:
            load_model(self.network, point)
            self.optimiser.load(point.optimizer)
            if encoder.normaliser is not None:
                encoder.normaliser.load(checkpoints.group("normaliser", point.model))
            if scaler is not None:
                scaler.load(checkpoints.group("rewards", point.state))
            self.collector.observations[0].copy_(point.state["observations"])
            self.generator.set_state(point.state["generator"])
        except (KeyError, RuntimeError) as error:
            raise StateError(f"the checkpoint does not fit this configuration: {error}") from error
        self.pool.load_state(None, checkpoints.unpack_blobs(point.state))
        counters = point.counters
        self.step, self.iteration, self._logged = counters["step"], counters["iteration"], counters["logged"]
        self.seconds = counters["seconds"]
        self.best_return = counters["best_return"] if counters["best_return"] is not None else float("-inf")
        self.tracker.load(counters["episodes"])
        return counters["metrics_bytes"]

    def close(self) -> None:
        """Free the pool and the files."""
        self.writer.close()
        self.pool.close()


def make_pool(config: Config, **changes: Any) -> headrace.Pool:
    """The pool that a configuration asks for; ``changes`` replace arguments of `headrace.make`."""
    arguments: dict[str, Any] = dict(
        num_envs=config.num_envs,
        batch_size=config.batch_size,
        num_threads=config.num_threads,
        seed=config.seed,
        autoreset="same_step",
        **config.env_options,
    )
    return headrace.make(config.task, **(arguments | changes))


def load_model(network: torch.nn.Module, point: Checkpoint) -> None:
    """Copy a checkpoint's parameters into a network, in place."""
    network.load_state_dict(checkpoints.group("network", point.model))


def _device(name: str) -> torch.device:
    try:
        device = torch.device(name)
    except RuntimeError:
        raise OptionError(f"device must be cpu, cuda or cuda:i, not {name!r}") from None
    if device.type not in ("cpu", "cuda") or (device.type == "cuda" and not torch.cuda.is_available()):
        raise OptionError(f"device {name!r} is not available here")
    return device
