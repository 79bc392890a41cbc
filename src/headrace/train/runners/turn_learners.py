"""What learns in turn with rollouts of a pool in this process: from each rollout, or from a replay.

Each policy with a replay has a ring on its device. A replay of steps is for images, transitions over several steps,
priorities and hindsight. Of processes that train together each has a replay of its own, which it writes to the run
folder on its own machine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from headrace.train.algorithms.off_policy import OffPolicy
from headrace.train.algorithms.policy import Policy
from headrace.train.algorithms.updater import Updater
from headrace.train.logging.timer import Timer
from headrace.train.processes.process_group import ProcessGroup
from headrace.train.runners.parts import Figures, Learner
from headrace.train.runs import checkpoint as checkpoints
from headrace.train.runs.checkpoint import Checkpoint
from headrace.train.runs.folder import RunFolder
from headrace.train.settings.config import Config
from headrace.train.storage.files import ReplayFiles
from headrace.train.storage.prioritised import PrioritisedReplay
from headrace.train.storage.step_replay import StepReplay
from headrace.train.storage.transitions import Recorded


class RingLearner:
    """The updates that are due after each rollout, from the ring that it is added to.

    Attributes:
        collected: agent steps since the ring was empty; agents that had left count, as counting others waits.
    """

    def __init__(self, policy: OffPolicy, generator: torch.Generator):
        self.policy, self.replay, self.collected = policy, policy._ring(), 0
        self.updater = Updater(policy, self.replay, generator)

    def learn(self, rollout: Recorded, step: int, generator: torch.Generator) -> None:
        self.replay.add(*rollout)
        config, before = self.policy.config, self.collected
        self.collected += config.num_steps * config.num_envs * self.policy.agent_group.width
        self.updater.explore(step, self.collected)
        self.updater.learn(before, self.collected, step)

    def state(self) -> dict[str, Tensor]:
        """As `Policy.state`, with the ring unless ``save_replay`` is False."""
        state = self.policy.state() | self.updater.state()
        if self.policy.config.save_replay:
            kept = self.replay.state() | {"collected": torch.tensor(self.collected)}
            state |= checkpoints.prefixed(self.policy.prefix("replay"), kept)
        return state

    def load_state(self, saved: Mapping[str, Tensor]) -> None:
        """Restores what `state` returned; without a ring in it, learning continues once an empty one has filled."""
        policy, self.collected = self.policy, 0
        self.updater.load(saved)
        kept = checkpoints.group(policy.prefix("replay"), saved)
        if kept:
            self.replay.load(kept)
            self.collected = int(kept["collected"])
        else:
            which = f"policy {policy.name!r}" if policy.name else "the policy"
            policy.caveat = f"{which} begins with an empty replay, as save_replay=False left it out of the checkpoint"
        self.updater.explore(self.collected, self.collected)
        policy.load_state(saved)


class PolicyLearner(Learner):
    """The updates of all policies of a run.

    Args:
        generator: draws minibatches.

    Attributes:
        learners: what learns each policy from a rollout: the policy itself, or a `RingLearner`.
        iteration: number of rollouts learnt from so far.
    """

    def __init__(self, policies: Sequence[Policy], generator: torch.Generator, device: torch.device):
        self.generator, self.iteration = generator, 0
        self.learners: list[Any] = [
            RingLearner(policy, generator) if isinstance(policy, OffPolicy) and not policy.config.frozen else policy
            for policy in policies
        ]
        self._timer = Timer(device, "learning")

    def learn(self, rollouts: list[Any], step: int) -> None:
        self._timer.start()
        for learner, samples in zip(self.learners, rollouts, strict=True):
            if samples is not None:  # else it is frozen
                learner.learn(samples, step, self.generator)
        self.iteration += 1
        self._timer.lap("learning")

    def figures(self) -> Figures:
        """As `Learner.figures`; seconds of updates are on a GPU those of the device."""
        return Figures(self.counters(), self._timer.seconds())

    def counters(self) -> dict[str, Any]:
        return {"iteration": self.iteration}

    def state(self) -> dict[str, Tensor]:
        return {name: tensor for learner in self.learners for name, tensor in learner.state().items()}

    def load(self, point: Checkpoint, step: int) -> None:
        self.iteration = point.counters["iteration"]
        for learner in self.learners:
            learner.load_state(point.state)


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
        self.updater = Updater(policy, replay)
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
            self.updater.learn(before / size, self.collected / size, step)
        self.updater.explore(step + taken, self.collected / size)
        self._timer.lap("learning")

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
        drawing: dict[str, Tensor] = {"drawing": self.updater.generator.get_state()}
        if isinstance(self.updater.replay, PrioritisedReplay):
            drawing |= checkpoints.prefixed("priorities", self.updater.replay.state())
        return self.policy.state() | self.updater.state() | checkpoints.prefixed("learner", drawing)

    def load(self, point: Checkpoint, step: int) -> None:
        parts: list[list[int]] = point.counters.get("replay", [])
        missing = self._load_replay(parts)
        self.continues = missing is None
        if self.group.total(int(not self.continues)) == 0:
            self.collected = point.counters["collected"] * self.group.size // len(parts)
        self.iteration = point.counters["iteration"]
        self.policy.load_state(point.state)
        self.updater.load(point.state)
        self.updater.explore(step, self.collected / self.group.size)
        said = enumerate(self.group.gather_objects(missing))  # what the first process tells of all
        words = (f"rank {rank}: {each}" if rank else each for rank, each in said if each is not None)
        self.policy.caveat = next(words, None)
        self._load_drawing(point.state, step, self.continues and len(parts) == self.group.size)

    def _load_replay(self, parts: list[list[int]]) -> str | None:
        """Restores one of the replays that were saved, of so many rows each; returns in words why not, or None."""
        rank = self.group.rank % len(parts) if parts else self.group.rank
        saved = self._files if rank == self.group.rank else ReplayFiles(self.replay, self.run.replay_of(rank))
        return saved.load_or_say(parts[rank] if parts else None, self.config.learning_starts)

    def _load_drawing(self, state: Mapping[str, Tensor], step: int, continues: bool) -> None:
        """Restores the source of batches, or seeds it anew where the replay is another one.

        Without priorities in the checkpoint, all begin with the highest.
        """
        if not continues:
            seed = np.random.SeedSequence((self.config.seed, step)).generate_state(1)
            self.updater.generator.manual_seed(int(seed[0]))
            return
        drawing, replay = checkpoints.group("learner", state), self.updater.replay
        self.updater.generator.set_state(drawing["drawing"])
        priorities = checkpoints.group("priorities", drawing)
        if isinstance(replay, PrioritisedReplay) and priorities:
            replay.load(priorities)
