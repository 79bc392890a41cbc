"""Runs whose learner draws from a replay that samplers fill; with a free replay ratio, neither waits for the other."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor

from headrace.train.algorithms.off_policy import OffPolicy
from headrace.train.collect.steps import make_replay
from headrace.train.config.settings import Config
from headrace.train.runners.asynchronous import AsyncTrainer
from headrace.train.runners.checks import check_workers
from headrace.train.runs.checkpoint import Checkpoint
from headrace.train.runs.folder import RunFolder
from headrace.train.storage.files import ReplayFiles
from headrace.train.storage.step_replay import StepReplay
from headrace.train.workers import actor_learner, replay_sampler
from headrace.train.workers.actor_learner import Exchange, extras_of
from headrace.train.workers.rate_limiter import RateLimiter
from headrace.train.workers.replay_learner import ReplayLearner

HEAD_START = 100  # maximum number of updates of the critics before the process that learns the actor has started


class OffPolicyTrainer(AsyncTrainer):
    """A run with workers of an algorithm with a replay.

    Attributes:
        replay: the replay that samplers write to and `learner` reads from.
        rate_limiter: decides which updates are due, and which steps are allowed.
        emptied: agent steps and updates of the run when its replay was last empty, from which the limiter counts both.
        exchange: the weights that the processes of an actor and of its critics send each other.
    """

    learner: ReplayLearner

    def __init__(self, config: Config, run: RunFolder, resume: Checkpoint | None = None):
        check_workers(config)
        super().__init__(config, run, resume)
        self.rate_limiter = RateLimiter(config, self.counters, self.updates, self.emptied)

    def _make_learner(self) -> ReplayLearner:
        assert isinstance(self.policy, OffPolicy)
        self.replay, self.emptied = make_replay(self.config, sum(self.policy.heads)), (0, 0)
        self._files = ReplayFiles(self.replay, self.run.replay)
        self.exchange = Exchange(self.policy, self.weights, apart=self.config.apart)
        return ReplayLearner(self.config, self.policy, self.replay, self.exchange)

    def _extras(self) -> int:
        assert isinstance(self.policy, OffPolicy)
        return extras_of(self.policy)

    def _start(self) -> None:
        self.learner.set_rates(self.step)
        self.learner.begin()
        super()._start()
        if self.config.apart:
            made, rests = self.counters.actor_updates, self.counters.rests
            arguments = (self.config, self.replay, self.exchange, self.counters)
            self.supervisor.start(
                "actor",
                actor_learner.work,
                *arguments,
                progress=lambda: int(made[0]),
                pulse=lambda: int(made[0] + rests[-1]),
            )

    def _memory(self) -> StepReplay:
        return self.replay

    def _sampler(self, number: int) -> tuple[Callable[..., None], tuple[Any, ...]]:
        return replay_sampler.work, (self.config, number, self.replay, self.weights, self.counters)

    def _update(self) -> bool:
        learner, limiter = self.learner, self.rate_limiter
        if learner.updates >= limiter.due(self.counters.total_steps()) or not self.replay.held:
            return False
        if self.config.apart and not self.counters.actor_updates[0] and learner.updates > HEAD_START:
            return False  # further updates would fit the critics to the initial actor
        learner.update()
        limiter.note(learner.updates)
        return True

    def _poll(self) -> None:
        super()._poll()
        self.learner.set_rates(self.step)

    def set_rates(self, values: Mapping[str, float]) -> None:
        super().set_rates(values)
        self.learner.set_rates(self.step)

    def finished(self) -> bool:
        """Returns whether all steps, and all updates that the replay ratio requires, are done."""
        steps = self.counters.total_steps()
        if steps < self.config.total_steps:
            return False
        return self.config.replay_ratio is None or self.learner.updates >= self.rate_limiter.due(steps)

    def _load(self, point: Checkpoint) -> None:
        """Restores a checkpoint; the replay stays empty if it was not saved or does not fit any more."""
        super()._load(point)
        self.policy.caveat = self._load_replay(point.counters.get("replay"))
        self.emptied = self.step, self.updates
        if self.policy.caveat is None:  # a checkpoint of format 1 lacks the entry; its replay was empty at the start
            self.emptied = tuple(point.counters.get("emptied", (0, 0)))
        assert isinstance(self.policy, OffPolicy)
        self.counters.actor_updates[0] = self.updates // self.policy.actor_every

    def _load_replay(self, written: list[int] | None) -> str | None:
        """Restores the replay, which had `written` rows; returns a message if that failed, or None."""
        steps = self.config.learning_starts
        if written is None:
            return self._files.without("save_replay=False left it out", steps)
        return self._files.load_or_say(written, steps)

    def _counters(self) -> dict[str, Any]:
        return super()._counters() | {"emptied": self.emptied}

    def checkpoint(self) -> Checkpoint:
        """Returns the checkpoint of `Runner.checkpoint`, with the newest actor if another process learns it."""
        self.learner.settle()
        point = super().checkpoint()
        if self.config.save_replay:
            point.counters["replay"] = self.replay.arrays["written"].tolist()
        return point

    def _actor_model(self) -> dict[str, Tensor]:
        self.learner.settle()
        return super()._actor_model()

    def _write(self, name: str, point: Checkpoint) -> None:
        if self.config.save_replay:
            self._files.save(point.counters["replay"])
        super()._write(name, point)

    def close(self) -> None:
        super().close()
        self.exchange.close()
