"""One measurement of training: how fast a size is, and how much memory it takes.

It is made in a process of its own, which ends with all its memory, and which is kept to the memory it may take:
one that needs more is stopped by that limit, not by the device.
"""

from __future__ import annotations

import dataclasses
import multiprocessing
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from headrace.errors import OptionError
from headrace.machine import is_lack
from headrace.train.algorithms.graphs import EAGER_CALLS
from headrace.train.collect.setup import find_device, training_pool
from headrace.train.config.settings import Config
from headrace.train.logging import memory
from headrace.train.processes.start import Report, cause_of_death, deaf, end_with_parent, take_cores
from headrace.train.runners.synchronous import Trainer
from headrace.train.runs.folder import RunFolder


@dataclass(frozen=True)
class Probe:
    """One size, and what was measured of it.

    Attributes:
        steps_per_second: agent steps, training included; 0 where it could not be measured.
        memory, limit: bytes that the process needed at most, and may need.
        note: what kept it from being measured.
    """

    num_envs: int
    minibatch_size: int
    steps_per_second: float = 0.0
    memory: int = 0
    limit: int = 0
    note: str = ""


def measure(config: Config, seconds: float, memory_share: float) -> Probe:
    """Train in a process of its own for some seconds.

    Raises:
        HeadraceError: whatever it raised, but for a lack of memory, which the probe's note says.
    """
    context = multiprocessing.get_context("spawn")
    pipe, theirs = context.Pipe(duplex=False)
    with tempfile.TemporaryDirectory() as folder:  # here, since whoever is killed leaves it behind
        process = context.Process(
            target=_work, args=(theirs, config, seconds, memory_share, Path(folder) / "run"), name="headrace-probe"
        )
        try:
            with deaf():
                process.start()
            theirs.close()
            try:
                report = pipe.recv()
            except EOFError:
                process.join()
                return Probe(config.num_envs, minibatch_of(config), note=cause_of_death(process.exitcode))
        finally:
            if process.pid is not None:
                process.kill()
                process.join()
            pipe.close()
    if report.trace:
        report.raise_as(f"the probe of {config.num_envs} environments")
    return report.result


def _work(pipe: Any, config: Config, seconds: float, share: float, run_dir: Path) -> None:
    threading.Thread(target=end_with_parent, daemon=True).start()
    try:
        report = Report(_probe(config, seconds, share, run_dir))
    except BaseException as error:
        report = Report.of(error)
    pipe.send(report)


def _probe(config: Config, seconds: float, share: float, run_dir: Path) -> Probe:
    device, at_first = device_of(config), memory.free(device_of(config))
    usable, allowed = allowance(config, share)
    if config.devices:
        take_cores(0, len(config.devices))
        config = dataclasses.replace(config, device=config.devices[0], devices=())
    training_pool(dataclasses.replace(config, num_envs=1, batch_size=0)).close()  # compiled before memory is short
    memory.limit(device, usable)
    try:
        rate, used, note = *_rate(config, device, seconds, at_first, run_dir), ""
    except (MemoryError, RuntimeError, OptionError) as error:
        if not is_lack(error):
            raise
        rate, used, note = 0.0, memory.peak(device, at_first), "out of memory"
    return Probe(config.num_envs, minibatch_of(config), rate, used, allowed, note)


def minibatch_of(config: Config) -> int:
    """Returns the samples of one gradient step: a whole rollout, where the algorithm has no minibatches."""
    return getattr(config, "minibatch_size", config.num_envs * config.num_steps)


def device_of(config: Config) -> torch.device:
    """The one that is measured."""
    return find_device(config.devices[0] if config.devices else config.device)


def allowance(config: Config, share: float) -> tuple[int, int]:
    """Bytes that a process may take beside what it has, and in all."""
    device = device_of(config)
    sharers = len(config.devices) if device.type == "cpu" else 0
    usable = int(share * memory.free(device) / (sharers or 1))
    return usable, usable + (memory.in_use(device)["resident"] if device.type == "cpu" else 0)


def _rate(config: Config, device: torch.device, seconds: float, free_at_first: int, run_dir: Path) -> tuple[float, int]:
    """Agent steps a second in training, once everything that is made at first use was made, and bytes it took."""
    at_once = {"learning_starts": 0} if hasattr(config, "learning_starts") else {}
    config = dataclasses.replace(
        config, total_steps=1 << 60, stop_at_return=None, tensorboard=False, load=None, **at_once
    )
    trainer = Trainer(config, RunFolder.create(run_dir, config))
    try:
        for _ in range(EAGER_CALLS + 2 if device.type == "cuda" else 1):
            trainer.iterate()
        _wait(device)
        began, first = time.perf_counter(), trainer.step
        while trainer.step == first or time.perf_counter() - began < seconds:
            trainer.iterate()
            trainer.solved()  # as in a run, where it decides whether to go on
        _wait(device)
        rate = (trainer.step - first) / (time.perf_counter() - began)
        return rate, memory.peak(device, free_at_first)
    finally:
        trainer.close()


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
