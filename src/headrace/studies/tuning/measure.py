"""Measurements of training for a few seconds: rates of sampling and updates, and use of cores and memory.

A measurement is a real run in a temporary folder, without waiting for a replay ratio and without evaluations. With
workers, samplers run beside a learner in this process. A run that collects and learns in turn is measured in a separate
process, which frees all memory when it ends. Its memory is limited, so that a size that needs more memory fails because
of the limit, before it exhausts the device's memory.
"""

from __future__ import annotations

import dataclasses
import os
import statistics
import tempfile
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import torch

from headrace.errors import HeadraceError, OptionError, WorkerError
from headrace.machine import is_lack, usable_cores
from headrace.pool.executors.processes.fork_server import heed_parent, starting
from headrace.pool.executors.processes.task import spaces_read_once
from headrace.train.algorithms.graphs import EAGER_CALLS
from headrace.train.collect.setup import find_device, training_pool
from headrace.train.config.settings import Config
from headrace.train.logging import memory_use
from headrace.train.logging.hardware import gpu_use, processor_seconds
from headrace.train.processes.start import (
    Report,
    cause_of_death,
    needs_script,
    take_cores,
    worker_context,
)
from headrace.train.runners.in_process import runner_for
from headrace.train.runners.off_policy import OffPolicyTrainer
from headrace.train.runners.process_group import ProcessGroup
from headrace.train.runs.folder import RunFolder

REPLAY = 100_000  # maximum size of a probe's replay, in steps, as a probe does not collect more
UPDATES = 3  # updates before the first window; on CUDA, in addition to those that capture graphs
SETTLE = 0.1  # seconds between the warm-up and the first window
WINDOWS = 2  # number of windows of one measurement
APART = 0.1  # relative difference of two windows above which a third is measured
PATIENCE = 20.0  # maximum duration of the warm-up, in seconds
PATIENCE_ON_A_CLUSTER = 120.0
MEMORY_SHARE = 0.8  # share of the free memory that the process that learns may use
LACK = "out of memory"


@dataclass(frozen=True)
class Size:
    """The settings that are varied, by their names in `Config`; without samplers a run collects and learns in turn."""

    samplers: int
    num_envs: int
    num_threads: int
    torch_threads: int
    minibatch_size: int

    @classmethod
    def of(cls, config: Config) -> Size:
        threads = config.num_threads, config.torch_threads
        return cls(config.samplers, config.num_envs, *threads, minibatch_of(config))

    def applied(self, config: Config) -> Config:
        """Returns a configuration with this size, and the same number of groups of environments that take turns."""
        batch = self.num_envs // groups(config) if config.batch_size else 0
        size = {name: value for name, value in asdict(self).items() if hasattr(config, name)}
        return dataclasses.replace(config, batch_size=batch, **size)


@dataclass(frozen=True)
class Probe:
    """A measurement of a size.

    Attributes:
        sampling: agent steps per second of all samplers.
        updates: updates per second; 0 if the run collects and learns in turn.
        cores: mean number of cores in use by learner and workers; None if unknown.
        others: mean number of cores in use by other programs; None if unknown, or if this process may use only some of
            the cores.
        gpu: share of the time in which the GPU was busy; None without a GPU, or if unknown.
        staleness: versions between the newest weights and those that acted, mean over the last minibatch.
        memory, limit: peak memory of the measuring process, and its limit, in bytes; 0 if it was this process.
        note: the reason why there is no measurement; empty if there is one.
    """

    size: Size
    sampling: float = 0.0
    updates: float = 0.0
    cores: float | None = None
    others: float | None = None
    gpu: float | None = None
    staleness: float | None = None
    memory: int = 0
    limit: int = 0
    note: str = ""

    @property
    def update_frames(self) -> float:
        """The number of samples per second from which updates learn."""
        return self.updates * self.size.minibatch_size

    @classmethod
    def of(cls, size: Mapping[str, Any], **values: Any) -> Probe:
        return cls(Size(**size), **values)


def groups(config: Config) -> int:
    return config.num_envs // config.batch_size if config.batch_size else 1


def minibatch_of(config: Config) -> int:
    """Returns the number of samples of one gradient step; of a whole rollout if the algorithm has no minibatches."""
    return getattr(config, "minibatch_size", config.num_envs * config.num_steps)


def measure(config: Config, size: Size, seconds: float = 1.0, memory_share: float = MEMORY_SHARE) -> Probe:
    """Trains with a size for some seconds, and returns the measurements.

    Args:
        seconds: length of the measurement after the warm-up.
        memory_share: share of the free memory that the process that learns may use.

    Raises:
        HeadraceError: the run raised this error; a lack of memory is reported in the probe's note instead.
    """
    at_once = {"learning_starts": 0} if hasattr(config, "learning_starts") else {}
    config = dataclasses.replace(
        size.applied(config),
        total_steps=1 << 60,
        stop_at_return=None,
        **at_once,
        evaluate_episodes=0,
        viewer=False,
        tensorboard=False,
        load=None,
    )
    with tempfile.TemporaryDirectory(prefix="headrace-tune-") as folder:  # not removed if the process is killed
        run_dir = Path(folder) / "run"
        if size.samplers < 1:
            return _apart(config, size, seconds, memory_share, run_dir)
        config = dataclasses.replace(config, replay_ratio=None, replay_size=min(config.replay_size, REPLAY))
        try:
            return Probe(size, **_with_workers(config, seconds, memory_share, run_dir))
        except OptionError as error:
            if not config.ray or size.samplers == 1:
                raise
            return Probe(size, note=str(error))  # the cluster has too few processors for the samplers
        except (MemoryError, RuntimeError) as error:
            if not is_lack(error):
                raise
            return Probe(size, note=str(error) if isinstance(error, HeadraceError) else LACK)


# -- sampling and learning in turn, in a separate process ----------------------------------------


def _apart(config: Config, size: Size, seconds: float, share: float, run_dir: Path) -> Probe:
    context = worker_context()
    pipe, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_work, args=(theirs, config, size, seconds, share, run_dir), name="headrace-probe")
    try:
        with starting(needs_script(config)):
            process.start()
        theirs.close()
        try:
            report = pipe.recv()
        except EOFError:
            process.join()
            return Probe(size, note=cause_of_death(process.exitcode))
    finally:
        if process.pid is not None:
            process.kill()
            process.join()
        pipe.close()
    if report.trace:
        report.raise_as(f"the probe of {size.num_envs} environments")
    return report.result


def _work(pipe: Any, config: Config, size: Size, seconds: float, share: float, run_dir: Path) -> None:
    heed_parent()
    try:
        report = Report(_limited(config, size, seconds, share, run_dir))
    except BaseException as error:
        report = Report.of(error)
    pipe.send(report)


@spaces_read_once()
def _limited(config: Config, size: Size, seconds: float, share: float, run_dir: Path) -> Probe:
    """Returns the probe of a run within the allowed memory, measured in this process."""
    device = device_of(config)
    at_first, (usable, allowed) = memory_use.free(device), allowance(config, share)
    if config.devices:
        take_cores(0, len(config.devices))
        config = dataclasses.replace(config, device=config.devices[0], devices=())
    training_pool(
        dataclasses.replace(config, num_envs=1, batch_size=0)
    ).close()  # kernels are compiled before memory is limited
    memory_use.limit(device, usable)
    rate, note = 0.0, ""
    try:
        rate = _rate(config, device, seconds, run_dir)
    except (MemoryError, RuntimeError, OptionError) as error:
        if not is_lack(error):
            raise
        note = LACK
    return Probe(size, rate, memory=memory_use.peak(device, at_first), limit=allowed, note=note)


def device_of(config: Config) -> torch.device:
    """Returns the device to measure, the first if there are several."""
    return find_device(config.devices[0] if config.devices else config.device)


def allowance(config: Config, share: float) -> tuple[int, int]:
    """Returns the number of bytes that a process may allocate in addition to its present memory, and in total."""
    device = device_of(config)
    sharers = len(config.devices) if device.type == "cpu" else 0
    usable = int(share * memory_use.free(device) / (sharers or 1))
    return usable, usable + (memory_use.in_use(device)["resident"] if device.type == "cpu" else 0)


def _rate(config: Config, device: torch.device, seconds: float, run_dir: Path) -> float:
    """Returns agent steps per second of training, after a warm-up."""
    trainer: Any = runner_for(config, RunFolder.create(run_dir, config), None, ProcessGroup())
    try:
        for _ in range(EAGER_CALLS + 2 if device.type == "cuda" else 1):
            trainer.iterate()
        _wait(device)
        began, first = time.perf_counter(), trainer.step
        while trainer.step == first or time.perf_counter() - began < seconds:
            trainer.iterate()
            trainer.solved()  # a real run calls it after each iteration
        _wait(device)
        return (trainer.step - first) / (time.perf_counter() - began)
    finally:
        trainer.close()


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


# -- with workers --------------------------------------------------------------------------------


def _with_workers(config: Config, seconds: float, share: float, run_dir: Path) -> dict[str, Any]:
    """Returns the attributes of a `Probe` of a run with workers, except its size."""
    trainer = _Trial(config, RunFolder.create(run_dir, config))
    try:
        return trainer.rates(seconds, share)
    finally:
        trainer.close()
        if trainer.device.type == "cuda":
            torch.cuda.empty_cache()


class _State(NamedTuple):
    """The counts of a run at a time: steps, updates, and processor seconds of the run and of all programs."""

    at: float
    steps: int
    updates: int
    mine: float | None
    all: float | None


class _Trial(OffPolicyTrainer):
    """A run that ends once it has been measured."""

    def rates(self, seconds: float, share: float) -> dict[str, Any]:
        """Measures some windows; returns the attributes of a `Probe`, except its size."""
        self._start()
        # the workers have been started before, so that the limit applies only to the learner
        with memory_use.limited(self.device, int(share * memory_use.free(self.device))):
            self._warm_up()
            windows = [self._window(seconds / WINDOWS) for _ in range(WINDOWS)]
            if any(_differ([window[name] or 0.0 for window in windows]) for name in ("sampling", "updates")):
                windows.append(self._window(seconds / WINDOWS))
            busy = gpu_use(self.device)
        middle: dict[str, Any] = {}
        for name in windows[0]:
            known = [rate for window in windows if (rate := window[name]) is not None]
            middle[name] = statistics.median(known) if known else None
        return {**middle, "gpu": busy, "staleness": self.learner.staleness().get("versions")}

    def _warm_up(self) -> None:
        """Trains until every sampler has taken steps, and the first updates have compiled code and captured graphs."""
        least = UPDATES + (EAGER_CALLS if self.device.type == "cuda" else 0)
        until = time.monotonic() + (PATIENCE_ON_A_CLUSTER if self.config.ray else PATIENCE)
        while self.learner.updates < least or not (self.counters.steps > 0).all():
            self._learn_and_check(SETTLE / 2)
            if time.monotonic() > until:
                raise WorkerError(f"after {PATIENCE:.0f} s there were no steps of each sampler and no updates")
        self._learn_and_check(SETTLE)

    def _window(self, seconds: float) -> dict[str, float | None]:
        """Returns rates over ``seconds``, extended to the end of the last update."""
        before = self._now()
        while time.perf_counter() - before.at < seconds:
            self._learn_and_check(before.at + seconds - time.perf_counter())
        after = self._now()
        took = after.at - before.at
        mine, all_programs = _difference(before.mine, after.mine), _difference(before.all, after.all)
        return {
            "sampling": (after.steps - before.steps) / took,
            "updates": (after.updates - before.updates) / took,
            "cores": None if mine is None else mine / took,
            "others": None if mine is None or all_programs is None else max(0.0, all_programs - mine) / took,
        }

    def _now(self) -> _State:
        _wait(self.device)
        workers = processor_seconds(list(self.supervisor.pids().values()))
        mine = None if workers is None else time.process_time() + workers
        steps, updates = self.counters.total_steps(), self.learner.updates
        return _State(time.perf_counter(), steps, updates, mine, _all_processor_seconds())

    def _learn_and_check(self, seconds: float) -> None:
        self._learn(max(0.0, seconds))
        for words in self.supervisor.check():
            raise WorkerError(words.partition(";")[0])


def _differ(rates: list[float]) -> bool:
    return max(rates) - min(rates) > APART * max(rates)


def _all_processor_seconds() -> float | None:
    """Returns the processor seconds of all programs; None if unknown, or if this process may not use all cores."""
    if usable_cores() != os.cpu_count():
        return None
    times = psutil.cpu_times()
    return sum(getattr(times, name, 0.0) for name in ("user", "nice", "system", "irq", "softirq"))


def _difference(before: float | None, after: float | None) -> float | None:
    return None if before is None or after is None else after - before
