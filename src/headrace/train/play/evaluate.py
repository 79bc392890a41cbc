"""Evaluation of an agent in whole episodes, with the game's own rewards and without exploration."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from headrace.errors import OptionError, RecvTimeoutError
from headrace.pool.make_pool import check_int
from headrace.pool.pool import Pool
from headrace.pool.registry import family_of
from headrace.pool.structure import mapped, space_text
from headrace.train.collect.curriculum import final_options
from headrace.train.collect.game_values import game_over, lost_steps
from headrace.train.collect.pools import make_pool
from headrace.train.modules.action_masks import MASK, has_masks
from headrace.train.play.agent import Agent, checkpoint_path, load_checkpoint
from headrace.train.runs import checkpoint as checkpoints
from headrace.train.runs.checkpoint import Checkpoint
from headrace.train.runs.folder import RunFolder
from headrace.train.runs.words import return_text
from headrace.train.settings.config import Config

MOST_ENVS = 16  # maximum number of environments of an evaluation
MOST_STEPS = 100_000  # maximum number of agent steps of an episode; Atari's longest episodes have 27,000
JUDGED = "judged"
SEED = 2000  # of the environments in which the last weights, and the best ones until then, are compared
HOW = {"evaluation": "episodes without exploration", "training": "episodes of training"}
Judged = dict[str, Any]


@dataclass(frozen=True)
class Evaluation:
    """The results of the episodes that were played.

    Attributes:
        returns, lengths: return, and number of agent steps, of each episode, in the order in which they ended.
        stopped: number of episodes stopped at the step limit; their returns are those until then.
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
    which: str = "best",
    max_steps: int = MOST_STEPS,
    env_options: Mapping[str, Any] | None = None,
    trust: bool = False,
    shown: Callable[[int, int], None] = lambda episodes, steps: None,
) -> Evaluation:
    """Plays episodes with the agent of a run, and returns their returns and lengths.

    The number of episodes of each environment is fixed in advance, since taking the episodes that end first would
    favour short ones. An episode that is not over after ``max_steps`` agent steps is stopped, as some tasks have no
    limit, and some agents never end an episode.

    Args:
        deterministic: whether to take the most likely actions, instead of sampling them as in training.
        which: the ``"best"`` or the ``"newest"`` checkpoint, or the name of its folder, such as
            ``"step-000000040960"``.
        max_steps: maximum number of agent steps of one episode.
        env_options: options of the task in place of the run's, such as ``{"push": 0.5}``.
        trust: as in `headrace.train.resume`.
        shown: called after each step with the number of finished episodes, and of steps that each environment took.

    Raises:
        OptionError: there is no run, it has no checkpoint yet, or its agent cannot play with these options.
        TrustError: as in `headrace.train.resume`.
    """
    check_int("episodes", episodes, 1)
    run, config = opened(run_dir, env_options, trust)
    num_envs = min(episodes, MOST_ENVS)
    with playing_pool(config, lives=True, num_envs=num_envs, seed=seed) as pool:
        agent = Agent(config, pool.spec, load_checkpoint(run, which))
        each = np.full(num_envs, episodes // num_envs)
        each[: episodes % num_envs] += 1
        played = play_episodes(agent, pool, each, deterministic, max_steps, shown=shown)
    assert played is not None
    return played


def opened(run_dir: str | Path, env_options: Mapping[str, Any] | None, trust: bool) -> tuple[RunFolder, Config]:
    """Returns a run, and its settings with other options of its task.

    Raises:
        OptionError: there is no run, the task has no such option, or it changes the observations or actions.
        TrustError: as in `headrace.train.resume`.
    """
    run, config = RunFolder.open(run_dir, trust=trust)
    if not env_options:
        return run, config
    changed = config.replace(env_options={**config.env_options, **env_options})
    ours, learnt = changed.build().spec, config.build().spec
    for what in ("observation", "action"):
        here, there = getattr(ours, what), getattr(learnt, what)
        if here != there:
            told = ", ".join(f"{name}={value!r}" for name, value in env_options.items())
            raise OptionError(f"with {told} the {what} is {space_text(here)}; the agent learnt {space_text(there)}")
    return run, changed


def playing_pool(config: Config, *, lives: bool = False, **changes: Any) -> Pool:
    """Returns a pool of the final task on the host with the game's own rewards, which for Atari are not clipped.

    Args:
        lives: whether lost lives end episodes as they did in training, which `play_episodes` supports. Each life then
            begins as in training, with FIRE pressed; an agent that never had to press it would wait for ever.
            Otherwise an episode is a whole game.
        changes: arguments of `headrace.make` that replace the run's.
    """
    family = family_of(config.task)
    options = family.evaluation(lives) if family and family.evaluation else {}
    return make_pool(config, batch_size=0, **(final_options(config) | {**options} | changes))


def play_episodes(
    agent: Agent,
    pool: Pool,
    each: int | np.ndarray,
    deterministic: bool = True,
    max_steps: int = MOST_STEPS,
    stop: Callable[[], bool] = lambda: False,
    shown: Callable[[int, int], None] = lambda episodes, steps: None,
    until: float = math.inf,
) -> Evaluation | None:
    """Plays episodes in each environment of a pool, and returns their returns and lengths; see `evaluate`.

    Where lost lives end the pool's episodes, an episode of the result is a whole game.

    Args:
        pool: the pool, which must have autoreset.
        each: number of episodes of each environment: one number, or int64[N].
        deterministic, max_steps, shown: as for `evaluate`.
        stop: called before each step; playing stops once it returns True.
        until: time of `time.monotonic` at which playing stops, even if an environment has not answered.

    Returns:
        The evaluation; None if it was stopped.
    """

    def patience() -> float | None:
        return None if until == math.inf else max(0.0, until - time.monotonic())

    left = np.broadcast_to(each, pool.num_envs).copy()
    earned, length = np.zeros(pool.num_envs), np.zeros(pool.num_envs, np.int64)
    returns: list[float] = []
    lengths: list[int] = []
    stopped = steps = 0
    agent.reset()
    try:
        pool.async_reset()
        obs, info = pool.recv(patience(), reset=True)
        while left.any():
            if stop() or patience() == 0.0:
                return None
            pool.send(agent.act(obs, deterministic, info.get(MASK)))
            obs, reward, terminated, truncated, info = pool.recv(patience())
            earned += agent.score(reward)
            length += 1
            over = game_over(pool.spec, terminated, truncated, info)
            late = (length >= max_steps) & ~over
            done = over | late
            lost = lost_steps(info)  # of an episode that was lost with its process nothing is known: another is played
            for i in np.flatnonzero(done & (left > 0) if lost is None else done & (left > 0) & ~lost):
                returns.append(float(earned[i]))
                lengths.append(int(length[i]))
                stopped += int(late[i])
                left[i] -= 1
            steps += 1
            shown(len(returns), steps)
            if late.any():
                _restart(pool, obs, info, np.flatnonzero(late))
            earned[done], length[done] = 0.0, 0
            agent.reset(done | terminated)
    except RecvTimeoutError:
        return None
    return Evaluation(returns, lengths, stopped)


def _restart(pool: Pool, obs: Any, info: dict[str, Any], envs: np.ndarray) -> None:
    new, told = pool.reset(envs)
    mapped(lambda whole, part: whole.__setitem__(envs, part), obs, new)
    if has_masks(pool.spec):
        info[MASK][envs] = told[MASK]


def judged(by: Literal["evaluation", "training", "self-play"], mean_return: float, episodes: int) -> Judged:
    return {"by": by, "return": mean_return, "episodes": episodes}


def compare(config: Config, agent: Agent, best: Checkpoint | None, seconds: float) -> tuple[Judged | None, ...]:
    """Evaluates an agent, and the best checkpoint so far unless evaluations have judged it already.

    Args:
        agent: the agent, whose weights are replaced.
        best: the best checkpoint so far, if any.
        seconds: maximum time. Ctrl-C ends it earlier.

    Returns:
        How both are judged now; None for an agent whose episodes took too long.
    """
    until, known = time.monotonic() + seconds, None if best is None else best.counters.get(JUDGED)
    own = None
    try:
        with playing_pool(config, lives=True, num_envs=config.evaluate_episodes, seed=SEED) as pool:

            def played() -> Judged | None:
                found = play_episodes(agent, pool, 1, until=until)
                return found and judged("evaluation", found.mean_return, len(found.returns))

            own = played()
            if own is not None and best is not None and (known is None or known["by"] == "training"):
                agent.load(best.model)
                known = played() or known
    except KeyboardInterrupt:
        pass
    return own, known


def describe_checkpoint(run: RunFolder, which: str = checkpoints.BEST) -> str:
    """Returns in words which checkpoint ``which`` is: its agent steps, and how it was judged."""
    path = checkpoint_path(run, which)
    counters = checkpoints.read_counters(path)
    name = path.name if path.name == checkpoints.BEST else "newest" if which == checkpoints.BEST else which
    words = f"{name} checkpoint, of step {counters['step']:,}"
    known = counters.get(JUDGED)
    if known is None or known["by"] == "self-play":  # whose mean return is always 0
        return words
    return f"{words}: mean return {return_text(known['return'])} of {known['episodes']} {HOW[known['by']]}"


def training_return(run: RunFolder, which: str = checkpoints.BEST) -> float | None:
    """Returns the mean return of training's episodes by which a checkpoint was judged; None if others judged it."""
    known = checkpoints.read_counters(checkpoint_path(run, which)).get(JUDGED)
    return known["return"] if known is not None and known["by"] == "training" else None


def best_evaluation(run: RunFolder) -> float | None:
    """Returns the mean return with which evaluations judged a run's best checkpoint; None if they did not."""
    path = run.checkpoints / checkpoints.BEST
    known = checkpoints.read_counters(path).get(JUDGED) if path.is_dir() else None
    return known["return"] if known is not None and known["by"] == "evaluation" else None
