"""A run whose learner draws from a replay that samplers fill: nobody waits, unless the replay ratio is fixed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headrace.errors import OptionError, StateError
from headrace.pool.registry import build_task
from headrace.train.checkpoint import Checkpoint
from headrace.train.config import Config
from headrace.train.off_policy.policy import OffPolicy
from headrace.train.off_policy.saving import ReplayFiles
from headrace.train.off_policy.steps import StepReplay
from headrace.train.run import RunFolder
from headrace.train.workers import halves, sampler
from headrace.train.workers.halves import Exchange, extras_of
from headrace.train.workers.learner import Learner
from headrace.train.workers.pace import Pace
from headrace.train.workers.sampler import Frames
from headrace.train.workers.trainer import AsyncTrainer

HEAD_START = 100  # updates of the critics before the first of an actor that learns apart


class OffPolicyTrainer(AsyncTrainer):
    """A run of an algorithm with a replay, and with workers.

    Attributes:
        replay: what samplers write, and `learner` reads.
        pace: updates that are due, and steps that are allowed.
        exchange: what an actor and critics that learn apart tell each other.
    """

    learner: Learner

    def __init__(self, config: Config, run: RunFolder, resume: Checkpoint | None = None):
        check(config)
        super().__init__(config, run, resume)
        filled = self.replay.held > 0
        self.pace = Pace(config, self.board, self.step, self.updates, filled)

    def _make_learner(self) -> Learner:
        assert isinstance(self.policy, OffPolicy)
        self.replay = make_replay(self.config)
        self._files = ReplayFiles(self.replay, self.run.replay)
        self.exchange = Exchange(self.policy, self.weights, apart=self.config.apart)
        return Learner(self.config, self.policy, self.replay, self.exchange)

    def _extras(self) -> int:
        assert isinstance(self.policy, OffPolicy)
        return extras_of(self.policy)

    def _start(self) -> None:
        self.learner.begin()
        super()._start()
        if self.config.apart:
            made = self.board.actor_updates
            arguments = (self.config, self.replay, self.exchange, self.board)
            self.supervisor.start("actor", halves.work, *arguments, progress=lambda: int(made[0]))

    def _sampler(self, number: int) -> tuple[Callable[..., None], tuple[Any, ...]]:
        return sampler.work, (self.config, number, self.replay, self.weights, self.board)

    def _update(self) -> bool:
        learner, pace = self.learner, self.pace
        if learner.updates >= pace.due(self.board.total_steps()) or not self.replay.held:
            return False
        if self.config.apart and not self.board.actor_updates[0] and learner.updates > HEAD_START:
            return False  # critics of an actor that has not begun yet would learn nothing but how it began
        learner.update()
        pace.note(learner.updates)
        return True

    def _look(self) -> None:
        super()._look()
        self.learner.set_rates(self.step)

    def finished(self) -> bool:
        """Whether all steps are done, and all that was to be learnt from them."""
        steps = self.board.total_steps()
        if steps < self.config.total_steps:
            return False
        return self.config.replay_ratio is None or self.learner.updates >= self.pace.due(steps)

    def load(self, point: Checkpoint) -> int:
        """As `AsyncTrainer.load`; the replay is what it was, or empty if it was not saved or does not fit any more."""
        metrics = super().load(point)
        self.policy.caveat = self._load_replay(point.counters.get("replay"))
        assert isinstance(self.policy, OffPolicy)
        self.board.actor_updates[0] = self.updates // self.policy.actor_every
        return metrics

    def _load_replay(self, written: list[int] | None) -> str | None:
        """Restore the replay that had so many rows; says in words why it could not be."""
        reason = "save_replay=False left it out"
        if written is not None:
            try:
                self._files.load(written)
                return None
            except StateError as error:
                reason = str(error)
        steps = self.config.learning_starts
        return f"the run goes on with an empty replay ({reason}): {steps:,} steps come before its next update"

    def checkpoint(self) -> Checkpoint:
        """As `AsyncTrainer.checkpoint`, with what an actor that learns apart has learnt."""
        self.learner.settle()
        point = super().checkpoint()
        if self.config.save_replay:
            point.counters["replay"] = self._files.save()
        return point

    def close(self) -> None:
        """As `AsyncTrainer.close`."""
        super().close()
        self.exchange.close()


def check(config: Config) -> None:
    """Refuse what workers cannot do.

    Raises:
        OptionError: the settings ask for it.
    """
    spec = build_task(config.task, **config.env_options).spec
    if config.prioritised and config.algo != "dqn":
        raise OptionError(f"prioritised=True is for dqn, which says how far off each value was, not for {config.algo}")
    if spec.agents:
        raise OptionError(f"{config.task} has several agents: train it with samplers=0")
    wrong = {
        "devices": bool(config.devices),
        "normalise_observations": config.normalise_observations,
        "normalise_rewards": config.normalise_rewards,
        "batch_size": bool(config.batch_size),
    }
    for name, given in wrong.items():
        if given:
            raise OptionError(f"{name}={getattr(config, name)} is for samplers=0, in whose single process it is done")


def make_replay(config: Config) -> StepReplay:
    """The replay of a run with samplers, in memory that they share."""
    frames = Frames.of(config)
    spec = build_task(config.task, **frames.options).spec
    envs, segments = config.num_envs, config.samplers
    steps = max(config.replay_size // (envs * segments), 2 * (config.n_step + frames.stack + 3))
    spaces = spec.observation, spec.action
    return StepReplay(*spaces, segments, steps, envs, config.n_step, config.gamma, frames.stack)
