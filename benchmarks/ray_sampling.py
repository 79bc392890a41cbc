"""Samplers on a local Ray cluster of several nodes beside samplers over shared memory, and what their parts cost.

Both runs have the same settings and as many samplers, and nobody learns. They take turns: who waits is stopped
(SIGSTOP). The nodes are all on this machine, so that Ray's own processes take their time from the same cores.

For the model of larger clusters (`ray_model.py`) processor time is counted, which other programs do not change: of a
sampler for a step, of the process beside the learner for an answer and for a byte, of the learner for an update. Then
each run learns at a free pace, and how old the newest rows in the replay are is noted beside its rates.
"""

from __future__ import annotations

import itertools
import os
import signal
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import tyro
from ray.cluster_utils import Cluster

from common import Args, Comparison, measure
from headrace.train.cluster.connection import QUIET
from headrace.train.config.settings import Config, make_config
from headrace.train.runners.assembly import make_trainer
from headrace.train.runs.folder import RunFolder

HERE = "shared memory"
KEPT = 0.8
STORE = 100 << 20
SETTLE = 0.3  # seconds from when processes go on to the first count
BEGIN = 300.0  # seconds in which all samplers must have begun


@dataclass
class RayArgs(Args):
    """Samplers on a local Ray cluster beside those over shared memory."""

    repeats: int = 7
    seconds: float = 3.0
    samplers: int = 2
    """of either run; the cluster has a node for each"""
    num_envs: int = 16
    """of each sampler"""
    tasks: tuple[tuple[str, str], ...] = (("HalfCheetah-v5", "sac"), ("Pong-v5", "dqn"))
    """what is sampled, and the algorithm that acts"""
    learn_seconds: float = 10.0
    """of each run that learns, too"""


class Sampling:
    """A run of which only the samplers work, unless it is told to learn."""

    def __init__(self, trainer: Any):
        self.config, self.learner, self.source = trainer.config, trainer.learner, trainer.source
        self.counters, self.supervisor, self.cluster = self.source.counters, self.source.supervisor, self.source.cluster

    def begin(self) -> None:
        """Start, and wait until every sampler steps."""
        self.learner.begin(False)
        self.source.start_workers(False)
        until = time.monotonic() + BEGIN
        while not (self.counters.steps > 0).all():
            self.source.check_workers()
            assert time.monotonic() < until, "the samplers do not begin"
            time.sleep(0.01)

    def processes(self) -> list[psutil.Process]:
        """The samplers' processes, and with a cluster the coordinator's."""
        if self.cluster is None:
            return [psutil.Process(pid) for pid in self.supervisor.pids().values()]
        return [*self.coordinators(), *actors()]

    def coordinators(self) -> list[psutil.Process]:
        """The process between learner and cluster."""
        return [psutil.Process(self.supervisor.pids()["coordinator"])]

    def rate(self, seconds: float) -> float:
        """Agent steps a second, while its processes run; they are stopped before and after."""
        with going(self.processes()):
            time.sleep(SETTLE)
            began, steps = time.perf_counter(), self.counters.total_steps()
            time.sleep(seconds)
            return (self.counters.total_steps() - steps) / (time.perf_counter() - began)

    def costs(self, seconds: float) -> dict[str, float]:
        """CPU seconds of a sampler for a step and of the coordinator for an answer, and the bytes of an answer."""
        assert self.cluster is not None
        with going(self.processes()):
            time.sleep(SETTLE)
            status, before = self.cluster._status, self._costs()
            exchanges, received = int(status.exchanges[0]), int(status.received[0])
            time.sleep(seconds)
            after = self._costs()
            answers = int(status.exchanges[0]) - exchanges
            steps = after[2] - before[2]
            return {
                "sampler_seconds_a_step": (after[0] - before[0]) / steps,
                "coordinator_seconds_an_answer": (after[1] - before[1]) / answers,
                "bytes_an_answer": (int(status.received[0]) - received) / answers,
                "bytes_a_step": (int(status.received[0]) - received) / steps,
                "answers_a_second": answers / seconds,
            }

    def _costs(self) -> tuple[float, float, int]:
        return used(actors()), used(self.coordinators()), self.counters.total_steps()

    def learned(self, seconds: float) -> dict[str, float]:
        """Rates while it learns, too, the processor seconds of an update, and the age of what comes in."""
        with going(self.processes()):
            self.learner.pace.run(2.0)
            began, steps, updates = time.perf_counter(), self.counters.total_steps(), self.learner.updater.updates
            computed, first, ages = time.process_time(), self.source.weights.version, []
            while (took := time.perf_counter() - began) < seconds:
                self.learner.pace.run(0.25)
                self.source.check_workers()
                ages.append(self._age())
            made = self.learner.updater.updates - updates
            return {
                "samplers": self.config.samplers,
                "sampling": (self.counters.total_steps() - steps) / took,
                "updates": made / took,
                "learner_seconds_an_update": (time.process_time() - computed) / max(1, made),
                "seconds_a_version": took / (self.source.weights.version - first),
                "versions": statistics.mean(ages),
            }

    def _age(self) -> float:
        """Versions of the weights since those that acted in the newest row of each sampler, on average."""
        arrays, steps = self.learner.memory.arrays, self.learner.memory.layout.steps
        newest = [arrays["version"][(int(row) - 1) % steps, number] for number, row in enumerate(arrays["written"])]
        return self.source.weights.version - statistics.mean(map(int, newest))


def actors() -> list[psutil.Process]:
    """The processes of actors on this machine that descend from this one."""
    below = psutil.Process().children(recursive=True)
    return [process for process in below if any("ray::Actor" in word for word in process.cmdline())]


def used(processes: list[psutil.Process]) -> float:
    """Processor seconds of processes so far."""
    return sum(sum(process.cpu_times()[:2]) for process in processes)


@contextmanager
def going(processes: list[psutil.Process]) -> Iterator[None]:
    """Processes that are stopped run within this context."""
    for process in processes:
        process.send_signal(signal.SIGCONT)
    try:
        yield
    finally:
        for process in processes:
            process.send_signal(signal.SIGSTOP)


def configured(task: str, algo: str, samplers: int, ray: str, args: RayArgs) -> Config:
    """A run at a free pace."""
    free: dict[str, Any] = {"total_steps": 10**12, "replay_ratio": None, "learning_starts": 0, "stop_at_return": None}
    small: dict[str, Any] = {"replay_size": 100_000, "tensorboard": False, "viewer": False, "evaluate_episodes": 0}
    sizes: dict[str, Any] = {"samplers": samplers, "num_envs": args.num_envs, "num_threads": 1, "torch_threads": 1}
    return make_config(task, algo=algo, ray=ray, **free, **small, **sizes)


@contextmanager
def run_of(config: Config) -> Iterator[Sampling]:
    """A run that has begun, its processes stopped."""
    with tempfile.TemporaryDirectory() as folder:
        trainer = make_trainer(config, RunFolder.create(Path(folder) / "run", config))
        run = Sampling(trainer)
        try:
            run.begin()
            with going(run.processes()):
                pass
            yield run
        finally:
            for process in run.processes():
                process.send_signal(signal.SIGCONT)
            trainer.close()


def comparisons(args: RayArgs, costs: list[dict[str, Any]], learning: list[dict[str, Any]]) -> Iterator[Comparison]:
    """Both runs in turns, and what the parts of the one on the cluster cost; then what comes of it while they learn."""
    head: dict[str, Any] = {"num_cpus": 0, "include_dashboard": False, "object_store_memory": STORE}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    try:
        for _ in range(args.samplers):
            cluster.add_node(num_cpus=1, object_store_memory=STORE)
        address = str(cluster.address)
        for task, algo in args.tasks:
            here, there = (configured(task, algo, args.samplers, ray, args) for ray in ("", address))
            with run_of(here) as local, run_of(there) as remote:
                name = f"{task}, {args.samplers} samplers of {args.num_envs}"
                yield Comparison(name, remote.rate, {HERE: local.rate}, wanted={HERE: KEPT})
                costs.append({"task": task, "algo": algo, "envs": args.num_envs, **remote.costs(2 * args.seconds)})
                print(costs[-1])
        for samplers, ray in itertools.product((1, args.samplers), ("", address)):
            with run_of(configured(*args.tasks[0], samplers, ray, args)) as run:
                learning.append({"where": "cluster" if ray else HERE, **run.learned(args.learn_seconds)})
                print(learning[-1])
    finally:
        cluster.shutdown()


def main() -> None:
    args, costs, learning = tyro.cli(RayArgs), [], []
    os.environ.update(QUIET)
    title, extra = "Samplers on a Ray cluster", {"costs": costs}
    measure("ray_sampling", title, comparisons(args, costs, learning), args, extra | {"learning": learning})


if __name__ == "__main__":
    main()
