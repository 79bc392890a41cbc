"""The evaluator process: whole episodes without exploration, with the newest weights, while the run continues.

It has the lowest scheduling priority, so that on a busy machine it uses only idle time. It still takes cache and
memory, and cores that the others leave for a moment only; it therefore pauses so that it uses at most its share of all
cores.
"""

from __future__ import annotations

import os
import time

import torch

from headrace.machine import usable_cores
from headrace.train.config.settings import Config
from headrace.train.play.evaluate import play_episodes, playing_pool
from headrace.train.processes.counters import Counters
from headrace.train.processes.weight_buffer import WeightBuffer
from headrace.train.workers.policy_copy import unlearnt_agent
from headrace.train.workers.seeds import seed_of

REST = 0.05  # seconds between checks for new weights
RESULTS = ("return", "length", "step", "version")
"""what goes with weights that were evaluated: mean return and length, agent steps of the run, and their version"""


def work(config: Config, weights: WeightBuffer, results: WeightBuffer, counters: Counters, life: int) -> None:
    """The evaluator's process: publishes the weights that it has evaluated, with `RESULTS`."""
    give_way()
    torch.set_num_threads(1)
    number = config.evaluate_episodes
    seed = seed_of(config, 2**31, life, int(counters.begun[0]))
    with playing_pool(config, num_envs=number, num_threads=1, seed=seed) as pool:
        agent, acting = unlearnt_agent(config, pool.spec)
        due = 0.0
        while not counters.stopped:
            step, version = counters.total_steps(), None
            over = step >= config.total_steps
            if over or (time.monotonic() >= due and step >= config.first_update):
                version = acting.read(weights)
            if version is None:
                time.sleep(REST)
                continue
            began, used = time.monotonic(), time.process_time()
            played = play_episodes(agent, pool, 1, stop=lambda: counters.stopped)
            if played is not None:
                measured = played.mean_return, played.mean_length, step, version
                acting.publish(results, torch.tensor(measured, dtype=torch.float64))
                counters.played[0] += number
            due = began + interval(config, time.process_time() - used, usable_cores())


def interval(config: Config, used: float, cores: int) -> float:
    """Returns the seconds between the beginnings of two evaluations, if one used ``used`` seconds of core time."""
    return max(config.evaluate_seconds, used / (config.evaluate_share * cores))


def give_way() -> None:
    """Give this process the lowest scheduling priority."""
    if hasattr(os, "nice"):
        os.nice(19)
