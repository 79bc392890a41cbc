"""Pools whose workers are killed at random moments: a small part of what `benchmarks/process_soak.py` does."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("rich", reason="the benchmarks' packages are not installed")
SCRIPT = Path(__file__).parents[3] / "benchmarks" / "process_soak.py"


@pytest.mark.nightly
def test_pools_survive_the_loss_of_workers_and_leave_no_resources(tmp_path: Path) -> None:
    command = [sys.executable, str(SCRIPT), "--rounds", "20", "--seed", "3", "--out", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    record = json.loads((tmp_path / "process_soak.json").read_text())
    assert sum(record["kills"].values()) == 20
    assert sum(record["failures"].values()) > 0
    assert record["after"] == record["before"]
