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
from headrace.pool.batch import OBS
from headrace.pool.registry import usable_cores
from headrace.train import checkpoint as checkpoints
from headrace.train.agent import load_checkpoint
from headrace.train.checkpoint import Checkpoint
from headrace.train.config import Config
from headrace.train.dashboard import Dashboard
from headrace.train.interrupt import Interrupt
from headrace.train.metrics import EpisodeTracker, MetricsWriter
from headrace.train.networks import uses_cnn
from headrace.train.policy import Policy
from headrace.train.ppo import STATISTICS
from headrace.train.rollout import Collector
from headrace.train.run import RunFolder
from headrace.train.seats import seats


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
        self.pool = make_pool(config)
        dealt = seats(self.pool.spec, config.policies)
        # before anything is computed: sums depend on how many threads share them
        cnn = any(uses_cnn(config, seat.observation) for seat in dealt.values())
        torch.set_num_threads(config.torch_threads or (usable_cores() if cnn else 1))
        torch.manual_seed(config.seed)
        self.policies = [Policy(name, config.of_policy(name), seat, self.device) for name, seat in dealt.items()]
        self.collector = Collector(config, self.pool, self.policies, self.device)
        self.generator = torch.Generator(self.device).manual_seed(config.seed)
        self.step = self.iteration = 0
        self.seconds = 0.0
        self.best_return = float("-inf")
        self._logged = 0
        self._learning = 0.0
        if resume is None:
            self._begin_with_networks()
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
        rollouts = self.collector.collect(self.generator)
        ends = self.collector.ends
        for policy in self.policies:
            policy.tracker.update(self.collector.scores(policy.seat), ends)
        began = time.perf_counter()
        for policy, samples in zip(self.policies, rollouts, strict=True):
            policy.learn(samples, self.step, self.generator)
        self._learning += time.perf_counter() - began
        self.step += config.num_envs * config.num_steps
        self.iteration += 1
        if self.step - self._logged >= config.log_steps:
            self._log()

    @property
    def tracker(self) -> EpisodeTracker:
        """Episodes as the first policy's agents fared in them."""
        return self.policies[0].tracker

    @property
    def losses(self) -> Tensor | None:
        """The first policy's."""
        return self.policies[0].losses

    def solved(self) -> bool:
        """Whether the last episodes reached ``stop_at_return``."""
        goal, mean = self.config.stop_at_return, self.tracker.mean_return()
        return goal is not None and mean is not None and self.tracker.full and mean >= goal

    def split(self) -> dict[str, float]:
        """Seconds since this process began to train: in the environments, in inference, in learning."""
        return {**self.collector.seconds, "learning": self._learning}

    def _log(self) -> None:
        self._logged = self.step
        tracker = self.tracker
        line = {
            "step": self.step,
            "iteration": self.iteration,
            "episodes": tracker.episodes,
            "return": tracker.mean_return(),
            "length": tracker.mean_length(),
            "loss": _losses(self.policies[0]),
            "time": {"seconds": round(self.seconds, 3), **{k: round(v, 3) for k, v in self.split().items()}},
        }
        if self.policies[0].name:
            line["policies"] = {p.name: {"return": p.tracker.mean_return(), "loss": _losses(p)} for p in self.policies}
        self.writer.write(line)

    def _begin_with_networks(self) -> None:
        """Take over the networks of other runs, where the settings name one, with what they know of observations."""
        for policy, experience in zip(self.policies, self.collector.experiences, strict=True):
            if policy.config.load is None:
                continue
            model = load_checkpoint(RunFolder.open(policy.config.load)[0], checkpoints.BEST).model
            policy.load_model(model)
            if experience.encoder.normaliser is not None:
                experience.encoder.normaliser.load(checkpoints.group(policy.prefix("normaliser"), model))

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
        model: dict[str, Tensor] = {}
        optimiser: dict[str, Tensor] = {}
        state = checkpoints.pack_blobs(self.pool.save_state())
        for policy, experience in zip(self.policies, self.collector.experiences, strict=True):
            model |= policy.model()
            moments = policy.optimiser.state()
            optimiser |= checkpoints.prefixed(policy.name, moments) if policy.name else moments
            if experience.encoder.normaliser is not None:
                model |= checkpoints.prefixed(policy.prefix("normaliser"), experience.encoder.normaliser.state())
            if experience.reward_scaler is not None:
                state |= checkpoints.prefixed(policy.prefix("rewards"), experience.reward_scaler.state())
        state |= {_key(name): tensor[0] for name, tensor in self.collector.observations.items()}
        state["generator"] = self.generator.get_state()
        if self.pool.spec.agents:
            state["present"] = torch.from_numpy(self.collector.present)
        counters = {
            "step": self.step,
            "iteration": self.iteration,
            "logged": self._logged,
            "seconds": self.seconds,
            "best_return": self.best_return if self.best_return > float("-inf") else None,
            "metrics_bytes": self.writer.offset(),
            "episodes": [policy.tracker.state() for policy in self.policies],
        }
        return Checkpoint(model, optimiser, state, counters)

    def load(self, point: Checkpoint) -> int:
        """Continue from a checkpoint; returns how many bytes of the metrics belong to it."""
        try:
            for policy, experience in zip(self.policies, self.collector.experiences, strict=True):
                policy.load_model(point.model)
                moments = checkpoints.group(policy.name, point.optimizer) if policy.name else point.optimizer
                policy.optimiser.load(moments)
                if experience.encoder.normaliser is not None:
                    experience.encoder.normaliser.load(checkpoints.group(policy.prefix("normaliser"), point.model))
                if experience.reward_scaler is not None:
                    experience.reward_scaler.load(checkpoints.group(policy.prefix("rewards"), point.state))
            for name, tensor in self.collector.observations.items():
                tensor[0].copy_(point.state[_key(name)])
            self.generator.set_state(point.state["generator"])
            if self.pool.spec.agents:
                self.collector.present[:] = point.state["present"].numpy()
        except (KeyError, RuntimeError) as error:
            raise StateError(f"the checkpoint does not fit this configuration: {error}") from error
        self.pool.load_state(None, checkpoints.unpack_blobs(point.state))
        counters = point.counters
        self.step, self.iteration, self._logged = counters["step"], counters["iteration"], counters["logged"]
        self.seconds = counters["seconds"]
        self.best_return = counters["best_return"] if counters["best_return"] is not None else float("-inf")
        for policy, episodes in zip(self.policies, counters["episodes"], strict=True):
            policy.tracker.load(episodes)
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


def _key(array: str) -> str:
    """The name of an observation array in a checkpoint."""
    return array.replace(OBS, "observations", 1)


def _losses(policy: Policy) -> dict[str, float]:
    if policy.losses is None:
        return {}  # a frozen policy's
    return dict(zip(STATISTICS, policy.losses.tolist(), strict=True))


def _device(name: str) -> torch.device:
    try:
        device = torch.device(name)
    except RuntimeError:
        raise OptionError(f"device must be cpu, cuda or cuda:i, not {name!r}") from None
    if device.type not in ("cpu", "cuda") or (device.type == "cuda" and not torch.cuda.is_available()):
        raise OptionError(f"device {name!r} is not available here")
    return device
