"""What somebody meets first: imports, help, the first step in a new process, and the sizes of the wheels.

Each is measured in new processes, by their processor time: all are work of one thread, so a quiet machine takes as
long, and a busy one says the same. What the clock said stands in the record. Sizes are those of the wheels in
``dist/``, where `make wheels` has put some. `tools/try_wheels.py` and `make demo` tell what needs an empty environment.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tyro

from common import RESULTS, heading, tell

ROOT = Path(__file__).parents[1]
HEADRACE = "import sys; from headrace.cli.main import main; sys.exit(main(sys.argv[1:]))"
STEP = """
import headrace, numpy as np
with headrace.make("CartPole-v1", num_envs=8, seed=1) as pool:
    pool.reset()
    pool.step(np.zeros(8, np.int64))
"""
PROCESSES = {
    "import headrace": (("import headrace",), 0.3),
    "headrace --help": ((HEADRACE, "--help"), 0.3),
    "headrace train --help": ((HEADRACE, "train", "--help"), 0.5),
}
COLD, WARM = "first step of CartPole, empty caches", "first step of CartPole, warm"
WHEELS = {"headrace-": 5.0, "headrace_atari-": 3.0}
"""beginning of a wheel's name → the MiB that it may have"""


@dataclass
class FirstArgs:
    """Imports, help, first steps, wheels."""

    repeats: int = 7
    """processes for each measure, after one that is not counted"""
    out: Path = RESULTS
    """folder for the JSON file"""


def run(command: tuple[str, ...], cache: Path) -> tuple[float, float]:
    """Seconds that a new process takes, and its processor time."""
    environment = os.environ | {"XDG_CACHE_HOME": str(cache), "COLUMNS": "100"}
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run([sys.executable, "-c", *command], env=environment, stdout=subprocess.DEVNULL, check=True)
    took, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    return took, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measured(turns: list[tuple[float, float]], wanted: float) -> dict[str, Any]:
    """What the record has of one measure in seconds."""
    clock, processor = zip(*turns, strict=True)
    median = round(statistics.median(processor), 3)
    return {
        "unit": "s",
        "wanted": wanted,
        "median": median,
        "passed": median <= wanted,
        "processor_seconds": [round(value, 3) for value in processor],
        "clock_seconds": [round(value, 3) for value in clock],
    }


def processes(repeats: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every measure that is a process, by name."""
    with tempfile.TemporaryDirectory() as folder:
        warm = Path(folder) / "warm"
        for name, (command, wanted) in PROCESSES.items():
            run(command, warm)
            yield name, measured([run(command, warm) for _ in range(repeats)], wanted)
        yield COLD, measured([run((STEP,), Path(folder) / f"cold-{i}") for i in range(min(repeats, 3))], 4.0)
        run((STEP,), warm)
        yield WARM, measured([run((STEP,), warm) for _ in range(repeats)], 0.7)


def wheels() -> Iterator[tuple[str, dict[str, Any]]]:
    """The sizes of wheels that are there."""
    for wheel in sorted((ROOT / "dist").glob("headrace*.whl")):
        for name, most in WHEELS.items():
            if wheel.name.startswith(name):
                size = round(wheel.stat().st_size / 2**20, 2)
                yield f"wheel of {name[:-1]}", {"unit": "MiB", "wanted": most, "median": size, "passed": size <= most}


def row(measures: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Every measure's median, and what is wanted."""
    return {"median (wanted)": "new processes"} | {
        name: f"{found['median']:.2f} {found['unit']} ({found['wanted']:g})" for name, found in measures.items()
    }


def main() -> None:
    args = tyro.cli(FirstArgs)
    found = dict(processes(args.repeats)) | dict(wheels())
    record = heading("first_minutes", "First minutes: processor time, and wheels") | {
        "settings": {"repeats": args.repeats},
        "passed": {name: one["passed"] for name, one in found.items()},
        "measures": found,
        "rows": [row(found)],
    }
    tell(args.out, record)


if __name__ == "__main__":
    main()
