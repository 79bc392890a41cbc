"""Does a pool give back what it took? Memory and threads over many make/close and many steps.

Each case runs in a process of its own and samples the process's resident memory and
thread count. Flat means: over the second half of the run memory grows by less than
`FLAT_BYTES`, and no more threads are left than after the first tenth.
"""

from __future__ import annotations

import gc
import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tyro

from common import RESULTS, heading, in_child, random_actions, tell

SAMPLES = 50
FLAT_BYTES = 1 << 20


@dataclass
class MemoryArgs:
    """Memory and threads over 1,000 make/close and over millions of steps."""

    scale: float = 1.0
    """share of the full length to run; the published figures have 1"""
    tasks: tuple[str, ...] = ()
    """names of the tasks whose cases to run, all if none is given"""
    out: Path = RESULTS
    """folder for the JSON file"""


@dataclass(frozen=True)
class Memory:
    """A case: `length` units of `unit`, done by `work` in `SAMPLES` equal parts."""

    task: str
    unit: str
    length: int
    num_envs: int
    work: Callable[[Memory, int], Iterator[None]]


def make_and_close(case: Memory, times: int) -> Iterator[None]:
    """Make, reset, step and close a pool so many times; yields after each `SAMPLES`-th part."""
    import headrace

    for i in range(times):
        with headrace.make(case.task, num_envs=case.num_envs, num_threads=2, seed=i) as pool:
            pool.reset()
            pool.step(np.zeros((case.num_envs, *(pool.action_space.shape or ())), pool.action_space.dtype))
        if (i + 1) % max(1, times // SAMPLES) == 0:
            gc.collect()
            yield


def keep_stepping(case: Memory, steps: int) -> Iterator[None]:
    """Make so many agent steps in one pool; yields after each `SAMPLES`-th part."""
    import headrace

    calls = max(SAMPLES, steps // case.num_envs)
    with headrace.make(case.task, num_envs=case.num_envs, num_threads=2, seed=0) as pool:
        pool.reset()
        actions = random_actions(pool.action_space, case.num_envs, 256)
        for i in range(calls):
            pool.step(actions[i % len(actions)])
            if (i + 1) % (calls // SAMPLES) == 0:
                yield


def keep_training(case: Memory, iterations: int) -> Iterator[None]:
    """Make so many iterations of one training run; yields after each `SAMPLES`-th part."""
    from headrace.train.recipes.make import make_config
    from headrace.train.runners.assembly import make_trainer
    from headrace.train.runs.folder import RunFolder

    settings: dict[str, Any] = {
        "num_envs": case.num_envs,
        "num_steps": 8,
        "minibatch_size": 64,
        "log_steps": 10**12,
        "seed": 1,
    }
    config = make_config(case.task, total_steps=10**12, tensorboard=False, stop_at_return=None, **settings)
    with tempfile.TemporaryDirectory() as folder:
        trainer: Any = make_trainer(config, RunFolder.create(Path(folder) / "run", config))
        for i in range(iterations):
            trainer.iterate()
            if (i + 1) % max(1, iterations // SAMPLES) == 0:
                yield
        trainer.close()


CASES = (
    Memory("CartPole-v1", "make/close", 1_000, 8, make_and_close),
    Memory("Pong-v5", "make/close", 1_000, 2, make_and_close),
    Memory("HalfCheetah-v5", "make/close", 1_000, 8, make_and_close),
    Memory("CartPole-v1", "steps", 10_000_000, 1024, keep_stepping),
    Memory("Pong-v5", "steps", 100_000, 16, keep_stepping),
    Memory("HalfCheetah-v5", "steps", 1_000_000, 64, keep_stepping),
    Memory("CartPole-v1", "training iterations", 10_000, 16, keep_training),
    Memory("TagContinuous-v0", "training iterations", 10_000, 2, keep_training),
)


def resident_and_threads() -> tuple[int, int]:
    """Resident bytes and number of threads of this process (Linux)."""
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(status["VmRSS"].split()[0]) * 1024, int(status["Threads"])


def run_case(index: int, scale: float) -> dict[str, Any]:
    """Run one case in this process; memory in bytes, one sample for each part."""
    case = CASES[index]
    length = max(SAMPLES, round(case.length * scale))
    samples = [resident_and_threads() for _ in case.work(case, length)]
    memory, threads = zip(*samples, strict=True)
    half = memory[len(memory) // 2 :]
    slope = np.polyfit(np.linspace(0, length / 2, len(half)), half, 1)[0]
    settled = max(threads[: max(1, len(threads) // 10)])
    return {
        "name": f"{case.task}, N={case.num_envs}: {length:,} {case.unit}",
        "unit": case.unit,
        "bytes": memory,
        "threads": threads,
        "bytes_per_unit": float(slope),
        "growth_second_half": float(slope * length / 2),
        "passed": bool(slope * length / 2 < FLAT_BYTES and threads[-1] <= settled),
    }


def rows(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """For each kind of work both ends of its cases, and whether they are flat."""
    kinds: dict[str, list[dict[str, Any]]] = {}
    for run in runs:
        kinds.setdefault(run["unit"], []).append(run)
    return [
        {
            "case": "; ".join(run["name"] for run in each),
            "MiB, first … last": "; ".join(ends(run["bytes"], 2**20, ".1f") for run in each),
            "threads": "; ".join(ends(run["threads"], 1, ".0f") for run in each),
            "flat": all(run["passed"] for run in each),
        }
        for each in kinds.values()
    ]


def ends(values: list[int], unit: int, form: str) -> str:
    """The first value and the last."""
    return f"{values[0] / unit:{form}} … {values[-1] / unit:{form}}"


def main() -> None:
    if sys.argv[1:2] == ["--child"]:
        print(json.dumps(run_case(int(sys.argv[2]), float(sys.argv[3]))))
        return
    args = tyro.cli(MemoryArgs)
    chosen = [i for i, case in enumerate(CASES) if not args.tasks or case.task in args.tasks]
    runs = [in_child(__file__, "--child", str(i), str(args.scale)) for i in chosen]
    record = heading("memory", "Memory and threads") | {
        "settings": {"scale": args.scale, "samples": SAMPLES, "flat_bytes": FLAT_BYTES},
        "passed": {run["name"]: run["passed"] for run in runs},
        "runs": runs,
        "rows": rows(runs),
    }
    tell(args.out, record)


if __name__ == "__main__":
    main()
