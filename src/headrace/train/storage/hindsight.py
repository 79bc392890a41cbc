"""Draws from a replay of steps, with goals replaced by what was achieved later in the episode, and rewards for them.

Hindsight experience replay (Andrychowicz et al. 2017, arXiv:1707.01495), with the strategy that it calls *future*: in a
share of the transitions drawn, the goal becomes what was achieved at a later step of the same episode, drawn uniformly.
"""

from __future__ import annotations

import torch
from torch import Tensor

from headrace.errors import OptionError
from headrace.pool.goals import Goals
from headrace.train.settings.config import Config
from headrace.train.storage.layout import FIRST
from headrace.train.storage.reader import observed
from headrace.train.storage.step_replay import StepReplay
from headrace.train.storage.transitions import Transitions

AHEAD = 64  # rows of an episode that are looked at together


class HindsightReplay:
    """Reads from a `StepReplay` of single steps, and replaces some goals.

    Args:
        goals: where goals are in observations, and the rewards for reaching them.
        share: the probability that a transition's goal is replaced.

    Attributes:
        numbers: the numbers of the transitions that were sampled last, int64[B].
    """

    numbers = torch.zeros(0, dtype=torch.int64)

    def __init__(self, replay: StepReplay, goals: Goals, share: float):
        self.replay, self.n_step = replay, replay.n_step
        self.goals, self.share = goals, share
        self._judge = goals.judge()
        self._records = torch.from_numpy(replay.arrays["record"]).flatten(0, 2)
        self._flags = torch.from_numpy(replay.arrays["flags"]).flatten()

    def sample(self, size: int, generator: torch.Generator) -> Transitions:
        """As `StepReplay.sample`, with some transitions' goals replaced and their rewards recomputed."""
        self.numbers = self.replay.draw((size,), generator)
        return self.read(self.numbers, generator)

    def read(self, numbers: Tensor, generator: torch.Generator) -> Transitions:
        """As `StepReplay.read`, with goals replaced; the generator draws which, and by which."""
        chance = torch.rand(2, len(numbers), generator=generator)
        chosen = (chance[0] < self.share).nonzero().squeeze(1)
        while True:
            some = self.replay.read(numbers)
            goals = self._achieved_later(numbers[chosen], chance[1, chosen])
            lost = self.replay.lost(numbers)
            if lost is None:  # else later rows may have been overwritten as well
                return self._with_goals(some, chosen.to(some.rewards.device), goals.to(some.rewards.device))
            numbers[lost] = self.replay.draw((int(lost.sum()),), generator)

    def _with_goals(self, some: Transitions, chosen: Tensor, goals: Tensor) -> Transitions:
        if not len(chosen):
            return some
        inputs, next_observations = some.inputs.clone(), some.next_observations.clone()
        rewards, discounts = some.rewards.clone(), some.discounts.clone()
        for seen in (inputs, next_observations):
            seen[chosen, self.goals.desired] = goals
        achieved = next_observations[chosen, self.goals.achieved]
        earned, ends = self._judge(achieved.cpu().numpy(), goals.cpu().numpy())
        rewards[chosen] = torch.from_numpy(earned).to(rewards.device)
        if ends is not None:
            discounts[chosen] = self.replay.gamma * torch.from_numpy(~ends).to(discounts)
        return some._replace(inputs=inputs, next_observations=next_observations, rewards=rewards, discounts=discounts)

    def _achieved_later(self, numbers: Tensor, chance: Tensor) -> Tensor:
        """Returns the goals achieved at steps of some rows' episodes, their own or later ones, [B, G]."""
        layout = self.replay.layout
        steps = (chance * self._steps_left(numbers)).to(torch.int64)
        rows = (numbers + (steps + 1) * layout.stride).remainder_(layout.size)
        return observed(layout, self._records.index_select(0, rows)[:, : layout.inputs])[:, self.goals.achieved]

    def _steps_left(self, numbers: Tensor) -> Tensor:
        """Returns the number of steps from some rows to the last known observation of their episodes, int64[B]."""
        layout = self.replay.layout
        known = self.replay.rows_since(numbers)
        left, goes_on = torch.zeros_like(known), known > 0
        for begin in range(0, int(known.max()) if len(known) else 0, AHEAD):
            ahead = torch.arange(begin + 1, begin + AHEAD + 1).unsqueeze(1)
            flags = self._flags.take((numbers + ahead * layout.stride).remainder_(layout.size))
            same = ((flags & FIRST == 0) & (ahead <= known)).to(torch.int64).cumprod(0).sum(0)
            left += torch.where(goes_on, same, 0)
            goes_on &= same == AHEAD
            if not goes_on.any():
                break
        return left


def goals_for(config: Config) -> Goals:
    """Returns the goals of a run's task.

    Raises:
        OptionError: the task has no goals, its observations are not flat, or a setting changes its rewards, or may.
    """
    if config.reward is not None:
        raise OptionError(f"hindsight={config.hindsight} asks the environment for rewards: leave reward out")
    for name in ("curriculum", "option_schedules"):
        if vars(config)[name]:
            raise OptionError(
                f"hindsight={config.hindsight} asks for the rewards of the task with env_options: leave {name} out, "
                "which changes options during the run, or hindsight"
            )
    goals = config.build().goals
    if goals is None:
        raise OptionError(
            f"hindsight={config.hindsight} is for tasks whose observations are a Dict of observation, achieved_goal "
            f"and desired_goal, with a compute_reward (Gymnasium) or goal_reward (MuJoCo tasks) and the option "
            f"flat_observation=True, which {config.task} is not"
        )
    return goals
