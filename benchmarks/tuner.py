"""Does the tuner find as good a size as a grid of 30 does, and how long does it take?

Each task's grid is samplers x environments x minibatches, every point measured as the tuner measures its own
(`headrace.studies.tuning.measure`), with as many threads as the tuner chose: a grid of five numbers would have
thousands.
The tuner's best is measured again with them, in turns with the grid's best, so that both have the same machine. What
is best is `headrace.studies.tuning.tune.best_of`; the replay ratio is free, so that all that is sampled counts.
"""

from __future__ import annotations

import dataclasses
import itertools
import os
import statistics
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import tyro

from common import RESULTS, heading, tell
from headrace.errors import HeadraceError
from headrace.studies.tuning.measure import Probe, Size, measure
from headrace.studies.tuning.tune import best_of, limits, tune
from headrace.train.config.settings import Config, make_config

WITHIN, SECONDS = 0.9, 60.0


@dataclass
class TunerArgs:
    """The tuner beside a grid of sizes."""

    tasks: tuple[str, ...] = ("Pendulum-v1", "HalfCheetah-v5")
    """which tasks"""
    algo: str = "sac"
    """the algorithm"""
    device: str = "cpu"
    """where the learner is"""
    samplers: tuple[int, ...] = (1, 2)
    """of the grid"""
    environments: tuple[int, ...] = (4, 8, 16, 32, 64)
    """of each sampler, in the grid"""
    times: tuple[int, ...] = (1, 4, 16)
    """minibatches of the grid, as multiples of the algorithm's own"""
    seconds: float = 1.0
    """length of one measurement"""
    repeats: int = 5
    """turns in which the tuner's best and the grid's best are measured again"""
    out: Path = RESULTS
    """folder for the JSON file"""


def grid(args: TunerArgs, config: Config, chosen: Size) -> list[Size]:
    """The sizes that the tuner is compared with; none that a run may not have."""
    batches = [config.minibatch_size * times for times in args.times]
    sizes = [
        dataclasses.replace(chosen, samplers=samplers, num_envs=envs, minibatch_size=batch)
        for samplers, envs, batch in itertools.product(args.samplers, args.environments, batches)
    ]
    most_batch, most_envs = limits(config)
    return [s for s in sizes if s.minibatch_size <= most_batch and s.samplers * s.num_envs <= most_envs]


def attempt(config: Config, size: Size, seconds: float) -> Probe:
    """A measurement; what cannot be done is its note."""
    try:
        return measure(config, size, seconds)
    except HeadraceError as error:
        return Probe(size, note=str(error).strip().splitlines()[-1])


def in_turns(config: Config, ours: Size, theirs: Size, args: TunerArgs) -> dict[str, Any]:
    """Ours divided by theirs: the median of what was measured in turns."""
    if ours == theirs:
        return {"update_frames": 1.0, "sampling": 1.0, "turns": []}
    turns = [(attempt(config, ours, args.seconds), attempt(config, theirs, args.seconds)) for _ in range(args.repeats)]
    ratios = {
        name: round(statistics.median(getattr(a, name) / max(getattr(b, name), 1e-9) for a, b in turns), 3)
        for name in ("update_frames", "sampling")
    }
    return ratios | {"turns": [[record(probe) for probe in turn] for turn in turns]}


def record(probe: Probe) -> dict[str, Any]:
    return asdict(probe) | {"update_frames": probe.update_frames}


def compare(task: str, args: TunerArgs) -> dict[str, Any]:
    """Tune, measure the grid, compare."""
    config = make_config(task, algo=args.algo, device=args.device, replay_ratio=None, total_steps=1_000_000)
    began = time.perf_counter()
    found = tune(config, scope="all", seconds=args.seconds, again=True)
    took = time.perf_counter() - began
    probes = [attempt(config, size, args.seconds) for size in grid(args, config, found.best.size)]
    best = best_of(config, probes)
    ratio = in_turns(config, found.best.size, best.size, args)
    # where the tuner learns more samples a second, sampling is not to be compared
    reached = ratio["update_frames"] >= WITHIN and (ratio["sampling"] >= WITHIN or ratio["update_frames"] > 1 / WITHIN)
    return {
        "task": task,
        "seconds": round(took, 1),
        "tuner": {"best": record(found.best), "probes": [record(p) for p in found.probes], "ended": found.ended},
        "grid": {"best": record(best), "probes": [record(p) for p in probes]},
        "ratio": ratio,
        "passed": {"within 10 %": reached, "under 60 s": took < SECONDS},
    }


def row(run: dict[str, Any]) -> dict[str, Any]:
    """How long tuning took, and what it found beside the best of the grid."""
    ratio = run["ratio"]
    return {
        "task": run["task"],
        "tuned in (wanted: 60 s)": f"{run['seconds']:.0f} s",
        "update frames/s, × the grid's best (≥ 0.9)": f"{ratio['update_frames']:.2f}",
        "sampled steps/s, × the grid's best": f"{ratio['sampling']:.2f}",
    }


def main() -> None:
    args = tyro.cli(TunerArgs)
    with tempfile.TemporaryDirectory() as cache:
        os.environ["XDG_CACHE_HOME"] = cache  # what it finds here is no finding for anybody
        runs = [compare(task, args) for task in args.tasks]
    record = heading("tuner", "The tuner beside the best point of a grid") | {
        "settings": {"algo": args.algo, "device": args.device, "seconds": args.seconds, "repeats": args.repeats},
        "passed": {f"{run['task']}: {mark}": held for run in runs for mark, held in run["passed"].items()},
        "runs": runs,
        "rows": list(map(row, runs)),
    }
    tell(args.out, record)


if __name__ == "__main__":
    main()
