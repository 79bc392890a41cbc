"""Whether the calling process of a process pool should step a share of the environments itself.

    python benchmarks/caller_share.py

With W cores a pool has W workers, and the calling process sleeps while they step. The other way is W - 1 workers and a
caller that steps the last share, which saves one wake-up a step. It is built here from what is public: a pool with
W - 1 workers is sent its actions, the caller steps its own environments in a loop and writes their results into arrays,
then receives. Both are measured by the clock, and in steps a second of processor time, of the caller and its workers
together: what is in the way of neither is told by the first, what work there is by the second.
"""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import gymnasium as gym
import numpy as np
import tyro

import headrace
from common import OURS, Args, Comparison, Contender, measure, random_actions, stepping
from headrace.train.logging.hardware import family_of, processor_seconds
from process_pool import SETS, installed, make, ours
from slow_envs import Busy

CALLER = "the caller steps its share"
TICK = 0.01  # seconds, which processor time is told in


@dataclass
class ShareArgs(Args):
    """A process pool whose caller steps environments, too."""

    seconds: float = 1.0
    workers: int = 2
    """processes that step: workers alone, or the caller and one worker fewer"""


@contextmanager
def caller_too(maker: Callable[[], gym.Env], n: int, workers: int) -> Iterator[Contender]:
    own = n // workers
    envs = [maker() for _ in range(own)]
    for i, env in enumerate(envs):
        env.reset(seed=i)
    seen = np.zeros((own, *(envs[0].observation_space.shape or ())), envs[0].observation_space.dtype)
    reward, ends = np.zeros(own, np.float32), np.zeros((2, own), np.bool_)
    with headrace.make(maker, executor="processes", num_envs=n - own, num_threads=workers - 1, seed=own) as pool:
        pool.reset()

        def step(actions: np.ndarray) -> None:
            pool.send(actions[own:], pool.all_env_ids)
            for i, env in enumerate(envs):
                obs, reward[i], ends[0, i], ends[1, i], _ = env.step(actions[i])
                seen[i] = env.reset()[0] if ends[:, i].any() else obs
            pool.recv()

        yield stepping(step, random_actions(pool.action_space, n, SETS), n)
    for env in envs:
        env.close()


class Clocked:
    """A contender that also notes its rates in steps a second of processor time."""

    def __init__(self, run: Contender):
        self._run, self.rates = run, list[float]()

    def __call__(self, seconds: float) -> float:
        before, clock = used(), time.perf_counter()
        rate = self._run(seconds)
        steps = rate * (time.perf_counter() - clock)
        self.rates.append(round(steps / max(used() - before, TICK), 1))
        return rate


def used() -> float:
    """Processor seconds of this process and all below it."""
    found = processor_seconds(family_of(os.getpid()))
    assert found is not None, "the system does not say what processor time a process took"
    return found


def comparisons(args: ShareArgs) -> Iterator[Comparison]:
    """Both ways in turns, by the clock and by processor time."""
    tasks = filter(installed, ("CartPole-v1", "gymnasium:LunarLander-v3", "minigrid:MiniGrid-Empty-8x8-v0"))
    cases = {f"{task} N=64": (functools.partial(make, task), 64) for task in tasks}
    cases["1 ms of computation N=16"] = functools.partial(Busy, 1.0, 1.0), 16
    for name, (maker, n) in cases.items():
        with ExitStack() as stack:
            alone, share = (Clocked(stack.enter_context(way(maker, n, args.workers))) for way in (ours, caller_too))
            yield Comparison(name, alone, {CALLER: share})
            worked = {OURS: alone.rates[1:], CALLER: share.rates[1:]}  # the first was to warm up
            yield Comparison(f"{name}, of processor time", rates=worked)


if __name__ == "__main__":
    chosen = tyro.cli(ShareArgs)
    title = "Process pools whose caller steps a share"
    measure("caller_share", title, comparisons(chosen), chosen)
