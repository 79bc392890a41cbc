"""Sampling and updating, each alone and both together: how much of each is left when the other runs beside it.

One run of SAC at a free pace, whose cores are dealt to its samplers' environments and to its learner. In turns
samplers are stopped (SIGSTOP), the learner rests, or both work: alone, each has its own cores and all else that the
machine has; together, they share memory, caches and clocks. Update frames are minibatch x updates.

Spreeze's figures (arXiv:2312.06126: up to 370,000 update frames/s and 15,000 sampled steps/s, on its authors' desktop
with a GPU) stand beside, to say where this machine is; the table names its processor.

    python benchmarks/together.py [--device cuda]
"""

from __future__ import annotations

import itertools
import os
import signal
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tyro

from common import OURS, Args, Comparison, alternate, measure
from headrace.machine import usable_cores
from headrace.train.recipes.make import make_config
from headrace.train.runners.assembly import make_trainer
from headrace.train.runs.folder import RunFolder
from headrace.train.settings.config import Config
from off_policy_runs import beside

ALONE = "alone"
NOTE = "Spreeze, as published, on a desktop with a GPU: up to 370,000 update frames/s, 15,000 sampled steps/s."
KEPT = 0.85
BEGIN = 0.3  # seconds until everybody does what it is to
LEARNT = 200  # updates before the first turn


@dataclass
class TogetherArgs(Args):
    """Sampling and updating, alone and together."""

    tasks: tuple[str, ...] = ("Pendulum-v1", "HalfCheetah-v5")
    """what SAC learns"""
    minibatches: tuple[int, ...] = (256, 8192)
    """samples in an update; the second is Spreeze's"""
    num_envs: int = 64
    """environments"""
    device: str = "cpu"
    """where the learner is"""
    repeats: int = 7
    seconds: float = 3.0


class Gate:
    """Whether the learner of a run may learn."""

    def __init__(self, trainer: Any):
        self.open, pace = True, trainer.learner.pace
        update = pace.update
        pace.update = lambda: self.open and update()


class Turns:
    """Contenders in a run that is under way; each answers update frames or agent steps a second.

    Attributes:
        rates: by side and by contender, one a turn; empty if the run ended before.
    """

    def __init__(self, trainer: Any, args: TogetherArgs):
        self._trainer, self._args, self._gate = trainer, args, Gate(trainer)
        self._sampled: list[float] = []
        self.rates: dict[str, dict[str, list[float]]] = {}

    def __call__(self) -> None:
        """All turns; then the run is interrupted."""
        turns = {"both": self._both, "updates": self._updates_alone, "sampling": self._sampling_alone}
        try:
            while self._trainer.learner.updater.updates < LEARNT:
                time.sleep(0.1)
            rates = alternate(turns, self._args)
            sampled = self._sampled[-self._args.repeats :]
            self.rates = {
                "updates": {OURS: rates["both"], ALONE: rates["updates"]},
                "sampling": {OURS: [round(rate, 1) for rate in sampled], ALONE: rates["sampling"]},
            }
        finally:
            os.kill(os.getpid(), signal.SIGINT)

    def _both(self, seconds: float) -> float:
        updated, sampled = self._measure(seconds)
        self._sampled.append(sampled)
        return updated

    def _updates_alone(self, seconds: float) -> float:
        pids = [pid for name, pid in self._trainer.source.supervisor.pids().items() if name.startswith("sampler")]
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        try:
            return self._measure(seconds)[0]
        finally:
            for pid in pids:
                os.kill(pid, signal.SIGCONT)

    def _sampling_alone(self, seconds: float) -> float:
        self._gate.open = False
        try:
            return self._measure(seconds)[1]
        finally:
            self._gate.open = True

    def _measure(self, seconds: float) -> tuple[float, float]:
        """Update frames and agent steps a second."""
        time.sleep(BEGIN)
        trainer, began = self._trainer, time.perf_counter()
        updates, steps = trainer.learner.updater.updates, trainer.source.counters.total_steps()
        time.sleep(seconds)
        took = time.perf_counter() - began
        frames = (trainer.learner.updater.updates - updates) * trainer.config.minibatch_size
        return frames / took, (trainer.source.counters.total_steps() - steps) / took


def with_balanced_cores(task: str, minibatch: int, args: TogetherArgs) -> Config:
    """The run: half of the cores for environments, half for the learner."""
    cores = usable_cores()
    learning = max(1, cores // 2) if args.device == "cpu" else 1
    free: dict[str, Any] = {"total_steps": 10**9, "replay_ratio": None, "stop_at_return": None, "tensorboard": False}
    beside: dict[str, Any] = {"evaluate_episodes": 0, "viewer": False, "save_replay": False, "hidden": (256, 256)}
    beside |= {"matmul_precision": "medium"}
    sizes: dict[str, Any] = {
        "num_envs": args.num_envs,
        "num_threads": max(1, cores - learning),
        "torch_threads": learning,
    }
    return make_config(
        task, algo="sac", device=args.device, samplers=1, minibatch_size=minibatch, **free, **beside, **sizes
    )


def comparisons(args: TogetherArgs) -> Iterator[Comparison]:
    """Both sides of each run."""
    for task, minibatch in itertools.product(args.tasks, args.minibatches):
        config = with_balanced_cores(task, minibatch, args)
        with tempfile.TemporaryDirectory() as folder:
            trainer = make_trainer(config, RunFolder.create(Path(folder) / "run", config))
            turns = Turns(trainer, args)
            beside(trainer, turns)
        for side, unit in (("updates", "update frames/s"), ("sampling", "sampled steps/s")):
            name = f"{task}, minibatch {minibatch:,}, {unit}"
            yield Comparison(name, rates=turns.rates[side], wanted={ALONE: KEPT}, unit="a second")


if __name__ == "__main__":
    chosen = tyro.cli(TogetherArgs)
    title, extra = "Sampling and updating at once", {"note": NOTE}
    measure("together", title, comparisons(chosen), chosen, extra, algo="sac", hidden=[256, 256])
