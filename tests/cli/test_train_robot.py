"""The robot task of the documentation, in a file of its own, trains by its path."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

import programs

pytest.importorskip("torch")
pytest.importorskip("mujoco")  # its library must be there first
pytest.importorskip("headrace_mujoco._mujoco")

PAGE = Path(__file__).parent.parent.parent / "docs" / "mujoco-task.md"


def test_a_robot_task_trains_by_its_path(tmp_path: Path) -> None:
    found = re.search(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert found
    assert len([line for line in found[1].splitlines() if line.strip()]) < 60
    (tmp_path / "arm.py").write_text(found[1])
    command = [sys.executable, "-c", "from headrace.cli.main import main; main()", "train", "arm.py"]
    settings = ["--total-steps", "8192", "--seed", "1", "--normalise-observations", "--no-video"]
    done = programs.run([*command, *settings], cwd=tmp_path, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (run,) = (tmp_path / "runs").iterdir()
    last = json.loads((run / "metrics.jsonl").read_text().splitlines()[-1])
    assert last["step"] == 8192
    assert last["return"] < 0  # minus the distance, step by step
