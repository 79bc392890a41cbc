"""Measurements of training for a few seconds: rates of sampling and updates, and use of cores.

A measurement is a real run in a temporary folder, whose samplers run beside a learner in this process, without waiting
for a replay ratio and without evaluations. The learner's memory is limited, so that a run that needs more fails because
of the limit, before it exhausts the device's memory.
"""

from __future__ import annotations

import os
import resource
import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import torch

from headrace.errors import HeadraceError, OptionError, WorkerError
from headrace.machine import is_lack, sizes_in, usable_cores
from headrace.train.logging.hardware import gpu_use, processor_seconds
from headrace.train.logging.memory_use import free
from headrace.train.modules.graphs import EAGER_CALLS
from headrace.train.runners.assembly import make_trainer
from headrace.train.runs.folder import RunFolder
from headrace.train.settings.config import Config

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
    """The settings that are varied, by their names in `Config`."""

    samplers: int
    num_envs: int
    num_threads: int
    torch_threads: int


@dataclass(frozen=True)
class Probe:
    """A measurement of a size.

    Attributes:
        sampling: agent steps per second of all samplers.
        updates: updates per second.
        cores: mean number of cores in use by learner and workers; None if unknown.
        others: mean number of cores in use by other programs; None if unknown, or if this process may use only some of
            the cores.
        gpu: share of the time in which the GPU was busy; None without a GPU, or if unknown.
        staleness: versions between the newest weights and those that acted, mean over the last minibatch.
        note: the reason why there is no measurement; empty if there is one.
    """

    size: Size
    sampling: float = 0.0
    updates: float = 0.0
    cores: float | None = None
    others: float | None = None
    gpu: float | None = None
    staleness: float | None = None
    note: str = ""

    @classmethod
    def of(cls, size: Mapping[str, Any], **values: Any) -> Probe:
        return cls(Size(**size), **values)


def measure(config: Config, size: Size, seconds: float = 1.0) -> Probe:
    """Trains with a size for some seconds, and returns the measurements.

    Args:
        seconds: length of the measurement after the warm-up.

    Raises:
        HeadraceError: the run raised this error; a lack of memory is reported in the probe's note instead.
    """
    free: dict[str, Any] = {"learning_starts": 0, "replay_ratio": None, "replay_size": min(config.replay_size, REPLAY)}
    quiet: dict[str, Any] = {"evaluate_episodes": 0, "viewer": False, "tensorboard": False, "load": None}
    config = config.replace(**asdict(size), **free, **quiet, total_steps=1 << 60, stop_at_return=None)
    with tempfile.TemporaryDirectory(prefix="headrace-tune-") as folder:  # not removed if the process is killed
        run_dir = Path(folder) / "run"
        try:
            return Probe(size, **_rates(config, seconds, run_dir))
        except OptionError as error:
            if not config.ray or size.samplers == 1:
                raise
            return Probe(size, note=str(error))  # the cluster has too few processors for the samplers
        except (MemoryError, RuntimeError) as error:
            if not is_lack(error):
                raise
            return Probe(size, note=str(error) if isinstance(error, HeadraceError) else LACK)


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _rates(config: Config, seconds: float, run_dir: Path) -> dict[str, Any]:
    """Returns the attributes of a `Probe`, except its size."""
    trainer = make_trainer(config, RunFolder.create(run_dir, config))
    try:
        return _Trial(trainer).rates(seconds)
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


class _Trial:
    """A run that ends once it has been measured."""

    def __init__(self, trainer: Any):
        self.config, self.device = trainer.config, trainer.device
        self.learner, self.source = trainer.learner, trainer.source
        self.counters, self.supervisor = self.source.counters, self.source.supervisor

    def rates(self, seconds: float) -> dict[str, Any]:
        """Measures some windows; returns the attributes of a `Probe`, except its size."""
        self.learner.begin(False)
        # the workers are started before memory is limited, so that the limit applies only to the learner
        limit = int(MEMORY_SHARE * free(self.device))
        with self.source.running(False), limited(self.device, limit):
            self._warm_up()
            windows = [self._window(seconds / WINDOWS) for _ in range(WINDOWS)]
            if any(_differ([window[name] or 0.0 for window in windows]) for name in ("sampling", "updates")):
                windows.append(self._window(seconds / WINDOWS))
            busy = gpu_use(self.device)
        middle: dict[str, Any] = {}
        for name in windows[0]:
            known = [rate for window in windows if (rate := window[name]) is not None]
            middle[name] = statistics.median(known) if known else None
        return {**middle, "gpu": busy, "staleness": self.learner.figures().details["staleness"].get("versions")}

    def _warm_up(self) -> None:
        """Trains until every sampler has taken steps, and the first updates have compiled code and captured graphs."""
        least = UPDATES + (EAGER_CALLS if self.device.type == "cuda" else 0)
        until = time.monotonic() + (PATIENCE_ON_A_CLUSTER if self.config.ray else PATIENCE)
        while self.learner.updater.updates < least or not (self.counters.steps > 0).all():
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
        steps, updates = self.counters.total_steps(), self.learner.updater.updates
        return _State(time.perf_counter(), steps, updates, mine, _all_processor_seconds())

    def _learn_and_check(self, seconds: float) -> None:
        self.learner.pace.run(max(0.0, seconds))
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


@contextmanager
def limited(device: torch.device, bytes_more: int) -> Iterator[None]:
    """Limits this process to ``bytes_more`` further bytes of memory within this context; more raises an error."""
    before = _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    if device.type == "cuda":
        total = torch.cuda.mem_get_info(device)[1]
        held = torch.cuda.memory_reserved(device)
        torch.cuda.set_per_process_memory_fraction(min(1.0, (held + bytes_more) / total), device)
    elif (data := sizes_in(Path("/proc/self/status")).get("VmData")) is not None:
        most = data + bytes_more if hard == resource.RLIM_INFINITY else min(data + bytes_more, hard)
        resource.setrlimit(resource.RLIMIT_DATA, (most, hard))
    try:
        yield
    finally:
        if device.type == "cuda":
            torch.cuda.set_per_process_memory_fraction(1.0, device)
        else:
            resource.setrlimit(resource.RLIMIT_DATA, before)
