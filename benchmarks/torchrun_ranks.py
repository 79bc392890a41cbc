"""Two of torchrun's processes beside one: steps a second, and what is learnt in as many steps.

Each process has one thread and one core, and as many environments as the other. Steps a second are those of whole
training, from the run's own metrics, after its first fifth: to be measured on a machine that does nothing else.

Returns are those of as many agent steps: in one process with all environments and whole minibatches, and in two with
half of each, and from a replay also with half of it each, and twice the updates for each of a process's own steps.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tyro

from common import RESULTS, earlier, heading, show, write
from headrace.train.runs.metrics import read_metrics

TASKS = {
    "Humanoid-v5": {
        "algo": "ppo",
        "preset": "default",
        "num_envs": 16,
        "num_steps": 64,
        "minibatch_size": 512,
        "epochs": 2,
    },
    "Pong-v5": {"algo": "ppo", "num_envs": 8, "num_steps": 64, "minibatch_size": 256, "epochs": 1},
}
STUDENT = {2: 12.706, 3: 4.303, 4: 3.182, 5: 2.776, 6: 2.571, 7: 2.447, 8: 2.365, 9: 2.306, 10: 2.262, 30: 2.045}
"""runs → the quantile of Student's t for a 95 % interval of their mean"""
WANTED = 1.7
HALVED = ("num_envs", "minibatch_size", "replay_size", "learning_starts")
"""settings that each of two processes has half of"""


@dataclass(frozen=True)
class Learning:
    """Runs of one process whose returns are compared with those of two.

    Attributes:
        task, steps, seeds: agent steps of each run, and how many there are.
        settings: of one process.
    """

    task: str
    steps: int
    seeds: int
    settings: dict[str, Any]

    @property
    def name(self) -> str:
        """The algorithm and the task."""
        return f"{self.settings['algo'].upper()} on {self.task}"

    def of_each(self, ranks: int) -> dict[str, Any]:
        """The settings of each of so many processes."""
        found = {name: value // ranks if name in HALVED else value for name, value in self.settings.items()}
        if "replay_ratio" in found:
            found["replay_ratio"] *= ranks
        return found


LEARNING = (
    Learning(
        "CartPole-v1", 60_000, 30, {"algo": "ppo", "num_envs": 32, "num_steps": 64, "minibatch_size": 256, "epochs": 4}
    ),
    Learning(
        "HalfCheetah-v5",
        300_000,
        3,
        {"algo": "ppo", "preset": "default", "num_envs": 16, "num_steps": 128, "minibatch_size": 512},
    ),
    Learning(
        "Pendulum-v1",
        16_000,
        3,
        {"algo": "sac", "num_envs": 8, "minibatch_size": 128}
        | {"replay_size": 100_000, "replay_ratio": 1.0, "learning_starts": 1000},
    ),
)


@dataclass
class RanksArgs:
    """Two of torchrun's processes beside one."""

    repeats: int = 5
    """turns of each"""
    steps: int = 20_000
    """agent steps that one process trains for in a turn"""
    seeds: int | None = None
    """runs of each way whose returns are compared, None for the usual number; those that the JSON file has are not done
    again"""
    learning_steps: int | None = None
    """agent steps of those; None for the usual number"""
    learning: tuple[str, ...] = tuple(each.task for each in LEARNING)
    """tasks whose returns are compared"""
    tasks: tuple[str, ...] = tuple(TASKS)
    """those whose speed is measured"""
    parts: tuple[str, ...] = ("speed", "returns")
    """what to measure"""
    out: Path = RESULTS
    """folder for the JSON file"""


def trained(ranks: int, task: str, folder: Path, cores: int, **options: Any) -> list[dict[str, Any]]:
    """The metrics of a run with so many processes on so many cores."""
    words = [f"--{name.replace('_', '-')}={value}" for name, value in options.items()]
    common = "--num-threads=1 --torch-threads=1 --no-video --no-viewer --quiet --checkpoint-seconds=9999".split()
    launcher = ["-m", "torch.distributed.run", f"--nproc-per-node={ranks}"] if ranks > 1 else []
    command = [sys.executable, *launcher, "-m", "headrace", "train", task, f"--run-dir={folder}", *common, *words]
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(before)[:cores])
    try:
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=os.environ | {"OMP_NUM_THREADS": "1"})
    finally:
        os.sched_setaffinity(0, before)
    return read_metrics(folder / "metrics.jsonl")


def speed(lines: list[dict[str, Any]]) -> float:
    """Agent steps a second after the first fifth of a run."""
    last = lines[-1]
    kept = [line for line in lines if line["step"] >= last["step"] / 5]
    steps, seconds = last["step"] - kept[0]["step"], last["time"]["seconds"] - kept[0]["time"]["seconds"]
    return steps / seconds


def speeds(args: RanksArgs) -> dict[str, Any]:
    """Of both ways, in turns, for each task."""
    found: dict[str, Any] = {}
    for task in args.tasks:
        options = TASKS[task]
        turns: dict[int, list[float]] = {1: [], 2: []}
        for turn in range(args.repeats):
            for ranks in (1, 2) if turn % 2 == 0 else (2, 1):
                with tempfile.TemporaryDirectory() as folder:
                    lines = trained(
                        ranks, task, Path(folder, "run"), ranks, total_steps=args.steps * ranks, log_steps=1, **options
                    )
                turns[ranks].append(speed(lines))
        pairs = list(zip(turns[1], turns[2], strict=True))
        found[task] = {
            "settings": options,
            "turns": {str(ranks): each for ranks, each in turns.items()},
            "ratio": statistics.median(two / one for one, two in pairs),
        }
    return found


def returns(args: RanksArgs, found: dict[str, Any], keep: Callable[[], None]) -> None:
    """Mean returns over the second half of runs, with one process and with two; seeds that are known are kept."""
    for each in LEARNING:
        if each.task not in args.learning:
            continue
        steps, seeds = args.learning_steps or each.steps, args.seeds or each.seeds
        known = found.get(each.name, {})
        if known.get("steps") != steps or known.get("settings") != each.settings:
            known = {"steps": steps, "settings": each.settings, "1": [], "2": []}
        found[each.name] = known
        for seed in range(1, seeds + 1):
            for ranks in (1, 2):
                if len(known[str(ranks)]) < seed:
                    known[str(ranks)].append(late_return(each, ranks, steps, seed))
                    keep()
        known |= compared(known["1"], known["2"])
    keep()


def late_return(learning: Learning, ranks: int, steps: int, seed: int) -> float:
    """The mean return over the second half of a run."""
    options = learning.of_each(ranks) | {"seed": seed, "total_steps": steps, "log_steps": steps // 50}
    with tempfile.TemporaryDirectory() as folder:
        lines = trained(ranks, learning.task, Path(folder, "run"), 2, samplers=0, stop_at_return=None, **options)
    late = [line["return"] for line in lines if line["step"] > steps / 2 and line["return"] is not None]
    return round(statistics.mean(late), 1)


def compared(one: list[float], two: list[float]) -> dict[str, Any]:
    """The 95 % interval (Student's t) of one process's mean return, whether the mean of two is inside, and the interval
    of their difference."""
    if len(one) not in STUDENT or len(two) != len(one):
        return {}
    quantile, count = STUDENT[len(one)], len(one)
    middle, half = statistics.mean(one), quantile * statistics.stdev(one) / count**0.5
    interval = [round(middle - half, 1), round(middle + half, 1)]
    apart = statistics.mean(two) - middle
    error = quantile * ((statistics.variance(one) + statistics.variance(two)) / count) ** 0.5
    difference = [round(apart - error, 1), round(apart + error, 1)]
    return {
        "interval": interval,
        "inside": interval[0] <= statistics.mean(two) <= interval[1],
        "difference_interval": difference,
    }


def rows(record: dict[str, Any]) -> list[dict[str, Any]]:
    """Speed of each task, then the mean returns."""
    what, one, two = "what", "one process", "two processes"
    found = []
    for task, each in record.get("speed", {}).items():
        medians = {name: statistics.median(each["turns"][ranks]) for name, ranks in ((one, "1"), (two, "2"))}
        mark = "≥" if each["ratio"] >= WANTED else "short of"
        beside = f"{each['ratio']:.2f} × ({mark} {WANTED})"
        found.append({what: f"{task}, agent steps/s", **medians, "beside one": beside})
    for name, known in record.get("returns", {}).items():
        if "interval" not in known:
            continue
        low, high = known["interval"]
        means = [f"{statistics.mean(known[ranks]):,.1f}" for ranks in ("1", "2")]
        label = f"{name}, mean return of {len(known['1'])} seeds (95 %)"
        apart = "{:+,.1f} … {:+,.1f}".format(*known["difference_interval"])
        inside = "" if known["inside"] else " (outside)"
        found.append(
            {what: label, one: f"{means[0]} ({low:,.1f} … {high:,.1f})", two: means[1] + inside, "beside one": apart}
        )
    return found


def main(args: RanksArgs) -> None:
    """Measure, print a table and write the JSON file."""
    name = "torchrun_ranks"
    record = heading(name, "PPO with two of torchrun's processes")
    record |= {key: found for key in ("speed", "returns") if (found := earlier(args.out, name, key))}

    compared_before = record.setdefault("returns", {})

    if "speed" in args.parts:
        record["speed"] = speeds(args)
    if "returns" in args.parts:
        returns(args, compared_before, lambda: write(args.out, record))
    passed = {task: found["ratio"] >= WANTED for task, found in record.get("speed", {}).items()}
    passed |= {name: found["inside"] for name, found in compared_before.items() if "inside" in found}
    record["passed"] = passed
    record["rows"] = rows(record)
    write(args.out, record)
    show(record)


if __name__ == "__main__":
    main(tyro.cli(RanksArgs))
