"""What an evaluator and somebody who watches cost the learner: its updates a second with them, beside those without.

One run of SAC. In turns of a few seconds each the evaluator is stopped (SIGSTOP), runs as it does by default, and runs
while the page's player shows the newest weights at play: so all three see the same replay, weights and machine. As an
evaluation falls into some turns only, it is means that are compared, not medians; with an interval that 95 % of the
means of as many turns lie in, drawn from those that there were. Beside it, the part of all cores' time that evaluator
and player took themselves, as the system counts it (Linux). It hardly depends on what else the machine does, but knows
nothing of caches and memory that they share with the learner. A figure is reached if both are small enough.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import tyro

from bootstrap import DRAWS, NINETY_FIVE
from common import Args, alternate, heading, tell
from headrace.train import make_config
from headrace.train.launch.checks import resolved
from headrace.train.logging.hardware import processor_seconds
from headrace.train.runners.assembly import make_trainer
from headrace.train.runs.folder import RunFolder
from off_policy_runs import beside

ALONE = "without both"
NOBODY, SOMEBODY = "nobody watches", "somebody watches"
MOST = 0.03  # of the update rate, that may be lost
BEGIN, TOUCH = 0.3, 1.0  # seconds until all do what they are to, and between touches of the file that says who watches


@dataclass
class WatchingArgs(Args):
    """The learner's updates a second with evaluator and somebody who watches, and without."""

    tasks: list[str] = field(default_factory=lambda: ["Pendulum-v1", "HalfCheetah-v5"])
    """what SAC learns"""
    repeats: int = 60
    seconds: float = 2.0


class Turns:
    """Contenders in a run that is under way; each answers updates a second.

    Attributes:
        rates: by contender, one a turn; empty if the run ended before.
        taken: by contender, one a turn: the part of all cores' time that evaluator and player took.
        watched: bytes of pictures.
    """

    def __init__(self, trainer: Any, args: WatchingArgs):
        self._trainer, self._args = trainer, args
        self._player: subprocess.Popen[bytes] | None = None
        self.rates: dict[str, list[float]] = {}
        self.taken: dict[str, list[float]] = {NOBODY: [], SOMEBODY: []}
        self.watched = 0

    def __call__(self) -> None:
        """All turns; then the run is interrupted."""
        contenders = {NOBODY: self._nobody, ALONE: self._alone, SOMEBODY: self._somebody}
        try:
            while self._trainer.learner.updater.updates < 500:
                time.sleep(0.1)
            self.rates = alternate(contenders, self._args)
            self.taken = {name: parts[-self._args.repeats :] for name, parts in self.taken.items()}  # no warming up
        finally:
            os.kill(os.getpid(), signal.SIGINT)

    def _rate(self, seconds: float) -> float:
        time.sleep(BEGIN)
        learner, began = self._trainer.learner.updater, time.perf_counter()
        updates = learner.updates
        time.sleep(seconds)
        return (learner.updates - updates) / (time.perf_counter() - began)

    def _nobody(self, seconds: float) -> float:
        return self._beside(seconds, NOBODY)

    def _beside(self, seconds: float, name: str) -> float:
        pids, began = self._pids(), time.perf_counter()
        before = processor_seconds(pids)
        rate = self._rate(seconds)
        after, took = processor_seconds(pids), time.perf_counter() - began
        assert before is not None and after is not None, "the system does not say what processor time a process took"
        self.taken[name].append((after - before) / took / (os.cpu_count() or 1))
        return rate

    def _pids(self) -> list[int]:
        player = [] if self._player is None else [self._player.pid]
        return [self._trainer.source.supervisor.pids()["evaluator"], *player]

    def _alone(self, seconds: float) -> float:
        pids = self._pids()
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        try:
            return self._rate(seconds)
        finally:
            for pid in pids:
                os.kill(pid, signal.SIGCONT)

    def _somebody(self, seconds: float) -> float:
        run, over = self._trainer.run, threading.Event()
        command, pipe = [sys.executable, "-m", "headrace.watch.player", str(run.path)], subprocess.PIPE
        with subprocess.Popen(command, stdin=pipe, stdout=pipe) as player:
            assert player.stdin is not None and player.stdout is not None
            self.watched += len(player.stdout.read(1 << 12))  # it plays
            threads = [
                threading.Thread(target=self._look, args=(player.stdout,)),
                threading.Thread(target=self._touch, args=(run.watched_file, over)),
            ]
            for thread in threads:
                thread.start()
            self._player = player
            rate = self._beside(seconds, SOMEBODY)
            self._player = None
            over.set()
            player.stdin.close()  # which ends it
            for thread in threads:
                thread.join()
        return rate

    def _look(self, pictures: Any) -> None:
        while content := pictures.read1(1 << 16):
            self.watched += len(content)

    def _touch(self, file: Path, over: threading.Event) -> None:
        while True:
            file.touch()
            if over.wait(TOUCH):
                return


def measured(task: str, args: WatchingArgs) -> Turns:
    """The turns in one run."""
    free: dict[str, Any] = {"total_steps": 10**9, "stop_at_return": None, "tensorboard": False, "save_replay": False}
    config = resolved(make_config(task, algo="sac", **free))
    with tempfile.TemporaryDirectory() as folder:
        trainer: Any = make_trainer(config, RunFolder.create(Path(folder) / "run", config))
        turns = Turns(trainer, args)
        beside(trainer, turns)
    assert turns.watched > 0
    return turns


def lost(both: list[float], alone: list[float]) -> tuple[float, float, float]:
    """The part of the update rate that is lost, and 95 % of that."""
    turns = np.array([both, alone])
    drawn = np.random.default_rng(0).integers(0, turns.shape[1], (DRAWS, turns.shape[1]))
    with_both, without = turns[:, drawn].mean(2)
    low, high = np.percentile(1 - with_both / without, NINETY_FIVE)
    means = turns.mean(1)
    return tuple(round(float(part), 4) for part in (1 - means[0] / means[1], low, high))  # type: ignore[return-value]


def row(task: str, rates: dict[str, list[float]], taken: dict[str, float]) -> dict[str, Any]:
    """A task's mean rate without both, what is lost of it, and the part of all cores' time that both took."""
    cells = {"task": task, f"updates/s {ALONE}": fmean(rates[ALONE])}
    for who, part in taken.items():
        mean, low, high = lost(rates[who], rates[ALONE])
        cells[f"{who}: lost (95 %); of all cores' time"] = f"{mean:.1%} ({low:.1%} … {high:.1%}); {part:.1%}"
    return cells


def main() -> None:
    args = tyro.cli(WatchingArgs)
    record = heading("watching", "SAC's updates with evaluator and page")
    record |= {"settings": {"repeats": args.repeats, "seconds": args.seconds, "algo": "sac"}}
    record |= {"passed": {}, "rates": {}, "taken": {}, "rows": []}
    for task in args.tasks:
        turns = measured(task, args)
        taken = {who: round(fmean(parts), 4) for who, parts in turns.taken.items()}
        for who, part in taken.items():
            most = max(lost(turns.rates[who], turns.rates[ALONE])[0], part)
            record["passed"][f"{task}, {who}"] = most < MOST
        record["rates"][task], record["taken"][task] = turns.rates, taken
        record["rows"].append(row(task, turns.rates, taken))
    tell(args.out, record)


if __name__ == "__main__":
    main()
