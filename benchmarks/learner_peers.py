"""PPO's and SAC's whole loops on Pendulum beside other libraries', with their compilation apart and with it.

stable-baselines3, sbx (its port to JAX) and LeanRL's compiled scripts, each in a process of its own with an interpreter
that has it, in turns; equal networks, rollouts, minibatches and updates, and one core for each. A speed is that of the
steps after the first ones, by the clock and in processor time, as `peer_marks.py` takes them; what the first ones took
longer is compilation, and what else a start takes. A run's seconds are those of ``--run`` steps with it. LeanRL's
scripts need the tensordict of their time; a library that fails takes no part.

    python benchmarks/learner_peers.py [--sbx PYTHON] [--leanrl PYTHON --leanrl-folder FOLDER] [--algos ppo sac]
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import tyro

from common import OURS, Args, earlier, heading, tell
from peer_marks import ENVS, EPOCHS, MINIBATCH, STARTS, STEPS, TASK

CHILD = Path(__file__).with_name("peer_marks.py")
NAME, SB3 = "learner_peers", "stable-baselines3"


@dataclass
class PeersArgs(Args):
    """Whole loops beside other libraries'."""

    algos: tuple[str, ...] = ("ppo", "sac")
    """algorithms; rows of others stay as they are"""
    repeats: int = 3
    """runs of each library"""
    rollouts: int = 30
    """of a run of PPO, the first ten of which are not in its speed"""
    updates: int = 1000
    """of a run of SAC, the first 200 of which are not in its speed"""
    run: int = 100_000
    """steps of the run whose seconds are told, compilation included"""
    cores: int = 1
    """of each run"""
    sbx: str = ""
    """the interpreter that has sbx; not part of it where empty"""
    leanrl: str = ""
    """the interpreter that has what LeanRL needs, such as Gymnasium 0.29; not part of it where empty"""
    leanrl_folder: str = ""
    """the folder of LeanRL's scripts"""


def marks(python: str, *arguments: str) -> list[tuple[int, float, float]]:
    """Steps, seconds and processor seconds of a run; none where the library has failed."""
    done = subprocess.run([python, str(CHILD), *arguments], stdout=subprocess.PIPE, text=True)
    return [] if done.returncode else json.loads(done.stdout.splitlines()[-1])


def figures(algo: str, found: list[tuple[int, float, float]], run: int) -> dict[str, float]:
    """A run's speeds, and what it took before them."""
    begin, idle = (10 * ENVS * STEPS, 0) if algo == "ppo" else (STARTS + 200, STARTS)
    first, last = next(mark for mark in found if mark[0] >= begin), found[-1]
    steps = last[0] - first[0]
    speed, frugality = steps / (last[1] - first[1]), steps / (last[2] - first[2])
    start = max(first[1] - (first[0] - idle) / speed, 0.0)
    return {
        "steps/s": speed,
        "steps/s of processor time": frugality,
        "start and compilation, s": start,
        f"{run:,} steps with it, s": start + run / speed,
    }


def rows_of(algo: str, args: PeersArgs) -> list[dict[str, Any]]:
    """One for each library, ours first; medians of its runs."""
    total = args.rollouts * ENVS * STEPS if algo == "ppo" else STARTS + args.updates
    pythons = {OURS: sys.executable, SB3: sys.executable, "sbx": args.sbx, "LeanRL": args.leanrl}
    runs: dict[str, list[dict[str, float]]] = {who: [] for who, python in pythons.items() if python}
    for turn in range(args.repeats):
        for who in list(runs) if turn % 2 == 0 else list(runs)[::-1]:
            folder = [args.leanrl_folder] if who == "LeanRL" else []
            found = marks(pythons[who], who, algo, str(total), str(args.cores), *folder)
            if not found:
                print(f"{algo}, {who}: failed, and takes no part")
                del runs[who]
                continue
            runs[who].append(figures(algo, found, args.run))
            print(f"{algo}, {who}: {runs[who][-1]['steps/s']:,.0f} steps/s", flush=True)
    rows, speeds = [], {}
    for who, each_run in runs.items():
        middle = {column: median(run[column] for run in each_run) for column in each_run[0]}
        speeds[who] = [run["steps/s"] for run in each_run], [run["steps/s of processor time"] for run in each_run]
        ratios = [
            median(a / b for a, b in zip(ours, theirs, strict=True))
            for ours, theirs in zip(speeds[OURS], speeds[who], strict=True)
        ]
        beside = {"ours is": None, "in processor time": None} if who == OURS else {}
        beside = beside or {"ours is": round(ratios[0], 2), "in processor time": round(ratios[1], 2)}
        rows.append({"loop": algo, "library": who} | {name: round(value, 1) for name, value in middle.items()} | beside)
    return rows


def main() -> None:
    args = tyro.cli(PeersArgs)
    record = heading(NAME, f"PPO's and SAC's loops on {TASK} beside compiled libraries")
    ppo = {"num_envs": ENVS, "num_steps": STEPS, "epochs": EPOCHS, "minibatch_size": MINIBATCH}
    record |= {"settings": {"repeats": args.repeats, "cores": args.cores, "ppo": ppo, "run": args.run}}
    kept = [row for row in earlier(args.out, NAME, "rows") or [] if row["loop"] not in args.algos]
    record["rows"] = sorted(
        [*kept, *(row for algo in args.algos for row in rows_of(algo, args))], key=lambda r: r["loop"]
    )
    tell(args.out, record)


if __name__ == "__main__":
    main()
