"""Whether more threads than cores do harm: pools with eight times as many threads, beside pools with one for each core.

    python benchmarks/many_threads.py

Both take turns, by the clock and in steps a second of processor time. On a machine that does other work, too, only the
second can be trusted: by the clock, more threads get more of the cores.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import tyro

import headrace
from common import OURS, Args, Comparison, Contender, exchange, measure, random_actions, stepping
from headrace.machine import usable_cores

TASKS = (("Pong-v5", 32), ("Pong-v5", 256), ("Ant-v5", 64), ("Ant-v5", 1024), ("MinAtar-Breakout-v1", 1024),
         ("CartPole-v1", 1024), ("CartPole-v1", 65_536))  # fmt: skip
ASYNC = ("Pong-v5", "Ant-v5")  # which asynchronous pools step in the background, too
KEPT = 0.85
SETS = 4


@dataclass
class ThreadArgs(Args):
    """More threads than cores."""

    repeats: int = 7
    seconds: float = 0.6
    cores: int = 0
    """threads of the other pool; 0: as many as there are cores"""
    times: int = 8
    """threads for each of them"""


class Clocked:
    """A contender that also notes its rates in steps a second of processor time."""

    def __init__(self, run: Contender):
        self._run, self.rates = run, list[float]()

    def __call__(self, seconds: float) -> float:
        clock, used = time.perf_counter(), time.process_time()
        rate = self._run(seconds)
        worked = rate * (time.perf_counter() - clock)
        self.rates.append(round(worked / (time.process_time() - used), 1))
        return rate


def contender(stack: ExitStack, task: str, n: int, threads: int, background: bool) -> Clocked:
    more: dict[str, Any] = {"batch_size": n // 2} if background else {}
    pool = stack.enter_context(headrace.make(task, num_envs=n, num_threads=threads, seed=0, **more))
    rows = n // 2 if background else n
    actions = random_actions(pool.action_space, rows, SETS)
    if background:
        pool.async_reset()
        return Clocked(stepping(exchange(pool), actions, rows))
    pool.reset()
    return Clocked(stepping(pool.step, actions, rows))


def comparisons(args: ThreadArgs) -> Iterator[Comparison]:
    """Each case twice: by the clock, and by processor time."""
    cores = args.cores or usable_cores()
    fewer = f"{cores} threads"
    for background in (False, True):
        for task, n in TASKS:
            if background and task not in ASYNC:
                continue
            name = f"{task} N={n}{' async' if background else ''}"
            with ExitStack() as stack:
                many, few = (contender(stack, task, n, k, background) for k in (args.times * cores, cores))
                yield Comparison(name, many, {fewer: few}, wanted={fewer: KEPT})
                rates = {OURS: many.rates[1:], fewer: few.rates[1:]}  # the first was to warm up
                yield Comparison(f"{name}, of processor time", rates=rates, wanted={fewer: KEPT})


if __name__ == "__main__":
    chosen = tyro.cli(ThreadArgs)
    title = f"Pools with {chosen.times * (chosen.cores or usable_cores())} threads"
    measure("many_threads", title, comparisons(chosen), chosen)
