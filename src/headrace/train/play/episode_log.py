"""One episode of one environment as arrays: its state, actions and rewards, step by step."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from headrace.errors import OptionError
from headrace.pool.actions import ACTION
from headrace.pool.pool import Pool
from headrace.train.modules.action_masks import MASK
from headrace.train.play.agent import Agent
from headrace.train.play.evaluate import MOST_STEPS, playing_pool
from headrace.train.runs.checkpoint import Checkpoint
from headrace.train.settings.config import Config

REWARD, TERMINATED, TRUNCATED = "reward", "terminated", "truncated"


def played_episode(
    config: Config,
    point: Checkpoint,
    names: Sequence[str] | None = None,
    env_id: int = 0,
    seed: int = 1000,
    deterministic: bool = True,
) -> dict[str, np.ndarray]:
    """Returns an episode of a checkpoint's agent as arrays by name; see `headrace.train.log_episode`.

    Args:
        names, env_id, seed, deterministic: as for `headrace.train.log_episode`.

    Raises:
        OptionError: there is no such state array, or ``env_id`` is negative.
    """
    if env_id < 0:
        raise OptionError(f"env_id={env_id} must be at least 0")
    # an environment's random numbers depend only on its seed, the pool's seed plus its number; without autoreset its
    # final state can still be read
    with playing_pool(config, num_envs=1, seed=[seed + env_id], autoreset="disabled") as pool:
        return _episode(Agent(config, pool.spec, point), pool, names, deterministic)


def _episode(agent: Agent, pool: Pool, names: Sequence[str] | None, deterministic: bool) -> dict[str, np.ndarray]:
    obs, info = pool.reset()
    states = [pool.state_arrays(names)]
    results: list[dict[str, np.ndarray]] = []
    if hidden := states[0].keys() & {ACTION, REWARD, TERMINATED, TRUNCATED}:
        raise OptionError(f"the state array {min(hidden)!r} has the name of a result: name the others")
    over = False
    while not over and len(results) < MOST_STEPS:
        actions = agent.act(obs, deterministic, info.get(MASK))
        obs, reward, terminated, truncated, info = pool.step(actions)
        parts = actions if isinstance(actions, dict) else {}
        named = {f"{ACTION}:{key}": part for key, part in parts.items()} or {ACTION: actions}
        results.append({**named, REWARD: reward, TERMINATED: terminated, TRUNCATED: truncated})
        states.append(pool.state_arrays(names))
        over = bool(terminated[0] or truncated[0])
    return _joined(states) | _joined(results)


def _joined(rows: list[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """Returns rows [1, …] of all steps as arrays [steps, …]."""
    return {name: np.concatenate([row[name] for row in rows]) for name in rows[0]}
