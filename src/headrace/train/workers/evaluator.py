"""Evaluation: whole episodes without exploration, by the newest weights, while everybody else goes on.

It gives way to all others: on a busy machine it gets what they leave over. Even so it takes caches and memory from
them, and cores that they leave for a moment only; so it rests for as long as its share of all cores asks for.
"""

from __future__ import annotations

import os
import time

import torch

from headrace.pool.registry import usable_cores
from headrace.train.config import Config
from headrace.train.evaluate import play_episodes, playing_pool
from headrace.train.workers.acting import unlearnt_agent
from headrace.train.workers.board import Board
from headrace.train.workers.sampler import seed_of
from headrace.train.workers.weights import WeightBuffer

REST = 0.05  # seconds between looks at whether there is something to do
RESULTS = ("return", "length", "step", "version")
"""what goes with weights that were evaluated: mean return and length, agent steps of the run, and their version"""


def work(config: Config, weights: WeightBuffer, results: WeightBuffer, board: Board, life: int) -> None:
    """The process of the evaluator: publishes the weights that it has evaluated, with `RESULTS`."""
    give_way()
    torch.set_num_threads(1)
    number = config.evaluate_episodes
    with playing_pool(config, num_envs=number, num_threads=1, seed=seed_of(config, 2**31, life)) as pool:
        agent, acting = unlearnt_agent(config, pool.spec)
        due = 0.0
        while not board.stopped:
            step, version = board.total_steps(), None
            over = step >= config.total_steps
            if over or (time.monotonic() >= due and step >= config.learning_starts):
                version = acting.read(weights)
            if version is None:
                time.sleep(REST)
                continue
            began, used = time.monotonic(), time.process_time()
            played = play_episodes(agent, pool, 1, stop=lambda: board.stopped)
            if played is not None:
                measured = played.mean_return, played.mean_length, step, version
                acting.publish(results, torch.tensor(measured, dtype=torch.float64))
                board.played[0] += number
            due = began + interval(config, time.process_time() - used, usable_cores())


def interval(config: Config, used: float, cores: int) -> float:
    """Seconds from the beginning of one evaluation, which used so many of a core, to that of the next."""
    return max(config.evaluate_seconds, used / (config.evaluate_share * cores))


def give_way() -> None:
    """Run when nobody else wants to."""
    if hasattr(os, "nice"):
        os.nice(19)
