"""The Elo of a policy that plays both sides of a game by turns.

The mean return of such self-play is 0 whatever is learnt. So the policy plays games now and then against a player who
moves at random, and against some earlier versions of itself, each of which was clearly better than the one before.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping

import numpy as np
import torch
from torch import Tensor

from headrace.pool.pool import Pool
from headrace.pool.spec import TaskSpec
from headrace.train.algorithms.policy import Policy
from headrace.train.modules.action_masks import MASK
from headrace.train.play.agent import Agent
from headrace.train.play.evaluate import playing_pool
from headrace.train.runs import checkpoint as checkpoints
from headrace.train.runs.checkpoint import Checkpoint
from headrace.train.settings.config import Config
from headrace.train.settings.rollouts import decides_only

GAMES = 64  # against each opponent
OPENING = 2  # moves of a game at random, so that games differ
FIRST, GROWTH, MOST_BETWEEN = 1e-3, 1.5, 0.05  # when to play: the first and largest gaps, in parts of total_steps
BETTER = 0.75  # share of points, against the last of the earlier versions, with which a version becomes one of them
VERSIONS = 4  # earlier ones at most

Player = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""observations [B, …] and masks bool[B, K] of agents that decide → actions [B]"""


class Ladder:
    """Measures the newest version of a policy.

    Attributes:
        elo: 400 points are ten times the odds to win, and who moves at random has 0; None before the first games.
        against_random: share of points against who moves at random, a draw half of one.
    """

    def __init__(self, config: Config, policy: Policy, spec: TaskSpec):
        self._config, self._policy = config, policy
        point = Checkpoint(policy.model())
        with torch.random.fork_rng(devices=[]):
            self._newest, self._opponent = (Agent(config, spec, point) for _ in range(2))
        self._earlier: list[dict[str, Tensor]] = []  # their models
        self._table = np.full((1, 1), 0.5)  # shares of points of who moves at random and the earlier, of each other's
        self._due = FIRST * config.total_steps
        self.elo: float | None = None
        self.against_random: float | None = None

    @staticmethod
    def fits(config: Config, policies: list[Policy]) -> bool:
        """Returns whether one policy, without a memory, plays both sides of a game by turns."""
        module = policies[0].module
        alone = len(policies) == 1 and policies[0].agent_group.width == 2 and not module.memory_size
        return alone and decides_only(config)

    @torch.inference_mode()
    def measure(self, step: int) -> None:
        """Plays games if they are due at agent step ``step``."""
        if step < self._due:
            return
        total = self._config.total_steps
        self._due = step + min(max(step * (GROWTH - 1), FIRST * total), MOST_BETWEEN * total)
        model = {name: tensor.cpu().clone() for name, tensor in self._policy.model().items()}
        self._newest.load(model)
        random = np.random.default_rng((self._config.seed, step))

        def chance(seen: np.ndarray, masks: np.ndarray) -> np.ndarray:
            return (masks * random.random(masks.shape)).argmax(1)

        with playing_pool(self._config, num_envs=GAMES, seed=int(random.integers(1 << 31))) as pool:
            newest, opponent = player(self._newest), player(self._opponent)
            shares = [play(pool, newest, chance, chance)]
            for earlier in self._earlier:
                self._opponent.load(earlier)
                shares.append(play(pool, newest, opponent, chance))
        self.against_random = shares[0]
        table = np.block([[self._table, 1 - np.array(shares)[:, None]], [np.array([*shares, 0.5])]])
        self.elo = float(ratings(table, GAMES)[-1])
        if shares[-1] >= BETTER:
            self._table, self._earlier = table, [*self._earlier, model]
            if len(self._earlier) > VERSIONS:
                self._drop()

    def _drop(self) -> None:
        """Removes the earlier version that is closest to its neighbours in Elo, but not the last."""
        elos = ratings(self._table, GAMES)
        which = min(range(1, len(elos) - 1), key=lambda k: elos[k + 1] - elos[k - 1])
        self._table = np.delete(np.delete(self._table, which, 0), which, 1)
        del self._earlier[which - 1]

    def figures(self) -> dict[str, float | None]:
        """Returns the entries of a line of metrics."""
        return {"elo": None if self.elo is None else round(self.elo, 1), "points_against_random": self.against_random}

    # -- checkpoints -----------------------------------------------------------------------------

    def state(self) -> dict[str, Tensor]:
        numbers = [math.nan if each is None else each for each in (self.elo, self.against_random)]
        known = torch.tensor([self._due, *numbers], dtype=torch.float64)
        saved = {"ladder": known, "ladder.table": torch.tensor(self._table)}
        for number, model in enumerate(self._earlier):
            saved |= checkpoints.prefixed(f"ladder.{number}", model)
        return saved

    def load_state(self, saved: Mapping[str, Tensor]) -> None:
        if "ladder.table" in saved:  # runs of earlier releases begin anew
            self._due, *numbers = saved["ladder"].tolist()
            self.elo, self.against_random = (None if math.isnan(each) else each for each in numbers)
            self._table = saved["ladder.table"].numpy()
            self._earlier = [checkpoints.group(f"ladder.{number}", saved) for number in range(len(self._table) - 1)]


def ratings(table: np.ndarray, games: int) -> np.ndarray:
    """Returns the Elo of players that makes their games most likely, with a point lent to each side of each pair.

    400 points are ten times the odds to win (Bradley and Terry's model, fitted by Zermelo's iteration).

    Args:
        table: each player's share of points against each other one, float[K, K].
        games: of each pair.

    Returns:
        float64[K], of which the first is 0.
    """
    others = ~np.eye(len(table), dtype=bool)
    earned, strength = ((table * games + 1) * others).sum(1), np.ones(len(table))
    for _ in range(1000):
        strength = earned / ((games + 2) / (strength[:, None] + strength) * others).sum(1)
        strength /= strength[0]
    return 400 * np.log10(strength)


def play(pool: Pool, one: Player, other: Player, opening: Player) -> float:
    """Returns the first player's share of points in a game of each environment, half of which it begins.

    Args:
        opening: who makes the first moves in place of both.
    """
    obs, info = pool.reset()
    seat = np.arange(pool.num_envs) % 2  # of the first player
    earned, going = np.zeros(pool.num_envs), np.ones(pool.num_envs, bool)
    for turn in itertools.count():
        masks = info[MASK].astype(bool)
        actions = masks.argmax(2)  # the single one of who waits
        decides = (masks.sum(2) > 1) & going[:, None]
        for k, player in enumerate((one, other)):
            envs = np.flatnonzero(decides[np.arange(pool.num_envs), seat ^ k])
            if len(envs):
                rows = envs, (seat ^ k)[envs]
                actions[rows] = (opening if turn < OPENING else player)(obs[rows], masks[rows])
        obs, reward, terminated, truncated, info = pool.step(actions)
        earned += np.where(going, reward[np.arange(pool.num_envs), seat], 0.0)
        going &= ~(terminated | truncated)
        if not going.any():
            break
    return float((1 + np.sign(earned)).mean() / 2)


def player(agent: Agent) -> Player:
    """Returns who makes the most likely moves of an agent's first policy."""
    return lambda seen, masks: agent.choose(agent.policies[0], seen, None, masks)
