"""The Elo of a policy that plays both sides of a game by turns.

The mean return of such self-play is 0 whatever the policy learns. Now and then the policy therefore plays games against
a player that moves at random, and against some earlier versions of itself. Each of these was clearly better than the
one before.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from headrace.pool.pool import Pool
from headrace.pool.spec import TaskSpec
from headrace.train.algorithms.policy import Policy
from headrace.train.modules.action_masks import MASK
from headrace.train.play.agent import Agent, load_checkpoint
from headrace.train.play.evaluate import Evaluation, opened, playing_pool
from headrace.train.runs import checkpoint as checkpoints
from headrace.train.runs.checkpoint import Checkpoint
from headrace.train.settings.config import Config
from headrace.train.settings.rollouts import decides_only

GAMES = 64  # number of games against each opponent
OPENING = 2  # number of first moves that are random, so that games differ
FIRST, GROWTH, MOST_BETWEEN = 1e-3, 1.5, 0.05  # gaps between games, in parts of total_steps
BETTER = 0.75  # a version is kept if it wins this share of the points against the last one that was kept
VERSIONS = 4  # maximum number of kept versions

Player = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""a function that maps observations [B, …] and masks bool[B, K] of agents to their actions, int64[B]"""


class Ladder:
    """Measures the newest version of a policy.

    Attributes:
        elo: the rating of the newest version, None before the first games. The random player has 0, and a player with
            400 points more than another one has ten times the odds to win.
        against_random: the share of points that the policy wins against the random player; a draw is half a point.
    """

    def __init__(self, config: Config, policy: Policy, spec: TaskSpec):
        self._config, self._policy = config, policy
        point = Checkpoint(policy.model())
        with torch.random.fork_rng(devices=[]):
            self._newest, self._opponent = (Agent(config, spec, point) for _ in range(2))
        self._earlier: list[dict[str, Tensor]] = []  # the models of the kept versions
        self._table = np.full((1, 1), 0.5)  # as for `ratings`: the random player, then the kept versions
        self._due = FIRST * config.total_steps
        self.elo: float | None = None
        self.against_random: float | None = None

    @staticmethod
    def fits(config: Config, policies: Sequence[Policy]) -> bool:
        """Returns whether a run has a single policy, without a memory, that plays both sides of a game by turns."""
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

        chance = random_player(random)
        with playing_pool(self._config, num_envs=GAMES, seed=int(random.integers(1 << 31))) as pool:
            newest, opponent = player(self._newest), player(self._opponent)
            shares = [play(pool, newest, chance, chance).mean()]
            for earlier in self._earlier:
                self._opponent.load(earlier)
                shares.append(play(pool, newest, opponent, chance).mean())
        self.against_random = float(shares[0])
        table = np.block([[self._table, 1 - np.array(shares)[:, None]], [np.array([*shares, 0.5])]])
        self.elo = float(ratings(table, GAMES)[-1])
        if shares[-1] >= BETTER:
            self._table, self._earlier = table, [*self._earlier, model]
            if len(self._earlier) > VERSIONS:
                self._drop()

    def _drop(self) -> None:
        """Removes the kept version whose rating is closest to those of its neighbours; the last one stays."""
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
    """Returns the Elo ratings that make the results of players' games most likely.

    The model is that of Bradley and Terry, fitted by Zermelo's iteration. Each player is given one further point
    against each other player, so that no rating is infinite.

    Args:
        table: the share of points that each player (row) won against each other player (column), float[K, K].
        games: the number of games of each pair.

    Returns:
        The ratings, float64[K]; that of the first player is 0.
    """
    others = ~np.eye(len(table), dtype=bool)
    earned, strength = ((table * games + 1) * others).sum(1), np.ones(len(table))
    for _ in range(1000):
        strength = earned / ((games + 2) / (strength[:, None] + strength) * others).sum(1)
        strength /= strength[0]
    return 400 * np.log10(strength)


def evaluate_against_random(run_dir: str | Path, games: int, *, seed: int) -> Evaluation | None:
    """Returns the points of a run's agent in games against a player that moves at random, as returns.

    A victory is 1 point and a draw half a point. Returns None for a run of which this says nothing: other than a game
    by turns whose two sides one policy plays. Raises as `evaluate`.
    """
    run, config = opened(run_dir, None, False)
    if not decides_only(config):
        return None
    with playing_pool(config, num_envs=games, seed=seed) as pool:
        agent = Agent(config, pool.spec, load_checkpoint(run))
        if not Ladder.fits(config, agent.policies):
            return None
        chance = random_player(np.random.default_rng(seed))
        return Evaluation(play(pool, player(agent), chance, chance).tolist(), [])


def play(pool: Pool, one: Player, other: Player, opening: Player) -> np.ndarray:
    """Plays a game in each environment; returns the points of player ``one``, float64[N]: 1, or 0.5 for a draw, or 0.

    It begins half of the games. Player ``opening`` makes the first `OPENING` moves of both sides.
    """
    obs, info = pool.reset()
    seat = np.arange(pool.num_envs) % 2  # the seats of player `one`
    earned, going = np.zeros(pool.num_envs), np.ones(pool.num_envs, bool)
    for turn in itertools.count():
        masks = info[MASK].astype(bool)
        actions = masks.argmax(2)  # an agent that waits has only this one
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
    return (1 + np.sign(earned)) / 2


def random_player(random: np.random.Generator) -> Player:
    """Returns a player each of whose moves is as likely as another."""
    return lambda seen, masks: (masks * random.random(masks.shape)).argmax(1)


def player(agent: Agent) -> Player:
    """Returns a player that makes the most likely moves of an agent's first policy."""
    return lambda seen, masks: agent.choose(agent.policies[0], seen, None, masks)
