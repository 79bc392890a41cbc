"""Runs whose learner takes whole rollouts from samplers that act with slightly older policies: PPO with V-trace."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from headrace.errors import OptionError
from headrace.train.algorithms.on_policy import OnPolicy
from headrace.train.config.registry import find_algorithm
from headrace.train.config.settings import Config
from headrace.train.runners.asynchronous import AsyncTrainer
from headrace.train.runners.checks import check_workers
from headrace.train.runs.checkpoint import Checkpoint
from headrace.train.runs.folder import RunFolder
from headrace.train.storage.rollout_slots import Rollouts
from headrace.train.workers import rollout_sampler
from headrace.train.workers.rollout_learner import RolloutLearner


class OnPolicyTrainer(AsyncTrainer):
    """A run of PPO with workers.

    Attributes:
        rollouts: the slots of rollouts that samplers write to and `learner` reads from.
    """

    learner: RolloutLearner

    def __init__(self, config: Config, run: RunFolder, resume: Checkpoint | None = None):
        check(config)
        super().__init__(config, run, resume)
        # all updates from a rollout may take too long after Ctrl-C
        self.policy.interrupted = lambda: bool(self._interrupt)

    def _make_learner(self) -> RolloutLearner:
        config, policy = self.config, self.policy
        assert isinstance(policy, OnPolicy)
        if policy.memory_size:
            raise OptionError("a recurrent network is for samplers=0: workers do not hand its memory on")
        stored = policy.distribution.action_shape, torch.empty(0, dtype=policy.distribution.action_dtype).numpy().dtype
        sizes = config.samplers, config.rollout_slots, config.num_steps, config.num_envs, sum(policy.heads)
        self.rollouts = Rollouts(self.spec.observation, *stored, *sizes)
        return RolloutLearner(config, policy, self.rollouts, self.weights)

    def _memory(self) -> Rollouts:
        return self.rollouts

    def _sampler(self, number: int) -> tuple[Callable[..., None], tuple[Any, ...]]:
        return rollout_sampler.work, (self.config, number, self.rollouts, self.weights, self.counters)

    def _update(self) -> bool:
        return not self.finished() and self.learner.learn()

    def finished(self) -> bool:
        return self.learner.steps >= self.config.total_steps

    def speeds(self) -> dict[str, float | None]:
        """Returns recent rates per second, as `AsyncTrainer.speeds`; a rollout may be smaller than a minibatch."""
        speeds, rows = super().speeds(), self.config.num_steps * self.config.num_envs
        updates = speeds["updates"]
        size = min(rows, self.config.minibatch_size)
        return speeds | {"update_frames": None if updates is None else updates * size}

    # -- checkpoints -----------------------------------------------------------------------------

    def _state(self) -> dict[str, Tensor]:
        """Returns the state of this process; rollouts that wait for the learner are not saved."""
        return super()._state() | self.learner.state()

    def _counters(self) -> dict[str, Any]:
        return super()._counters() | {"learnt": self.learner.steps}

    def _load(self, point: Checkpoint) -> None:
        super()._load(point)
        self.learner.load_state(point.state)
        self.learner.steps = point.counters["learnt"]

    def close(self) -> None:
        """Ends all workers, and frees the memory that they share, including the rollouts."""
        super().close()
        self.rollouts.close()


def check(config: Config) -> None:
    """Checks that a run with these settings can have workers, and that its algorithm can learn from their rollouts.

    Raises:
        OptionError: one of these is not the case; the message names the setting.
    """
    if not find_algorithm(config.algo).capabilities.workers:
        raise OptionError(f"algo={config.algo!r} is for samplers=0: it does not learn from what workers collect")
    check_workers(config)
