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
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import gymnasium as gym
import numpy as np
import tyro

import headrace
from common import OURS, Args, Case, Contender, Report, alternate, random_actions, stepping
from process_pool import SETS, installed, make
from slow_envs import Busy

CALLER = "the caller steps its share"
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass
class ShareArgs(Args):
    """A process pool whose caller steps environments, too."""

    repeats: int = 7
    """turns that each contender gets"""
    seconds: float = 1.0
    """length of one turn"""
    workers: int = 2
    """processes that step: workers alone, or the caller and one worker fewer"""


@contextmanager
def workers_alone(maker: Callable[[], gym.Env], n: int, workers: int) -> Iterator[Contender]:
    with headrace.make(maker, executor="processes", num_envs=n, num_threads=workers, seed=0) as pool:
        pool.reset()
        yield stepping(pool.step, random_actions(pool.action_space, n, SETS), n)


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
        before = processor_seconds()
        clock = os.times().elapsed
        rate = self._run(seconds)
        steps = rate * (os.times().elapsed - clock)
        self.rates.append(round(steps / max(processor_seconds() - before, 1 / TICKS), 1))
        return rate


def processor_seconds() -> float:
    """What this process and all below it have used."""
    used, parent = {}, {}
    for path in Path("/proc").iterdir():
        if path.name.isdigit():
            try:
                fields = (path / "stat").read_text().rpartition(")")[2].split()
            except OSError:  # it has ended
                continue
            parent[int(path.name)], used[int(path.name)] = int(fields[1]), int(fields[11]) + int(fields[12])
    below, found = {os.getpid()}, True
    while found:
        found = {pid for pid, of in parent.items() if of in below} - below
        below |= found
    return sum(used.get(pid, 0) for pid in below) / TICKS


def compare(args: ShareArgs, name: str, maker: Callable[[], gym.Env], n: int) -> list[Case]:
    """Both ways in turns, by the clock and by processor time."""
    ways = {OURS: workers_alone, CALLER: caller_too}
    with ExitStack() as stack:
        runs = {way: Clocked(stack.enter_context(build(maker, n, args.workers))) for way, build in ways.items()}
        rates = alternate(runs, args)
    worked = {way: run.rates[1:] for way, run in runs.items()}  # the first was to warm up
    return [Case(name, rates), Case(f"{name}, of processor time", worked)]


def main() -> None:
    """Print the table and write the file."""
    args = tyro.cli(ShareArgs)
    settings = {"workers": args.workers, "repeats": args.repeats, "seconds": args.seconds}
    report = Report("caller_share", "Process pools: workers alone, and with a share for the caller", settings)
    for task in filter(installed, ("CartPole-v1", "LunarLander-v3", "minigrid:MiniGrid-Empty-8x8-v0")):
        print(task, file=sys.stderr, flush=True)
        report.cases += compare(args, f"{task} N=64", functools.partial(make, task), 64)
    report.cases += compare(args, "1 ms of computation N=16", functools.partial(Busy, 1.0, 1.0), 16)
    report.write(args.out)


if __name__ == "__main__":
    main()
