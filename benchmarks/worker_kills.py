"""What becomes of a run whose workers are killed at random, a hundred times, beside one that is left alone.

SAC on Pendulum-v1 with two samplers, an evaluator, and an actor that learns apart. Every so often one of them is killed
with SIGKILL, whatever it is doing. Nothing may be lost but what the dead were about to write: of the steps that the
run counts, at most one row of environments for each kill is not in the replay, and the newest rows.
"""

from __future__ import annotations

import os
import random
import signal
import tempfile
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import tyro

from common import RESULTS, heading, tell
from headrace.train.logging.dashboard import Dashboard
from headrace.train.play.evaluate import evaluate
from headrace.train.recipes.make import make_config
from headrace.train.runners.assembly import make_trainer
from headrace.train.runs.folder import RunFolder


@dataclass
class KillArgs:
    """Workers killed at random, and what becomes of the run."""

    kills: int = 100
    """how often a worker is killed"""
    steps: int = 20_000
    """agent steps of the run"""
    seed: int = 1
    """of the run, and of who is killed when"""
    out: Path = RESULTS
    """folder for the JSON file"""


@dataclass
class Outcome:
    """How a run went.

    Attributes:
        killed: how often each worker was.
        missing: steps that were counted and are not in the replay.
        unfinished: at most so many may be.
        mean_return: without exploration, of 20 episodes with the last weights.
    """

    killed: dict[str, int]
    restarts: int
    steps: int
    updates: int
    missing: int
    unfinished: int
    mean_return: float
    seconds: float


def run(args: KillArgs, kills: int) -> Outcome:
    """Train, and kill."""
    with tempfile.TemporaryDirectory() as folder:
        settings = {
            "samplers": 2,
            "num_envs": 2,
            "actor_device": "cpu",
            "evaluate_seconds": 0.5,
            "evaluate_share": 1.0,
            "stop_at_return": None,
        }
        total = {"total_steps": args.steps, "seed": args.seed, "tensorboard": False, "save_replay": False}
        config = make_config("Pendulum-v1", algo="sac", **settings, **total)
        trainer: Any = make_trainer(config, RunFolder.create(Path(folder) / "run", config))
        killed: dict[str, int] = {}
        over = threading.Event()
        thread = threading.Thread(target=_kill, args=(trainer, kills, args, killed, over))
        try:
            thread.start()
            trainer.train(Dashboard(quiet=True))
            over.set()
            thread.join()
            missing = trainer.step - trainer.learner.memory.steps
            unfinished = (sum(killed.values()) + config.samplers) * config.num_envs
            played = evaluate(trainer.run.path, 20, which="newest")
            return Outcome(
                killed,
                trainer.source.restarts,
                trainer.step,
                trainer.learner.updater.updates,
                missing,
                unfinished,
                round(played.mean_return, 1),
                round(trainer.seconds, 1),
            )
        finally:
            over.set()
            trainer.close()


def _kill(trainer: Any, kills: int, args: KillArgs, killed: dict[str, int], over: threading.Event) -> None:
    """Kill a worker each time that the run has come a little further."""
    chance = random.Random(args.seed)
    for i in range(kills):
        due = (i + 1) * args.steps * 0.95 / kills
        # the last one must have been missed and replaced, so that no signal goes to somebody who is dead already
        while (trainer.source.counters.total_steps() < due or trainer.source.restarts < i) and not over.is_set():
            time.sleep(0.002)
        time.sleep(chance.random() * 0.02)
        if over.is_set():
            return
        name, pid = chance.choice(sorted(trainer.source.supervisor.pids().items()))
        os.kill(pid, signal.SIGKILL)
        killed[name] = killed.get(name, 0) + 1


def row(name: str, run: dict[str, Any]) -> dict[str, Any]:
    """A run's restarts, updates, what is missing, and its return."""
    return {
        "run": name,
        "workers started again": run["restarts"],
        "updates": run["updates"],
        "steps missing in the replay (allowed)": f"{run['missing']} ({run['unfinished']})",
        "return": f"{run['mean_return']:.1f}",
    }


def main() -> None:
    args = tyro.cli(KillArgs)
    runs = {"left alone": asdict(run(args, 0)), f"{args.kills} kills": asdict(run(args, args.kills))}
    rows = [row(*each) for each in runs.items()]
    tell(args.out, heading("worker_kills", "Workers killed at random") | {"runs": runs, "rows": rows})


if __name__ == "__main__":
    main()
