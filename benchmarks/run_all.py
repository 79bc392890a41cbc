"""Runs every benchmark, one after the other, and ends with a line for each.

    python benchmarks/run_all.py [--quick]

``--quick`` makes short turns, to see that everything runs; its figures go to a folder of
their own and are not for publication.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tyro
from rich.console import Console
from rich.table import Table

from common import RESULTS

HERE = Path(__file__).parent
SCRIPTS = {
    "cartpole_pool": ["--repeats", "2", "--seconds", "0.2"],
    "kernel_envs": ["--repeats", "2", "--seconds", "0.1"],
    "minatar_pool": ["--repeats", "2", "--seconds", "0.2"],
    "process_pool": ["--repeats", "2", "--seconds", "0.2"],
    "caller_share": ["--repeats", "1", "--seconds", "0.2"],
    "tag_pool": ["--repeats", "2", "--seconds", "0.2"],
    "atari_pool": ["--repeats", "2", "--seconds", "0.5"],
    "atari_emulator": ["--repeats", "2", "--seconds", "0.05", "--games", "pong", "breakout"],
    "vizdoom_pool": ["--repeats", "2", "--seconds", "0.5", "--tasks", "Basic-v1"],
    "mujoco_pool": ["--repeats", "2", "--seconds", "0.2", "--tasks", "HalfCheetah-v5", "--sizes", "64", "1024"],
    "mujoco_pixels": ["--repeats", "2", "--seconds", "0.2", "--tasks", "CheetahRun-v1"],
    "ppo_speed": ["--repeats", "1", "--seconds", "0.5", "--pong-envs", "8"],
    "sb3_training": ["--repeats", "1", "--seconds", "0.5"],
    "replay": ["--repeats", "1", "--seconds", "0.2", "--steps", "100000"],
    "dqn_update": ["--repeats", "1", "--seconds", "0.5", "--sizes", "32"],
    "ppo_learning": ["--seeds", "1", "--tasks", "CartPole-v1"],
    "learning_settings": ["--seeds", "1", "--cases", "gru", "--tasks", "CartPole-v1"],
    "async_ppo": ["--quick"],
    "mujoco_learning": ["--quick"],
    "seconds_to_return": ["Pendulum-v1:ppo:-2000", "--set", "total_steps=4000", "--every", "1000", "--episodes", "2"],
    "fused_updates": ["--quick"],
    "sac_update": ["--quick"],
    "watching": ["--tasks", "Pendulum-v1", "--repeats", "2", "--seconds", "1"],
    "tag_training": ["--quick"],
    "tag_learning": ["--quick"],
    "sac_learning": ["--seeds", "1", "--tasks", "Pendulum-v1", "--steps", "2000"],
    "final_returns": ["--cases", "Pendulum-v1 sac", "--seeds", "1", "--steps", "1500"],
    "together": ["--tasks", "Pendulum-v1", "--repeats", "2", "--seconds", "0.5"],
    "process_soak": ["--rounds", "10"],
    "worker_kills": ["--kills", "5", "--steps", "2000"],
    "tuner": ["--quick"],
    "torchrun_ranks": ["--repeats", "1", "--steps", "3000", "--seeds", "2", "--learning-steps", "8000"],
    "batch_rule": ["--tasks", "Pendulum-v1", "--seeds", "1", "--steps", "1500", "--times", "1", "4", "--episodes", "4"],
    "memory": ["--scale", "0.01"],
}
"""script → what makes it quick"""


@dataclass
class RunArgs:
    """Run all benchmarks."""

    quick: bool = False
    """short turns, results in a temporary folder"""
    only: tuple[str, ...] = tuple(SCRIPTS)
    """names of the scripts to run"""


def verdict(record: dict[str, Any]) -> tuple[int, int]:
    """(thresholds reached, thresholds set) of one benchmark."""
    checks: list[bool] = list(record.get("passed", {}).values())
    for case in record.get("cases", ()):
        passed = case.get("passed", {})
        checks += passed.values() if isinstance(passed, dict) else [passed]
    return sum(checks), len(checks)


def main() -> int:
    args = tyro.cli(RunArgs)
    out = Path(tempfile.mkdtemp()) if args.quick else RESULTS
    table = Table(title="summary", title_justify="left")
    for column in ("benchmark", "thresholds reached", "ended"):
        table.add_column(column)
    failed = 0
    for name in args.only:
        command = [sys.executable, str(HERE / f"{name}.py"), "--out", str(out)]
        status = subprocess.run(command + (SCRIPTS[name] if args.quick else []), check=False).returncode
        failed += status != 0
        path = out / f"{name}.json"
        reached = "{} of {}".format(*verdict(json.loads(path.read_text()))) if path.exists() else "-"
        table.add_row(name, reached, "well" if status == 0 else f"with status {status}")
    Console().print(table)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
