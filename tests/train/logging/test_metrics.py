"""The metrics file, and the curve on the screen."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pytest

import headrace.train
from headrace.train import resume
from headrace.train.logging.dashboard import MARK, draw_curve, duration
from headrace.train.logging.loggers import MetricsWriter, TensorBoard
from headrace.train.recipes.make import make_config
from headrace.train.runners.assembly import make_trainer
from headrace.train.runs.folder import RunFolder
from headrace.train.runs.metrics import read_metrics


def test_lines_behind_the_offset_are_cut_off(tmp_path):
    file = tmp_path / "metrics.jsonl"
    writer = MetricsWriter(file)
    writer.write({"step": 1})
    offset = writer.offset()
    writer.write({"step": 2})
    writer.close()
    with file.open("ab") as half_written:
        half_written.write(b'{"step": 3')
    assert [line["step"] for line in read_metrics(file)] == [1, 2]
    writer = MetricsWriter(file, offset)
    writer.write({"step": 4})
    writer.close()
    assert [line["step"] for line in read_metrics(file)] == [1, 4]


def test_a_line_whose_end_was_lost_is_cut_off(tmp_path):
    """As by a disk without room, or a loss of power: the checkpoint knows more bytes than there are."""
    file = tmp_path / "metrics.jsonl"
    file.write_bytes(b'{"step": 1}\n{"step": 2')
    writer = MetricsWriter(file, 24)
    assert writer.offset() == 12
    writer.write({"step": 3})
    writer.close()
    assert [line["step"] for line in read_metrics(file)] == [1, 3]


def test_the_offset_equals_the_length_of_the_kept_lines(tmp_path):
    """Also before anything more is written, and where the file was lost."""
    file = tmp_path / "metrics.jsonl"
    for offset, before in ((12, b'{"step": 1}\n{"step": 2}\n'), (50, b"")):
        file.write_bytes(before)
        writer = MetricsWriter(file, offset)
        assert writer.offset() == min(offset, len(before))
        writer.close()
        writer = MetricsWriter(file, writer_offset := min(offset, len(before)))
        writer.write({"step": 3})
        assert writer.offset() == file.stat().st_size == writer_offset + 12
        writer.close()
        assert read_metrics(file)[-1] == {"step": 3}


def test_tensorboard_drops_lines_of_a_killed_run_after_its_last_checkpoint(tmp_path):
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    settings: dict[str, Any] = {"num_envs": 4, "num_steps": 8, "minibatch_size": 32, "hidden": [8], "log_steps": 32}
    settings |= {"total_steps": 320, "stop_at_return": None, "video": False, "evaluate_episodes": 0, "viewer": False}
    run = RunFolder.create(tmp_path, config := make_config("CartPole-v1", **settings))
    with closing(make_trainer(config, run)) as killed:
        for step in range(1, 8):
            killed.iterate()
            if step == 4:
                killed.saver.save()
        assert killed.state.logged == 224
    before = [line["step"] for line in read_metrics(run.metrics_file)]
    assert before == [32 * step for step in range(1, 8)]
    resume(tmp_path, quiet=True)
    events = accumulator.EventAccumulator(str(run.tensorboard))
    events.Reload()
    shown = [(each.step, each.value) for each in events.Scalars("time/seconds")]
    lines = [(line["step"], pytest.approx(line["time"]["seconds"])) for line in read_metrics(run.metrics_file)]
    assert shown == lines and len(lines) == 10


def test_tensorboard_reads_the_written_metrics(tmp_path):
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    file, folder = tmp_path / "metrics.jsonl", tmp_path / "tensorboard"
    writer = MetricsWriter(file, 0, [TensorBoard(folder)])
    assert not folder.exists()
    for step in (1, 2, 3):
        writer.write({"step": step, "return": step * 10.0, "loss": {"value": 0.5}, "reason": "words", "none": None})
    writer.close()
    # from a checkpoint at step 2: what came later never happened
    writer = MetricsWriter(file, 0, [TensorBoard(folder, 2)])
    writer.write({"step": 4, "return": 40.0})
    writer.close()
    assert len(list(folder.iterdir())) == 2
    seen = accumulator.EventAccumulator(str(folder)).Reload()
    assert [(event.step, event.value) for event in seen.Scalars("train/return")] == [(1, 10.0), (4, 40.0)]
    assert {"loss/value", "train/step"} <= set(seen.Tags()["scalars"])


def test_the_curve_fills_its_box():
    lines = draw_curve([(0, 0.0), (50, 10.0), (100, 5.0)], 20, 4)
    assert len(lines) == 4
    assert {len(line) for line in lines} == {29}
    assert "10.0" in lines[0]
    assert "0.0" in lines[-1]


def test_evaluations_are_marks_on_the_curve():
    lines = draw_curve([(10, 0.0), (50, 10.0), (100, 5.0)], 20, 4, [(0, -10.0), (50, 20.0), (100, 5.0)])
    assert {len(line) for line in lines} == {29}
    marked = [(row, column) for row, line in enumerate(lines) for column, each in enumerate(line.plain) if each == MARK]
    assert marked == [(0, 19), (2, 28), (3, 9)]
    assert "20.0" in lines[0] and "-10.0" in lines[-1]
    assert [len(line) for line in draw_curve([(5, 1.0)], 20, 4, [(0, 1.0)])] == [29] * 4  # no curve yet


def test_the_time_left_is_foretold_and_readable():
    assert [duration(seconds) for seconds in (0.4, 89, 90, 3600 * 1.4, 3600 * 4.63, 3600 * 1000)] == [
        "0 s",
        "89 s",
        "2 min",
        "84 min",
        "4 h 38 min",
        "1,000 h 0 min",
    ]


@pytest.mark.parametrize(
    ("algo", "changes", "rates"),
    [
        ("ppo", {}, [0.75e-3, 0.5e-3, 0.25e-3, 0.0]),
        ("ppo", {"schedules": {"learning_rate": [[0, 1e-3], [128, 0.5e-3]]}}, [0.75e-3, 0.5e-3, 0.5e-3, 0.5e-3]),
        ("ppo", {"anneal_learning_rate": False}, None),
        ("a2c", {"anneal_learning_rate": True}, [0.75e-3, 0.5e-3, 0.25e-3, 0.0]),
        ("dqn", {"samplers": 0, "learning_starts": 32, "minibatch_size": 16, "anneal_learning_rate": False}, None),
    ],
)
def test_losses_hold_the_norm_of_the_gradient_and_the_learning_rate(tmp_path, algo, changes, rates):
    settings = {"num_envs": 8, "num_steps": 8, "total_steps": 256, "log_steps": 64, "learning_rate": 1e-3}
    settings |= {"hidden": [8], "video": False, "tensorboard": False, "stop_at_return": None}
    headrace.train.train("CartPole-v1", algo, run_dir=tmp_path, quiet=True, **settings | changes)
    lines = [line for line in read_metrics(tmp_path / "metrics.jsonl") if line["step"] % 64 == 0]
    assert all(line["loss"]["gradient_norm"] > 0 for line in lines)
    found = [line["loss"].get("learning_rate") for line in lines]
    assert found == (pytest.approx(rates) if rates else [None] * 4)
