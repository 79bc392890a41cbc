"""Runs that collect and learn in turn from a replay of steps: of images, over several steps, by priority or hindsight.

Of processes that train together each has a replay of its own, which it writes to the run folder on its own machine.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from headrace.pool.registry import build_task
from headrace.train.algorithms.off_policy import OffPolicy
from headrace.train.algorithms.policy import Policy
from headrace.train.algorithms.step_learner import StepLearner
from headrace.train.collect.collector import Collector
from headrace.train.collect.host import HOST
from headrace.train.collect.setup import agent_groups, check_room, make_policy, make_pool, prepare, rewarded
from headrace.train.collect.step_collector import StepCollector
from headrace.train.collect.steps import Frames, make_replay
from headrace.train.runners.synchronous import Trainer
from headrace.train.runs import checkpoint as checkpoints
from headrace.train.runs.checkpoint import Checkpoint
from headrace.train.storage.files import ReplayFiles


class StepTrainer(Trainer):
    """A run in turn with a replay of steps; arguments as of `Trainer`.

    Attributes:
        replay: what the collector writes and the learner reads.
        collected: agent steps of all processes since the replay was empty; those of a part that several processes began
            with count for each.
    """

    policy: OffPolicy
    collected = 0
    _rows: Sequence[list[int]] = ()
    """rows of each process's replay in the last save; empty in all processes but the first"""
    _missing: str | None = None
    """in words, why a resumed run began with an empty replay"""

    def _present(self) -> Any:
        return dataclasses.replace(self.config, env_options=self._options)

    def _training_pool(self) -> Any:
        now = self._present()
        return rewarded(now, make_pool(now, autoreset="next_step", **Frames.of(now).options))

    def _make_policies(self) -> Sequence[Policy]:
        config: Any = self.config
        (agent_group,) = agent_groups(config, build_task(config.task, **config.env_options).spec).values()
        prepare(config, [agent_group])
        policy = make_policy("", config, agent_group, self.device)
        assert isinstance(policy, OffPolicy)
        self.policy = policy
        self.replay = make_replay(config, sum(self.policy.heads))
        self.learner = StepLearner(config, self.policy, self.replay)
        self._files = ReplayFiles(self.replay, self.run.replay_of(self.group.rank))
        return [self.policy]

    def _make_collector(self) -> Collector:
        now = self._present()
        check_room(now, build_task(now.task, **now.env_options).spec, HOST)
        return StepCollector(now, self.pool, self.policy, self.device, self.replay.writer(0))

    def iterate(self) -> None:
        self.policy.explore(self.step, self.collected // self.group.size)
        super().iterate()

    def _steps_taken(self) -> int:
        assert self.collector.taken is not None
        return self.group.total(int(self.collector.taken.sum()))

    def _learn(self, rollouts: list[Any], taken: int) -> None:
        config: Any = self.policy.config
        before, self.collected = self.collected, self.collected + taken
        size, ratio = self.group.size, config.replay_ratio
        if self.collected < config.learning_starts * size or self.group.total(int(not self.replay.held)):
            return  # all processes or none make updates, as these wait for each other
        self.learner.config = config
        self.learner.set_rates(self.step)
        for _ in range(int(ratio * self.collected / size) - int(ratio * before / size)):
            self.learner.update()
        losses = self.learner.statistics()
        if losses is not None:
            self.policy.losses = losses

    # -- checkpoints -----------------------------------------------------------------------------

    def save(self) -> Path | None:
        """As `Trainer.save`; every process writes its replay first."""
        if self.config.save_replay:  # type: ignore[attr-defined]
            self._rows = self.group.gather_objects(self._files.save())
        written = super().save()
        if self.group.leads:
            self.run.drop_replays(self.group.size)  # which a larger group has left
        return written

    def _counters(self) -> dict[str, Any]:
        return super()._counters() | {"collected": self.collected, "replay": list(self._rows)}

    def _state(self) -> dict[str, Tensor]:
        return super()._state() | checkpoints.prefixed("learner", self.learner.state())

    def _load(self, point: Checkpoint) -> None:
        parts: list[list[int]] = point.counters.get("replay", [])
        self._missing = self._load_replay(parts)
        if self.group.total(int(self._missing is not None)) == 0:
            self.collected = point.counters["collected"] * self.group.size // len(parts)
        # an earlier version wrote the transitions on the policy's device here
        state = {name: tensor for name, tensor in point.state.items() if not name.startswith("replay.")}
        super()._load(dataclasses.replace(point, state=state))
        said = self.group.gather_objects(self._missing)  # what the first process tells of all
        words = [f"rank {rank}: {each}" if rank else each for rank, each in enumerate(said) if each is not None]
        self.policy.caveat = words[0] if words else None
        self.learner.updates = self.policy.updates
        self._load_learner(point.state, continues=self._missing is None and len(parts) == self.group.size)

    def _load_replay(self, parts: list[list[int]]) -> str | None:
        """Restores one of the replays that were saved, of so many rows each; returns in words why not, or None."""
        config: Any = self.config
        if not parts:
            reason = "an earlier version wrote it" if config.save_replay else "save_replay=False left it out"
            return self._files.without(reason, config.learning_starts)
        rank = self.group.rank % len(parts)
        saved = self._files if rank == self.group.rank else ReplayFiles(self.replay, self.run.replay_of(rank))
        return saved.load_or_say(parts[rank], config.learning_starts)

    def _load_learner(self, state: Mapping[str, Tensor], continues: bool) -> None:
        """Restores the source of minibatches, or seeds it anew where the replay is another one."""
        if continues:
            self.learner.load(checkpoints.group("learner", state))
        else:
            seed = np.random.SeedSequence((self.config.seed, self.step)).generate_state(1)
            self.learner.generator.manual_seed(int(seed[0]))

    def _continues(self, point: Checkpoint) -> bool:
        return super()._continues(point) and self._missing is None
