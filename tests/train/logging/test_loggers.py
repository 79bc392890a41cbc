"""Weights & Biases and trackio get a run's numbers: with the libraries themselves, which send nothing anywhere."""

from __future__ import annotations

import json
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import headrace
from headrace.errors import OptionError
from headrace.train import resume
from headrace.train.runs.metrics import read_metrics
from whole_runs import SMALL

train: Any = headrace.train
SHORT = SMALL | {"total_steps": 1024, "log_steps": 256, "quiet": True}


def noted(training: Any, line: Any) -> None:
    training.log(mine=training.step + 0.5)


def log_records(log: bytes) -> Iterator[bytes]:
    """The records of a file in LevelDB's log format, behind W&B's header of 7 bytes."""
    block, at, record = 32768, 7, b""
    while at + 7 <= len(log):
        if block - at % block < 7:  # a record's head does not fit any more
            at += block - at % block
            continue
        length, kind = struct.unpack_from("<HB", log, at + 4)
        record += log[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):  # the whole of it, or the last part
            yield record
            record = b""


def wandb_records(run: Path) -> dict[str, list[Any]]:
    """What offline files hold, in order: the rows of each run's history, names and settings."""
    pytest.importorskip("wandb")
    from wandb.proto import wandb_internal_pb2

    found: dict[str, list[Any]] = {"rows": [], "ids": [], "config": []}
    for file in sorted(run.glob("wandb/offline-run-*/run-*.wandb")):
        for data in log_records(file.read_bytes()):
            record = wandb_internal_pb2.Record()  # pyright: ignore[reportAttributeAccessIssue]
            record.ParseFromString(data)
            kind = record.WhichOneof("record_type")
            if kind == "history":
                items = record.history.item
                found["rows"].append({i.key or "/".join(i.nested_key): json.loads(i.value_json) for i in items})
            elif kind == "run":
                found["ids"].append((record.run.run_id, record.run.display_name, record.run.project))
                found["config"].append({item.key: json.loads(item.value_json) for item in record.run.config.update})
    return found


def test_wandb_offline_has_every_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    monkeypatch.setenv("WANDB_PROJECT", "trials")
    run = train("CartPole-v1", **SHORT, run_dir=tmp_path / "pole", log=("wandb",), callback=noted).run_dir
    resume(run, total_steps=2048, quiet=True, callback=noted)
    lines, found = read_metrics(run / "metrics.jsonl"), wandb_records(run)
    rows = found["rows"]
    assert [row["train/step"] for row in rows] == [line["step"] for line in lines]
    assert [row["train/return"] for row in rows] == [line["return"] for line in lines]
    assert [row["own/mine"] for row in rows] == [line["step"] + 0.5 for line in lines]
    assert all(row["loss/value_loss"] == line["loss"]["value_loss"] for row, line in zip(rows, lines, strict=True))
    assert len(set(found["ids"])) == 1 and found["ids"][0][1:] == ("pole", "trials")
    assert found["config"][0]["algo"] == "ppo" and found["config"][-1]["total_steps"] == 2048


def test_wandb_has_every_line_of_a_run_with_workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    run = train(
        "CartPole-v1", "dqn", samplers=1, total_steps=3000, log_steps=1000, learning_starts=500, evaluate_episodes=0,
        viewer=False, video=False, quiet=True, run_dir=tmp_path / "run", log=("wandb",),
    ).run_dir  # fmt: skip
    rows = wandb_records(run)["rows"]
    assert [row["train/step"] for row in rows] == [line["step"] for line in read_metrics(run / "metrics.jsonl")]


def test_trackio_has_every_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """trackio wants an older pillow than Headrace is tested with, and is therefore not among what tests install."""
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path / "trackio"))
    pytest.importorskip("trackio")
    from trackio.sqlite_storage import SQLiteStorage  # pyright: ignore[reportMissingImports]

    run = train("CartPole-v1", **SHORT, run_dir=tmp_path / "pole", log=("trackio",), callback=noted).run_dir
    resume(run, total_steps=2048, quiet=True, callback=noted)
    lines, rows = read_metrics(run / "metrics.jsonl"), SQLiteStorage.get_logs("headrace", "pole")
    assert [row["step"] for row in rows] == [line["step"] for line in lines]
    assert [row["train/return"] for row in rows] == [line["return"] for line in lines]
    assert [row["own/mine"] for row in rows] == [line["step"] + 0.5 for line in lines]


def test_a_missing_logger_is_named_before_the_run_begins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(OptionError, match=r"needs wandb: pip install 'headrace\[wandb\]'"):
        train("CartPole-v1", **SHORT, run_dir=tmp_path / "run", log=("wandb",))
    with pytest.raises(OptionError, match="one or more of tensorboard, wandb, trackio"):
        train("CartPole-v1", **SHORT, run_dir=tmp_path / "run", log=("paper",))
    assert not (tmp_path / "run").exists()


def test_tensorboard_is_one_of_the_loggers(tmp_path: Path):
    pytest.importorskip("tensorboard")
    run = train("CartPole-v1", **SHORT, run_dir=tmp_path / "run", log=("tensorboard",)).run_dir
    assert len(list((run / "tensorboard").iterdir())) == 1


def test_a_configuration_without_loggers_and_rewards_is_read(tmp_path: Path):
    run = train("CartPole-v1", **SHORT, run_dir=tmp_path / "run").run_dir
    values = json.loads((run / "config.json").read_text())
    for name in ("log", "reward"):
        del values[name]
    (run / "config.json").write_text(json.dumps(values))
    assert resume(run, total_steps=2048, quiet=True).steps == 2048
