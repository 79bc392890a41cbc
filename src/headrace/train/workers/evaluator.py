"""The evaluator's process: whole episodes without exploration, with the newest weights, while the run continues.

It has the lowest scheduling priority, so that on a busy machine it uses only idle time. As it still uses cache, memory,
and cores that other processes leave idle for a moment, it pauses so that it uses at most its share of all cores.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import torch
from torch import Tensor

from headrace.machine import give_way, usable_cores
from headrace.train.play.agent import Agent
from headrace.train.play.evaluate import play_episodes, playing_pool
from headrace.train.play.video import film, small
from headrace.train.processes.counters import Counters
from headrace.train.processes.start import seed_of
from headrace.train.processes.weight_buffer import WeightBuffer
from headrace.train.runs.episodes import kept
from headrace.train.runs.folder import RunFolder
from headrace.train.settings.config import Config
from headrace.train.workers.policy_copy import PolicyCopy

FILMED = 0.1, 0.5  # fractions of a run after which a video of an episode is recorded
FILM_SHARE = 0.005  # maximum share of all cores' time for videos
LEAST_FILM = 1.0  # minimum processor time for a video, in seconds
EARLY, EARLIER = 600.0, 5.0  # for so many seconds the share of all cores' time is so many times as large
REST = 0.05  # seconds between two checks for new weights
RESULTS = ("return", "length", "step", "version")
"""the numbers published with evaluated weights: mean return and length, agent steps of the run, and weights' version"""


def work(
    config: Config, run: Path, weights: WeightBuffer, results: WeightBuffer, counters: Counters, restarts: int
) -> None:
    """Publishes evaluated weights with `RESULTS`, and records videos; the main function of the evaluator's process."""
    camera = Camera(config, RunFolder(run))
    with closing(Evaluator(config, int(counters.begun[0]), restarts)) as evaluator:
        due = 0.0
        while not counters.stopped:
            step = counters.total_steps()
            found = evaluator.play(weights, step, lambda: counters.stopped) if is_due(config, step, due) else None
            if found is None:
                time.sleep(REST)
                continue
            measured, pause = found
            evaluator.copy.publish(results, measured)
            counters.played[0] += config.evaluate_episodes
            due = time.monotonic() + pause
            camera.film_if_due(evaluator.agent, step, evaluator.seed, lambda: counters.stopped)


class Evaluator:
    """An agent that plays whole episodes without exploration, in a process with the lowest priority.

    Args:
        begun: agent steps of the run before it was resumed.
        restarts: the number of times that it was started before.
    """

    def __init__(self, config: Config, begun: int, restarts: int):
        give_way()
        torch.set_num_threads(1)
        self._config, self._made = config, time.monotonic()
        self.seed = seed_of(config, 2**31, restarts, begun)
        self._pool = playing_pool(config, lives=True, num_envs=config.evaluate_episodes, num_threads=1, seed=self.seed)
        self.agent = Agent(config, self._pool.spec)
        self.copy = PolicyCopy(self.agent.policies[0])

    def play(
        self, weights: WeightBuffer, step: int, stop: Callable[[], bool] = lambda: False
    ) -> tuple[Tensor, float] | None:
        """Plays episodes with the newest weights, unless they are those of the last call.

        Returns:
            `RESULTS`, float64[4], and the seconds until the next evaluation is due; None if nothing was evaluated.
        """
        version = self.copy.read(weights)
        if version is None:
            return None
        began, used = time.monotonic(), time.process_time()
        played = play_episodes(self.agent, self._pool, 1, stop=stop)
        if played is None:
            return None
        measured = torch.tensor((played.mean_return, played.mean_length, step, version), dtype=torch.float64)
        early = began - self._made < EARLY
        due = began + interval(self._config, time.process_time() - used, usable_cores(), early)
        return measured, max(0.0, due - time.monotonic())

    def close(self) -> None:
        self._pool.close()


def is_due(config: Config, step: int, due: float) -> bool:
    """Returns whether weights of agent step ``step`` should be evaluated, given the time at which the next ones are."""
    return step >= config.total_steps or (time.monotonic() >= due and step >= config.first_update)


class Camera:
    """A recorder of videos of episodes at some points of a run, within a share of the cores' time."""

    def __init__(self, config: Config, run: RunFolder):
        self._config, self._run, self._began = config, run, time.monotonic()
        done = max((one.step for one in kept(run.episodes)), default=0) / config.total_steps
        self._left = [point for point in FILMED if point > done] if config.video else []

    def film_if_due(self, agent: Agent, step: int, seed: int, stop: Callable[[], bool]) -> None:
        """Records one episode if a video is due; it ends early when its share of the processor time is used up."""
        config = self._config
        budget = FILM_SHARE * usable_cores() * (time.monotonic() - self._began)
        due = self._left and self._left[0] * config.total_steps <= step < config.total_steps
        if not due or budget < LEAST_FILM:  # a short run has only a video of its end
            return
        self._left = [point for point in self._left if step < point * config.total_steps]
        until = time.process_time() + budget
        try:
            with playing_pool(config, lives=True, num_envs=1, num_threads=1, seed=seed, **small(config)) as pool:
                film(self._run, agent, pool, step, "progress", enough=lambda: stop() or time.process_time() > until)
        except Exception:  # also of the environment's own drawing; the error is reported at the end of the run
            self._left = []


def interval(config: Config, used: float, cores: int, early: bool = False) -> float:
    """Returns the seconds between two evaluations, of which the last one ``used`` so many processor seconds."""
    share = config.evaluate_share * (EARLIER if early else 1.0)
    return max(config.evaluate_seconds, used / (share * cores))
