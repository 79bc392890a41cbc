"""How good an agent is when it plays for real: whole episodes, the game's own score, no exploration."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import headrace
from headrace.train.agent import Agent, load_checkpoint
from headrace.train.config import Config
from headrace.train.masks import MASK
from headrace.train.run import RunFolder
from headrace.train.setup import make_pool
from headrace.train.tuned import is_atari

MOST_STEPS = 100_000  # agent steps of one episode; Atari's longest have 27,000


@dataclass(frozen=True)
class Evaluation:
    """Returns and lengths of the episodes played, in no particular order.

    Attributes:
        stopped: how many of them were not over when they were stopped; they count as they stood.
    """

    returns: list[float]
    lengths: list[int]
    stopped: int = 0

    @property
    def mean_return(self) -> float:
        return float(np.mean(self.returns))

    @property
    def mean_length(self) -> float:
        return float(np.mean(self.lengths))


def evaluate(
    run_dir: str | Path,
    episodes: int = 10,
    *,
    deterministic: bool = True,
    seed: int = 1000,
    which: str = "newest",
    max_steps: int = MOST_STEPS,
) -> Evaluation:
    """Play so many episodes with the agent of a run.

    Every environment plays the same number of episodes (so ``episodes`` is rounded up), since
    taking whichever end first would favour short ones. An episode that is not over after ``max_steps``
    agent steps is stopped there: some tasks have no limit, and some agents never end them.
    """
    run, config = RunFolder.open(run_dir)
    num_envs = min(episodes, 16)
    with playing_pool(config, num_envs=num_envs, seed=seed) as pool:
        agent = Agent(config, pool.spec, load_checkpoint(run, which))
        played = play_episodes(agent, pool, -(-episodes // num_envs), deterministic, max_steps)
    assert played is not None
    return played


def playing_pool(config: Config, **changes: Any) -> headrace.Pool:
    """A pool that plays by the game's own rules: for Atari, real lives and unclipped rewards."""
    options = {"episodic_life": False, "reward_clip": False} if is_atari(config.task) else {}
    return make_pool(config, batch_size=0, **(options | changes))


def play_episodes(
    agent: Agent,
    pool: headrace.Pool,
    each: int,
    deterministic: bool = True,
    max_steps: int = MOST_STEPS,
    stop: Callable[[], bool] = lambda: False,
) -> Evaluation | None:
    """Play so many episodes in ``each`` environment, as `evaluate`; None if ``stop`` said so before they were over."""
    left = np.full(pool.num_envs, each)
    earned, length = np.zeros(pool.num_envs), np.zeros(pool.num_envs, np.int64)
    returns: list[float] = []
    lengths: list[int] = []
    stopped = 0
    obs, info = pool.reset()
    while left.any():
        if stop():
            return None
        obs, reward, terminated, truncated, info = pool.step(agent.act(obs, deterministic, info.get(MASK)))
        earned += agent.score(reward)
        length += 1
        ended = terminated | truncated
        late = (length >= max_steps) & ~ended
        done = ended | late
        for i in np.flatnonzero(done & (left > 0)):
            returns.append(float(earned[i]))
            lengths.append(int(length[i]))
            stopped += int(late[i])
            left[i] -= 1
        if late.any():
            _restart(pool, obs, info, np.flatnonzero(late))
        earned[done], length[done] = 0.0, 0
        agent.forget(done)
    return Evaluation(returns, lengths, stopped)


def _restart(pool: headrace.Pool, obs: Any, info: dict[str, Any], envs: np.ndarray) -> None:
    """Begin new episodes in some environments; what is seen of them first is put in their rows."""
    for whole, part in zip(_seen(obs, info), _seen(*pool.reset(envs)), strict=True):
        whole[envs] = part


def _seen(obs: Any, info: dict[str, Any]) -> list[np.ndarray]:
    """The arrays that actions are chosen by."""
    observed = list(obs.values()) if isinstance(obs, dict) else [obs]
    return observed + ([info[MASK]] if MASK in info else [])
