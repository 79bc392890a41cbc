"""One measurement of a run with workers: how fast a size samples, how fast it learns, and what that takes.

It is a run like any other, with real samplers and a real learner in this process, whose first seconds are looked at:
nobody waits, and nobody evaluates. Nothing of it stays.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import statistics
import tempfile
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch

from headrace.errors import HeadraceError, WorkerError
from headrace.machine import is_lack, usable_cores
from headrace.train.algorithms.graphs import EAGER_CALLS
from headrace.train.config.settings import Config
from headrace.train.logging import memory
from headrace.train.runners.off_policy import OffPolicyTrainer
from headrace.train.runs.folder import RunFolder

REPLAY = 100_000  # steps that a probe's replay holds at most: it is not filled in so short a time
UPDATES = 3  # before the first window; on CUDA, those that make its graphs
SETTLE = 0.1  # seconds from when everything runs to the first window
WINDOWS = 2  # in the time of one measurement
APART = 0.1  # windows that differ by more than this are followed by a third
PATIENCE = 20.0  # seconds until everything has to run
MEMORY_SHARE = 0.8  # of what is free, what the learner may take


@dataclass(frozen=True)
class Size:
    """What is tried, by the names that `Config` has for it."""

    samplers: int
    num_envs: int
    num_threads: int
    torch_threads: int
    minibatch_size: int


@dataclass(frozen=True)
class Probe:
    """A size, and what was measured of it.

    Attributes:
        sampling: agent steps a second, of all samplers.
        updates: a second.
        cores: processor seconds a second that learner and workers took; None where the system does not say.
        others: those that other programs took meanwhile; None where it does not say, or leaves us a part of the cores.
        gpu: share of the time in which the GPU was busy; None without one, or where it is not known.
        staleness: versions of the weights between those that acted and the newest, in the minibatch drawn last.
        note: what kept it from being measured.
    """

    size: Size
    sampling: float = 0.0
    updates: float = 0.0
    cores: float | None = None
    others: float | None = None
    gpu: float | None = None
    staleness: float | None = None
    note: str = ""

    @property
    def update_frames(self) -> float:
        """Samples a second that updates learnt from."""
        return self.updates * self.size.minibatch_size

    @classmethod
    def of(cls, size: Mapping[str, Any], **values: Any) -> Probe:
        """From the dictionary that `asdict` made of it."""
        return cls(Size(**size), **values)


def measure(config: Config, size: Size, seconds: float = 1.0) -> Probe:
    """Train with this size for so many seconds, after everything runs.

    Raises:
        HeadraceError: whatever the run raised, but for a lack of memory, which the probe's note says.
    """
    config = dataclasses.replace(
        config,
        **asdict(size),
        total_steps=1 << 60,
        stop_at_return=None,
        replay_ratio=None,
        replay_size=min(config.replay_size, REPLAY),
        learning_starts=0,
        evaluate_episodes=0,
        viewer=False,
        tensorboard=False,
        load=None,
    )
    with tempfile.TemporaryDirectory(prefix="headrace-tune-") as folder:
        try:
            return _measured(config, size, seconds, Path(folder) / "run")
        except (MemoryError, RuntimeError) as error:
            if not is_lack(error):
                raise
            words = str(error) if isinstance(error, HeadraceError) else "out of memory"
            return Probe(size, note=words)


def _measured(config: Config, size: Size, seconds: float, folder: Path) -> Probe:
    trainer = _Trial(config, RunFolder.create(folder, config))
    try:
        return Probe(size, **trainer.rates(seconds))
    finally:
        trainer.close()
        if trainer.device.type == "cuda":
            torch.cuda.empty_cache()


class _State(NamedTuple):
    """Where a run is: its steps and updates, and processor seconds of it and of all programs."""

    at: float
    steps: int
    updates: int
    mine: float | None
    all: float | None


class _Trial(OffPolicyTrainer):
    """A run that ends once it has been measured."""

    def rates(self, seconds: float) -> dict[str, Any]:
        """What a `Probe` says."""
        self._start()
        # workers have begun: what they may take is not limited with the learner's
        with memory.limited(self.device, int(MEMORY_SHARE * memory.free(self.device))):
            self._warm_up()
            windows = [self._window(seconds / WINDOWS) for _ in range(WINDOWS)]
            if any(_differ([window[name] or 0.0 for window in windows]) for name in ("sampling", "updates")):
                windows.append(self._window(seconds / WINDOWS))
            busy = _gpu_use(self.device)
        middle: dict[str, Any] = {}
        for name in windows[0]:
            known = [rate for window in windows if (rate := window[name]) is not None]
            middle[name] = statistics.median(known) if known else None
        return {**middle, "gpu": busy, "staleness": self.learner.staleness().get("versions")}

    def _warm_up(self) -> None:
        """Until every sampler steps, and everything that updates make at first is made."""
        least = UPDATES + (EAGER_CALLS if self.device.type == "cuda" else 0)
        until = time.monotonic() + PATIENCE
        while self.learner.updates < least or not (self.counters.steps > 0).all():
            self._learn_and_look(SETTLE / 2)
            if time.monotonic() > until:
                raise WorkerError(f"after {PATIENCE:.0f} s there were no steps of each sampler and no updates")
        self._learn_and_look(SETTLE)

    def _window(self, seconds: float) -> dict[str, float | None]:
        """Rates over a time of this length, and to the end of the last update in it."""
        before = self._state()
        while time.perf_counter() - before.at < seconds:
            self._learn_and_look(before.at + seconds - time.perf_counter())
        after = self._state()
        took = after.at - before.at
        mine, all_programs = _difference(before.mine, after.mine), _difference(before.all, after.all)
        return {
            "sampling": (after.steps - before.steps) / took,
            "updates": (after.updates - before.updates) / took,
            "cores": None if mine is None else mine / took,
            "others": None if mine is None or all_programs is None else max(0.0, all_programs - mine) / took,
        }

    def _state(self) -> _State:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        workers = processor_seconds(list(self.supervisor.pids().values()))
        mine = None if workers is None else time.process_time() + workers
        steps, updates = self.counters.total_steps(), self.learner.updates
        return _State(time.perf_counter(), steps, updates, mine, _all_processor_seconds())

    def _learn_and_look(self, seconds: float) -> None:
        self._learn(max(0.0, seconds))
        for words in self.supervisor.check():
            raise WorkerError(words.partition(";")[0])


def _differ(rates: list[float]) -> bool:
    return max(rates) - min(rates) > APART * max(rates)


def processor_seconds(pids: list[int]) -> float | None:
    """Of these processes since they began; None where the system does not say."""
    try:
        stats = [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in pids]
    except OSError:
        return None
    return sum(int(stat[11]) + int(stat[12]) for stat in stats) / os.sysconf("SC_CLK_TCK")  # user and system


def _all_processor_seconds() -> float | None:
    """Of all programs on this machine; None where the system does not say, or this process may not use all cores."""
    if usable_cores() != os.cpu_count():
        return None
    try:
        words = Path("/proc/stat").read_text().split(maxsplit=8)
    except OSError:
        return None
    user, nice, system, _, _, interrupts, soft = map(int, words[1:8])
    return (user + nice + system + interrupts + soft) / os.sysconf("SC_CLK_TCK")


def _difference(before: float | None, after: float | None) -> float | None:
    return None if before is None or after is None else after - before


def _gpu_use(device: torch.device) -> float | None:
    """As its driver measures, over the last part of a second."""
    if device.type == "cuda":
        with contextlib.suppress(ModuleNotFoundError, RuntimeError, OSError):
            return torch.cuda.utilization(device) / 100
    return None
