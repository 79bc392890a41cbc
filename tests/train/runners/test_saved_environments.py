"""The states of Python environments in checkpoints: shared bytes are stored once, and too large states not at all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headrace.train import resume, train
from headrace.train.runners import pool_source
from headrace.train.runs.checkpoint import newest
from headrace.train.runs.events import read_events
from python_games import TABLE
from whole_runs import SMALL, assert_same_run

MIB, TABLE_BYTES = 1 << 20, 1_600_000
TINY: dict[str, Any] = SMALL | {"num_envs": 4, "num_steps": 8, "minibatch_size": 16, "log_steps": 1, "quiet": True}
TINY |= {"anneal_learning_rate": False, "env_options": {"rows": TABLE_BYTES // 8}}


def tiny(total_steps: int) -> dict[str, Any]:
    return TINY | {"total_steps": total_steps}


def stored(run: Path) -> int:
    path = newest(run / "checkpoints")
    assert path is not None
    return (path / "state.safetensors").stat().st_size


def remarks(run: Path) -> list[str]:
    return [event.text for event in read_events(run / "events.jsonl") if event.kind == "warning"]


@pytest.mark.nightly
def test_a_table_that_all_environments_hold_is_stored_once_and_the_run_resumes_exactly(tmp_path: Path) -> None:
    train(TABLE, run_dir=tmp_path / "alone", **tiny(128))
    train(TABLE, run_dir=tmp_path / "stopped", **tiny(64))
    assert TABLE_BYTES < stored(tmp_path / "stopped") < 1.1 * TABLE_BYTES  # of four environments
    resume(tmp_path / "stopped", quiet=True, total_steps=128)
    assert_same_run(tmp_path / "alone", tmp_path / "stopped")
    assert not remarks(tmp_path / "stopped")


def test_states_that_are_too_large_are_left_out_with_one_remark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool_source, "MOST_SAVED", MIB)
    train(TABLE, run_dir=tmp_path, **tiny(96))
    assert stored(tmp_path) < MIB // 10
    told = "a resumed run will begin new episodes, as the states of the environments take more than 1.0 MiB"
    (remark,) = remarks(tmp_path)
    assert remark.startswith(told)
    assert resume(tmp_path, quiet=True, total_steps=128).steps == 128
    assert len(remarks(tmp_path)) == 2


@pytest.mark.nightly
def test_a_run_that_must_repeat_stores_states_of_any_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_source, "MOST_SAVED", MIB)
    train(TABLE, run_dir=tmp_path, deterministic=True, **tiny(32))
    assert stored(tmp_path) > TABLE_BYTES
    assert not remarks(tmp_path)
