"""Collects rollouts into a replay of steps, in the process that learns.

Pools are on the host, with next-step autoreset. A rollout's memory holds what the policy saw and did, for statistics;
what is learnt from is in the replay.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from headrace.pool.batch import OBS
from headrace.pool.registry import build_task
from headrace.train.algorithms.policy import Policy
from headrace.train.collect.collector import MASKS, Collector
from headrace.train.collect.host import HOST
from headrace.train.collect.outcome import FinalObservations, Outcome
from headrace.train.collect.rollout_buffer import EVERYWHERE
from headrace.train.collect.steps import Frames, StepRecorder
from headrace.train.config.settings import Config
from headrace.train.modules.policy_mapping import AgentGroup
from headrace.train.runs import checkpoint as checkpoints
from headrace.train.storage.writer import StepWriter


class StepCollector(Collector):
    """Steps a `Pool` of one agent an environment, and writes its steps to a replay.

    Args:
        config: the settings of the run, with the options of the task as they are now.
        pool: a pool with ``autoreset="next_step"``, whose observations are those that are stored.
    """

    def __init__(self, config: Config, pool: Any, policy: Policy, device: torch.device, writer: StepWriter):
        super().__init__(config, build_task(config.task, **config.env_options).spec, [policy], HOST, device)
        self.pool = pool
        self._scores = self._tensor(self.steps, self.num_envs)
        self._ends, self._taken = (self._tensor(self.steps, self.num_envs, dtype=torch.bool) for _ in range(2))
        self.taken = self._taken
        self._recorder = StepRecorder(
            pool, policy, writer, Frames.of(config).stack, lambda: f"after {writer.written:,} of each environment"
        )

    def start(self) -> None:
        self._recorder.begin()

    @torch.inference_mode()
    def collect(self) -> list[Any]:
        """Takes T steps in every environment, and writes them to the replay; `draw` must be called before.

        Returns:
            An empty list, as what is learnt from is in the replay.
        """
        self._run()
        ran = self._clock()
        (experience,) = self.experiences
        ends = self.terminated.to(self.device), self.truncated.to(self.device)
        outcome = Outcome(self.rewards.to(self.device), *ends, self._taken.to(self.device), None)
        experience.update_statistics(outcome)
        self.seconds["learning"] += self._clock() - ran
        return []

    def _run(self) -> None:
        (experience,), clock = self.experiences, self._clock
        now = clock()
        self._look(0)
        for t in range(self.steps):
            taken = experience.act(t, EVERYWHERE).cpu().numpy()
            actions = experience.actions[t].cpu()
            acted = clock()
            step = self._recorder.step(actions, taken)
            for row, values in (
                (self.rewards, step.rewards),
                (self.terminated, step.terminated),
                (self.truncated, step.truncated),
                (self._taken, step.taken),
                (self._scores, step.scores),
                (self._ends, step.ends),
            ):
                row[t] = torch.from_numpy(values)
            self._look(t + 1)
            stepped = clock()
            self.seconds["inference"] += acted - now
            self.seconds["env"] += stepped - acted
            now = stepped

    def _look(self, t: int) -> None:
        self.observations[OBS][t] = self._recorder.observations()
        if (masks := self._recorder.masks()) is not None:
            self.masks[MASKS][t] = masks

    def _final_observations(self, agent_group: AgentGroup) -> FinalObservations | None:
        return None  # they are in the replay

    # -- checkpoints -----------------------------------------------------------------------------

    def state(self) -> dict[str, Tensor]:
        return checkpoints.prefixed("steps", self._recorder.state())

    def load_state(self, saved: Mapping[str, Tensor]) -> None:
        self._recorder.load(checkpoints.group("steps", saved))

    # -- for reporting ---------------------------------------------------------------------------

    def scores(self, agent_group: AgentGroup) -> Tensor:
        """Returns the game's own rewards, float32[T, N]."""
        return self._scores

    @property
    def ends(self) -> Tensor:
        """Returns where the game itself ended or was truncated, bool[T, N]."""
        return self._ends
