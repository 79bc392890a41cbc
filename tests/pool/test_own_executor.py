"""An executor in a user's file passes the conformance checks of Headrace's own executors, and its task is trained."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import headrace.testing
from headrace.train import train

FILE = Path(__file__).with_name("my_executor.py")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with the user's file."""
    shutil.copy(FILE, tmp_path)
    monkeypatch.chdir(tmp_path)


def test_the_documentation_page_shows_my_executor() -> None:
    page = Path(__file__).parents[2] / "docs" / "write-an-executor.md"
    assert f"```python\n{FILE.read_text()}```" in page.read_text()


def test_my_executor_passes_the_conformance_checks() -> None:
    assert "saved_states" in str(headrace.testing.check("my_executor.py:Walk-v0"))


def test_ppo_solves_a_task_of_my_executor(tmp_path: Path) -> None:
    """A walker that goes back to the middle stays on its feet; one that walks at random falls after some 60 steps."""
    how = {"total_steps": 40_000, "num_envs": 16, "num_steps": 64, "samplers": 0, "video": False, "quiet": True}
    result = train("my_executor.py:Walk-v0", "ppo", run_dir=tmp_path / "run", stop_at_return=150, **how)
    assert result.reason == "solved"
