"""What learns in turn with rollouts of a pool in this process: from each rollout, or from a replay of steps.

The replay of steps is for images, transitions over several steps, priorities and hindsight. Of processes that train
together each has a replay of its own, which it writes to the run folder on its own machine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from headrace.train.algorithms.off_policy import OffPolicy
from headrace.train.algorithms.policy import Policy
from headrace.train.algorithms.step_learner import StepLearner
from headrace.train.config.settings import Config
from headrace.train.logging.timer import Timer
from headrace.train.runners.parts import Figures, Learner
from headrace.train.runners.process_group import ProcessGroup
from headrace.train.runs import checkpoint as checkpoints
from headrace.train.runs.checkpoint import Checkpoint
from headrace.train.runs.folder import RunFolder
from headrace.train.storage.files import ReplayFiles
from headrace.train.storage.step_replay import StepReplay


class PolicyLearner(Learner):
    """The updates of all policies of a run.

    Args:
        generator: draws minibatches.

    Attributes:
        iteration: number of rollouts learnt from so far.
    """

    def __init__(self, config: Config, policies: Sequence[Policy], generator: torch.Generator, device: torch.device):
        self.config, self.policies, self.generator = config, policies, generator
        self.iteration = 0
        self._timer = Timer(device, "learning")

    def learn(self, rollouts: list[Any], step: int) -> None:
        self._timer.start()
        for policy, samples in zip(self.policies, rollouts, strict=True):
            policy.learn(samples, step, self.generator)
        self.iteration += 1
        self._timer.lap("learning")

    def finished(self, step: int) -> bool:
        return step >= self.config.total_steps

    def figures(self) -> Figures:
        """As `Learner.figures`; seconds of updates are on a GPU those of the device."""
        return Figures(self.counters(), self._timer.seconds())

    def counters(self) -> dict[str, Any]:
        return {"iteration": self.iteration}

    def state(self) -> dict[str, Tensor]:
        return {name: tensor for policy in self.policies for name, tensor in policy.state().items()}

    def load(self, point: Checkpoint, step: int) -> None:
        self.iteration = point.counters["iteration"]
        for policy in self.policies:
            policy.load_state(point.state)


class StepReplayLearner(Learner):
    """The updates that are due after each rollout, from the replay that it was written to.

    Args:
        taken: returns the agent steps of the last rollout, of all processes together.

    Attributes:
        iteration: number of rollouts so far.
        collected: agent steps of all processes since the replay was empty; those of a part that several processes began
            with count for each.
    """

    def __init__(
        self,
        config: Config,
        policy: OffPolicy,
        replay: StepReplay,
        taken: Callable[[], int],
        run: RunFolder,
        group: ProcessGroup,
    ):
        self.config: Any = config
        self.policy, self.replay, self.run, self.group, self._taken = policy, replay, run, group, taken
        self.updater = StepLearner(self.config, policy, replay)
        self.iteration = self.collected = 0
        self._files = ReplayFiles(replay, run.replay_of(group.rank))
        self._rows: Sequence[list[int]] = ()  # of each process's replay in the last save; empty in all but the first
        self._timer = Timer(policy.device, "learning")

    def learn(self, rollouts: list[Any], step: int) -> None:
        self._timer.start()
        self.iteration += 1
        taken, size = self._taken(), self.group.size
        before, self.collected = self.collected, self.collected + taken
        # all processes or none make updates, as these wait for each other
        if self.collected >= self.config.learning_starts * size and not self.group.total(int(not self.replay.held)):
            self._update(step, before)
        self.policy.explore(step + taken, self.collected // size)
        self._timer.lap("learning")

    def _update(self, step: int, before: int) -> None:
        """Makes the updates that are due after `collected` agent steps, and were not after ``before``."""
        size, ratio = self.group.size, self.config.replay_ratio
        self.updater.config = self.policy.config
        self.updater.set_rates(step)
        for _ in range(int(ratio * self.collected / size) - int(ratio * before / size)):
            self.updater.update()
        losses = self.updater.statistics()
        if losses is not None:
            self.policy.losses = losses

    def finished(self, step: int) -> bool:
        return step >= self.config.total_steps

    def figures(self) -> Figures:
        return Figures({"iteration": self.iteration}, self._timer.seconds())

    def prepare(self) -> None:
        if self.config.save_replay:
            self._rows = self.group.gather_objects(self._files.save())
        if self.group.leads:
            self.run.drop_replays(self.group.size)  # which a larger group has left

    def counters(self) -> dict[str, Any]:
        return {"iteration": self.iteration, "collected": self.collected, "replay": list(self._rows)}

    def state(self) -> dict[str, Tensor]:
        return self.policy.state() | checkpoints.prefixed("learner", self.updater.state())

    def load(self, point: Checkpoint, step: int) -> None:
        parts: list[list[int]] = point.counters.get("replay", [])
        missing = self._load_replay(parts)
        self.continues = missing is None
        if self.group.total(int(not self.continues)) == 0:
            self.collected = point.counters["collected"] * self.group.size // len(parts)
        self.iteration = point.counters["iteration"]
        # an earlier version wrote the transitions on the policy's device here
        self.policy.load_state({name: tensor for name, tensor in point.state.items() if not name.startswith("replay.")})
        self.policy.explore(step, self.collected // self.group.size)
        said = self.group.gather_objects(missing)  # what the first process tells of all
        words = [f"rank {rank}: {each}" if rank else each for rank, each in enumerate(said) if each is not None]
        self.policy.caveat = words[0] if words else None
        self.updater.updates = self.policy.updates
        self._load_learner(point.state, step, self.continues and len(parts) == self.group.size)

    def _load_replay(self, parts: list[list[int]]) -> str | None:
        """Restores one of the replays that were saved, of so many rows each; returns in words why not, or None."""
        config = self.config
        if not parts:
            reason = "an earlier version wrote it" if config.save_replay else "save_replay=False left it out"
            return self._files.without(reason, config.learning_starts)
        rank = self.group.rank % len(parts)
        saved = self._files if rank == self.group.rank else ReplayFiles(self.replay, self.run.replay_of(rank))
        return saved.load_or_say(parts[rank], config.learning_starts)

    def _load_learner(self, state: Mapping[str, Tensor], step: int, continues: bool) -> None:
        """Restores the source of minibatches, or seeds it anew where the replay is another one."""
        if continues:
            self.updater.load(checkpoints.group("learner", state))
        else:
            seed = np.random.SeedSequence((self.config.seed, step)).generate_state(1)
            self.updater.generator.manual_seed(int(seed[0]))
