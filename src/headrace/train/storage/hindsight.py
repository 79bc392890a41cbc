"""A replay that replaces goals by what was achieved later in the episode, and recomputes the rewards.

Hindsight experience replay (Andrychowicz et al. 2017, arXiv:1707.01495), with the strategy that it calls *future*: in a
share of the transitions drawn, the goal becomes what was achieved at a later step of the same episode, drawn uniformly.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from headrace.errors import OptionError
from headrace.pool.goals import Goals
from headrace.pool.registry import build_task
from headrace.train.config.replay import ReplayConfig
from headrace.train.storage.device_replay import Replay, Transitions


class HindsightReplay(Replay):
    """As `Replay`, of whole steps of all columns.

    Args:
        capacity: the largest number of transitions that it holds.
        inputs, actions: columns of one observation and of one action.
        columns: transitions of one step, one for each environment.
        goals: where goals are in observations, and the rewards for reaching them.
        share: the probability that a transition's goal is replaced.
        generator: draws which goals are replaced, and by which.
        device: the device of its memory.
    """

    def __init__(
        self,
        capacity: int,
        inputs: int,
        actions: int,
        columns: int,
        goals: Goals,
        share: float,
        generator: torch.Generator,
        device: torch.device | str = "cpu",
    ):
        super().__init__(capacity // columns * columns, inputs, actions, device)
        self.columns, self.goals, self.share, self.generator = columns, goals, share, generator
        self._judge = goals.judge()
        self._steps = self.capacity // columns
        # for each row the last known step of its episode, and for each column the first step of the unfinished episode
        self._last = torch.zeros(self.capacity, dtype=torch.int64, device=device)
        self._began = torch.zeros(columns, dtype=torch.int64, device=device)

    def write(self, new: Transitions, present: Tensor | None = None, over: Tensor | None = None) -> None:
        """As `Replay.write`, for a rollout [T · columns] in the order of its steps; ``over`` is required."""
        assert over is not None and present is None, "goals are for environments with one agent"
        over = over.view(-1, self.columns)
        first, count = int(self.written) // self.columns, len(over)
        super().write(new)
        last = torch.full_like(over, first + count - 1, dtype=torch.int64)
        for t in range(count - 2, -1, -1):
            last[t] = torch.where(over[t], first + t, last[t + 1])
        last[-1] = first + count - 1
        oldest = max(int(self._began.min()), first + count - self._steps, 0)
        before = torch.arange(oldest, first, device=last.device).view(-1, 1)
        goes_on = before >= self._began
        rows = (before * self.columns + torch.arange(self.columns, device=last.device)) % self.capacity
        self._last[rows[goes_on]] = last[0].expand(goes_on.shape)[goes_on]
        places = (
            torch.arange(first * self.columns, (first + count) * self.columns, device=last.device)
        ) % self.capacity
        self._last[places] = last.flatten()
        for t in range(count):
            self._began[over[t]] = first + t + 1

    def read(self, rows: Tensor) -> Transitions:
        """As `Replay.read`, with some transitions' goals replaced and their rewards recomputed."""
        some = super().read(rows)
        chance = torch.rand(2, len(rows), generator=self.generator, device=self.generator.device).to(rows.device)
        chosen = (chance[0] < self.share).nonzero().squeeze(1)
        if not len(chosen):
            return some
        goals = self._achieved_later(rows[chosen], chance[1, chosen])
        inputs, following = some.inputs.clone(), some.following.clone()
        rewards, discounts = some.rewards.clone(), some.discounts.clone()
        for seen in (inputs, following):
            seen[chosen, self.goals.desired] = goals
        achieved = following[chosen, self.goals.achieved]
        earned, ends = self._judge(achieved.cpu().numpy(), goals.cpu().numpy())
        rewards[chosen] = torch.from_numpy(earned).to(rewards.device)
        if ends is not None:
            discounts[chosen] = torch.from_numpy(~ends).to(discounts)
        return some._replace(inputs=inputs, following=following, rewards=rewards, discounts=discounts)

    def _achieved_later(self, rows: Tensor, chance: Tensor) -> Tensor:
        """Returns the goal achieved at a step of a row's episode, its own or a later one, float32[B, G]."""
        newest = int(self.written) // self.columns - 1
        step = newest - (newest - rows // self.columns) % self._steps
        ahead = (chance * (self._last[rows] - step + 1)).to(torch.int64)
        later = (rows + torch.minimum(ahead, self._last[rows] - step) * self.columns) % self.capacity
        *_, following = self.memory[later].split(self._widths, 1)
        return following[:, self.goals.achieved]

    def state(self) -> dict[str, Tensor]:
        return super().state() | {"last": self._last, "began": self._began}

    def load(self, state: Mapping[str, Tensor]) -> None:
        super().load(state)
        self._last.copy_(state["last"])
        self._began.copy_(state["began"])


def goals_for(config: ReplayConfig) -> Goals:
    """Returns the goals of a run's task.

    Raises:
        OptionError: the task has no goals, its observations are not flat, or its rewards are changed by a setting.
    """
    if config.reward is not None:
        raise OptionError(f"hindsight={config.hindsight} asks the environment for rewards: leave reward out")
    goals = build_task(config.task, **config.env_options).goals
    if goals is None:
        raise OptionError(
            f"hindsight={config.hindsight} is for Gymnasium environments whose observations are a Dict of observation, "
            f"achieved_goal and desired_goal, with a compute_reward and the option flat_observation=True, which "
            f"{config.task} is not"
        )
    return goals
