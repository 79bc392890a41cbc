"""Samplers on a local Ray cluster of several nodes beside samplers over shared memory.

Both runs have the same settings and as many samplers, and nobody learns. They take turns: who waits is stopped
(SIGSTOP). The nodes are all on this machine, so that Ray's own processes take their time from the same cores.
"""

from __future__ import annotations

import os
import signal
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
from headrace.train.recipes.make import make_config
from headrace.train.runners.assembly import make_trainer
from headrace.train.runs.folder import RunFolder
from headrace.train.settings.config import Config

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


class Sampling:
    """A run of which only the samplers work."""

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
        """The samplers' processes, and with a cluster the driver's."""
        workers = [psutil.Process(pid) for pid in self.supervisor.pids().values()]
        return workers if self.cluster is None else workers + actors()

    def rate(self, seconds: float) -> float:
        """Agent steps a second, while its processes run; they are stopped before and after."""
        with going(self.processes()):
            time.sleep(SETTLE)
            began, steps = time.perf_counter(), self.counters.total_steps()
            time.sleep(seconds)
            return (self.counters.total_steps() - steps) / (time.perf_counter() - began)


def actors() -> list[psutil.Process]:
    """The processes of actors on this machine that descend from this one."""
    below = psutil.Process().children(recursive=True)
    return [process for process in below if any("ray::SamplerActor" in word for word in process.cmdline())]


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


def configured(task: str, algo: str, ray: str, args: RayArgs) -> Config:
    """A run at a free pace."""
    free: dict[str, Any] = {"total_steps": 10**12, "replay_ratio": None, "learning_starts": 0, "stop_at_return": None}
    small: dict[str, Any] = {"replay_size": 100_000, "tensorboard": False, "viewer": False, "evaluate_episodes": 0}
    sizes: dict[str, Any] = {"samplers": args.samplers, "num_envs": args.num_envs, "num_threads": 1, "torch_threads": 1}
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


def comparisons(args: RayArgs) -> Iterator[Comparison]:
    """Both runs of each task, in turns."""
    head: dict[str, Any] = {"num_cpus": 0, "include_dashboard": False, "object_store_memory": STORE}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    try:
        for _ in range(args.samplers):
            cluster.add_node(num_cpus=1, object_store_memory=STORE)
        for task, algo in args.tasks:
            here, there = (configured(task, algo, ray, args) for ray in ("", str(cluster.address)))
            with run_of(here) as local, run_of(there) as remote:
                name = f"{task}, {args.samplers} samplers of {args.num_envs}"
                yield Comparison(name, remote.rate, {HERE: local.rate}, wanted={HERE: KEPT})
    finally:
        cluster.shutdown()


def main() -> None:
    args = tyro.cli(RayArgs)
    os.environ.update(QUIET)
    measure("ray_sampling", "Samplers on a Ray cluster", comparisons(args), args)


if __name__ == "__main__":
    main()
