"""Steps a second to expect of machines with more cores, from what one thread does here.

    python benchmarks/scaling.py

Of each batch the calling thread does a part alone (checks, copies of actions, results); the rest is shared by threads,
which claim units of one or more environments. Both are measured in processor time on one thread; what threads share
without saying so (memory, caches, clocks) by a second copy of the program beside the first. With k threads a batch then
takes: alone + parallel x second copy's factor / k + half a unit + a handover for each doubling of threads. Where this
machine has more cores than one, pools with 1, 2, 4, … threads are measured, too, and EnvPool's beside where it is
installed: the JSON file has them under "measured".

Environments in worker processes differ in two ways: what is shared is the workers' processor time, and the calling
thread wakes each of them, which is told from pools of one worker and of several.

PPO's parallel part is acting and updating in compiled code and stepping; the rest of its loop is the calling thread's.
"""

from __future__ import annotations

import functools
import importlib.util
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import tyro

import headrace
from common import Args, heading, random_actions, random_steps, tell, write
from headrace.machine import usable_cores
from headrace.pool.executors.kernels.launch_splitter import LaunchSplitter

CORES = (1, 4, 8, 16, 32, 64, 256)
SHOWN = 32  # cores
WANTED = 0.7  # of them
HANDOVER = 3e-6  # seconds, for each doubling of threads: to wake a thread, or to be found by one that looks
MOST_ENVS = 1 << 22
WORKERS = 8  # processes, beside one, from which the cost of each is told
SETS = 4  # of random actions


@dataclass(frozen=True)
class Case:
    """What is measured: a task and its number of environments.

    Attributes:
        units: threads → the environments that one of them claims at once.
        envpool: EnvPool's name of the task.
        processes: whether workers are processes.
    """

    name: str
    task: str
    num_envs: int
    units: Callable[[int, int], float]
    envpool: str = ""
    processes: bool = False


def chunk(group: int, n: int, threads: int) -> float:
    """Environments of native simulators that a thread claims at once, as in `native/engine/workers.cpp`."""
    at_once = min(max(n // (threads * 16), 1), 64)
    return min(n, -(-at_once // group) * group)


def rows(n: int, threads: int) -> float:
    """Rows by which a thread's share of a kernel may be larger than others, as in ``kernels/helper_threads.py``."""
    return min(64, max(1, n // (8 * threads)))


CASES = (
    Case("Atari, Pong", "Pong-v5", 256, functools.partial(chunk, 1), "Pong-v5"),
    Case("MuJoCo in lanes, Ant", "Ant-v5", 1024, functools.partial(chunk, 8), "Ant-v4"),
    Case("kernels, CartPole", "CartPole-v1", 65_536, rows, "CartPole-v1"),
    Case("kernels, MinAtar's Breakout", "MinAtar-Breakout-v1", 65_536, rows),
    Case("Python, LunarLander in processes", "gymnasium:LunarLander-v3", 256, lambda n, threads: 1.0, processes=True),
)
PPO = Case("PPO, CartPole, 256 steps, 256 x 256", "CartPole-v1", 256, lambda n, threads: 0.0)


@dataclass
class ScalingArgs(Args):
    """A model of scale."""

    seconds: float = 3.0
    """processor time of each measurement"""
    cases: tuple[str, ...] = ("Atari", "MuJoCo", "kernels", "Python", "PPO")
    """what to measure: beginnings of names"""
    beside: str = ""
    """for the second copy: the case that it repeats until it is ended"""


@dataclass
class Measured:
    """Seconds of one batch on one thread: what the caller does alone, and what threads share."""

    alone: float
    parallel: float
    num_envs: int
    bytes: float = 0.0  # of an environment's results


class Clock:
    """Sums up the processor time of a thread in calls, which may be within one another, and of worker processes."""

    def __init__(self) -> None:
        self.seconds, self._depth = 0.0, 0
        self.workers: list[Path] = []  # files with the nanoseconds of each

    def begin(self) -> None:
        self.seconds, self._begun, self._of_workers = 0.0, time.thread_time(), self._worked()

    def read(self) -> tuple[float, float]:
        """Returns the processor time since `begin`: of the thread outside of the calls, and of all that is shared.

        Where there are workers, that is their time; the calls are the thread's wait for them.
        """
        alone = time.thread_time() - self._begun - self.seconds
        return alone, self._worked() - self._of_workers if self.workers else self.seconds

    def _worked(self) -> float:
        return sum(1e-9 * int(file.read_text().split()[0]) for file in self.workers)

    def timed(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any, **more: Any) -> Any:
            if self._depth:
                return call(*args, **more)
            self._depth, begin = 1, time.thread_time_ns()
            try:
                return call(*args, **more)
            finally:
                self.seconds += (time.thread_time_ns() - begin) * 1e-9
                self._depth = 0

        return run


class Timed:
    """An engine whose steps are timed."""

    def __init__(self, engine: Any, clock: Clock):
        self._engine, self.step = engine, clock.timed(engine.step)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)


@contextmanager
def launches_timed(clock: Clock) -> Iterator[None]:
    launch = LaunchSplitter.launch
    LaunchSplitter.launch = lambda self, rows, whole: clock.timed(launch(self, rows, whole))  # type: ignore[method-assign]
    try:
        yield
    finally:
        LaunchSplitter.launch = launch  # type: ignore[method-assign]


@contextmanager
def stepped(task: str, n: int, clock: Clock, threads: int = 1) -> Iterator[tuple[Callable[[], Any], float]]:
    """A pool of one thread, or of several workers: a call that steps it, and the bytes of one environment's results."""
    with launches_timed(clock), headrace.make(task, num_envs=n, num_threads=threads, seed=0) as pool:
        executor: Any = pool._executor
        if hasattr(executor, "_dispatch"):
            executor._dispatch._rest = clock.timed(executor._dispatch._rest)
            clock.workers = [Path(f"/proc/{executor._dispatch._workers.pid(i)}/schedstat") for i in range(threads)]
        if hasattr(executor, "_engine"):
            executor._engine = Timed(executor._engine, clock)
        pool.reset()
        sets, at = random_actions(pool.action_space, n, SETS), 0

        def step() -> Any:
            nonlocal at
            at = (at + 1) % SETS
            return pool.step(sets[at])

        yield step, sum(a.nbytes for a in pool._ring.take(n).arrays.values()) / n


@contextmanager
def trained(clock: Clock, n: int = PPO.num_envs, num_steps: int = 256) -> Iterator[tuple[Callable[[], Any], float]]:
    """PPO's loop on one thread: a call of one iteration; CartPole, networks of 256 x 256."""
    import torch

    from headrace.train.modules.compiled_networks import CompiledNetwork
    from plain_ppo import Settings
    from ppo_speed import ours

    torch.set_num_threads(1)
    plain = {name: getattr(CompiledNetwork, name) for name in ("forward", "epoch")}
    with launches_timed(clock), tempfile.TemporaryDirectory() as folder:
        for name, call in plain.items():
            timed = clock.timed(call)
            setattr(CompiledNetwork, name, lambda *args, timed=timed, **more: timed(*args, **more))
        settings = Settings(n, num_steps, 4, max(256, n * num_steps // 8))
        trainer, _ = ours(PPO.task, settings, Path(folder) / "run", hidden=(256, 256), num_threads=1, torch_threads=1)
        try:
            yield trainer.iterate, 0.0
        finally:
            trainer.close()
            for name, call in plain.items():
                setattr(CompiledNetwork, name, call)


def measured(case: Case, n: int, seconds: float, threads: int = 1) -> Measured:
    """Median of five parts of the time."""
    clock = Clock()
    with trained(clock, n) if case is PPO else stepped(case.task, n, clock, threads) as (call, size):
        call()  # the first binds, compiles
        clock.begin()
        call()
        calls = 1 + int(seconds / 5 / max(1e-6, sum(clock.read())))
        alone, parallel = [], []
        for _ in range(3 if case is PPO else 5):
            clock.begin()
            for _ in range(calls):
                call()
            spent = clock.read()
            alone.append(spent[0] / calls)
            parallel.append(spent[1] / calls)
    return Measured(median(alone), median(parallel), n, size)


def second_copy(case: Case, n: int, seconds: float) -> float:
    """How many times as much processor time threads take when another copy runs on another core; at least 1.

    Each copy has half of a batch of ``n``, as each of two threads has: caches hold what they hold for those.
    """
    alone = measured(case, n // 2, seconds).parallel
    command = [sys.executable, __file__, "--beside", case.name]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as other:
        try:
            assert other.stdout is not None
            other.stdout.readline()  # it has begun
            return max(1.0, measured(case, n // 2, seconds).parallel / alone)
        finally:
            other.kill()


class Model:
    """Seconds of a batch with so many environments and threads, from batches of two sizes.

    ``each_worker`` is what the calling thread does alone for each worker process beyond the first.
    """

    def __init__(self, case: Case, small: Measured, large: Measured, factor: float, each_worker: float = 0.0):
        self._each_worker = each_worker
        self._units, self._factor = case.units, factor
        more = large.num_envs - small.num_envs
        self._alone_each = max(0.0, (large.alone - small.alone) / more)
        self._alone_once = max(0.0, large.alone - self._alone_each * large.num_envs)
        self._parallel_each = large.parallel / large.num_envs

    def alone(self, n: int) -> float:
        return self._alone_once + self._alone_each * n

    def batch(self, n: int, threads: int) -> float:
        if threads == 1:
            return self.alone(n) + self._parallel_each * n
        each = self._parallel_each * self._factor
        shared = each * (n / threads + self._units(n, threads) / 2)
        handovers = HANDOVER * (threads.bit_length() - 1) + self._each_worker * (min(n, threads) - 1)
        return self.alone(n) + max(shared, each) + handovers

    def share(self, n: int, threads: int) -> float:
        """Steps a second, of those of one thread times the number of threads."""
        return self.batch(n, 1) / threads / self.batch(n, threads)

    def envs_for(self, threads: int) -> str:
        """The least power of two of environments that reaches what is wanted of so many threads."""
        n = 1
        while n <= MOST_ENVS:
            if self.share(n, threads) >= WANTED:
                return f"{n:,}"
            n *= 2
        return "none"

    def saturates(self, n: int) -> str:
        """The number of threads from which on twice as many are not 1.2 times as fast."""
        threads = 1
        while threads < 4096 and self.batch(n, threads) >= 1.2 * self.batch(n, 2 * threads):
            threads *= 2
        return f"{threads}" if threads < 4096 else "beyond 4,096"


def row(case: Case, args: ScalingArgs) -> tuple[dict[str, Any], Model]:
    n = case.num_envs
    large, small = (measured(case, k, args.seconds) for k in (n, max(16, n // 4)))
    factor = second_copy(case, n, args.seconds) if usable_cores() > 1 else 1.0
    more = (measured(case, n, args.seconds, WORKERS).alone - large.alone) / (WORKERS - 1) if case.processes else 0.0
    model, steps = Model(case, small, large, factor, max(0.0, more)), 256 if case is PPO else 1
    rate = {cores: n * steps / model.batch(n, cores) for cores in CORES}
    return {
        "case": f"{case.name}, N={n:,}",
        "alone, ms": round(1e3 * large.alone, 4),
        "parallel, ms": round(1e3 * large.parallel, 3),
        "second copy": round(factor, 2),
        **{f"{cores} cores, steps/s" if cores == 1 else f"{cores}": f"{each:,.0f}" for cores, each in rate.items()},
        f"of {SHOWN} x one core's": round(model.share(n, SHOWN), 2),
        **{f"N for {WANTED} x {cores}": model.envs_for(cores) for cores in CORES[1:]},
        "saturates at": model.saturates(n),
        "GB/s written at 32": round(rate[SHOWN] * large.bytes / 1e9, 2),
    }, model


def on_this_machine(case: Case, model: Model, args: ScalingArgs) -> list[dict[str, Any]]:
    """Rates by the clock with 1, 2, 4, … threads, as many as there are cores; the model's; and EnvPool's."""
    found, threads, n = [], 1, case.num_envs
    while threads <= usable_cores():
        with headrace.make(case.task, num_envs=n, num_threads=threads, seed=0) as pool:
            run = random_steps(pool, n, SETS)
            run(1.0)  # kernels find out how many threads are worthwhile
            one = {"case": case.name, "threads": threads, "measured": run(args.seconds)}
        one["expected"] = n / model.batch(n, threads)
        if case.envpool and importlib.util.find_spec("envpool"):
            import envpool

            theirs = envpool.make_gymnasium(case.envpool, num_envs=n, num_threads=threads, seed=0)
            one["envpool"] = random_steps(theirs, n, SETS)(args.seconds)
            theirs.close()
        found.append({key: round(value) if isinstance(value, float) else value for key, value in one.items()})
        print(found[-1], flush=True)
        threads *= 2
    return found


def repeat(case: Case) -> None:
    """The second copy."""
    clock = Clock()
    n = case.num_envs // 2
    with trained(clock, n) if case is PPO else stepped(case.task, n, clock) as (call, _):
        call()
        print("begun", flush=True)
        while True:
            call()


def main() -> None:
    args = tyro.cli(ScalingArgs)
    all_cases = (*CASES, PPO)
    if args.beside:
        repeat(next(case for case in all_cases if case.name == args.beside))
    record = heading("scaling", "Steps a second expected of more cores") | {"rows": [], "measured": []}
    record["note"] = (
        "Expected from processor time on one thread: what the calling thread does alone for a batch, what threads "
        "share, and how much longer that takes beside a second copy."
    )
    for case in all_cases:
        if not case.name.startswith(args.cases):
            continue
        told, model = row(case, args)
        record["rows"].append(told)
        print(told, flush=True)
        if case is not PPO:
            record["measured"] += on_this_machine(case, model, args)
        write(args.out, record)
    tell(args.out, record)


if __name__ == "__main__":
    main()
