"""The example programs run to their end."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"
ARGUMENTS = {"ppo_in_a_page.py": ["--total-steps", "81920"], "kernel_environment.py": ["20000"]}


@pytest.mark.parametrize("program", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.name)
def test_example_runs(program: Path, tmp_path: Path) -> None:
    command = [sys.executable, str(program), *ARGUMENTS.get(program.name, [])]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout
