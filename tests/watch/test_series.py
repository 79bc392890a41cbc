"""Metrics as columns: their numbers, damaged lines, and fewer points that look the same."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from pages import line

from headrace.watch.series import Series, glance, thin, window


def written(file: Path, *rows: object) -> Path:
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


def test_every_number_is_a_column_even_if_it_begins_late(tmp_path: Path) -> None:
    rows = [{"step": 1, "loss": {"a": 2.5}, "name": "x", "flag": True}, {"step": 2, "loss": {"b": math.nan}}]
    rows += [{"step": 3, "policies": {"cat": {"loss": {"a": 7}}}, "loss": {"a": None}}]
    series = Series(written(tmp_path / "metrics.jsonl", *rows))
    series.refresh()
    found = series.rows()
    assert series.count == 3 and not series.problem
    assert sorted(found) == ["loss/a", "loss/b", "policies/cat/loss/a", "step"]
    assert np.array_equal(found["loss/a"], [2.5, np.nan, np.nan], equal_nan=True)
    assert np.array_equal(found["policies/cat/loss/a"], [np.nan, np.nan, 7], equal_nan=True)


def test_a_resumed_run_is_read_anew(tmp_path: Path) -> None:
    file = written(tmp_path / "metrics.jsonl", *(line(i, i, i) for i in range(1, 6)))
    series = Series(file)
    series.refresh()
    written(file, *(line(i, i, -i) for i in range(1, 9)))
    series.refresh()
    assert series.generation == 1 and series.count == 8
    assert series.rows()["return"].tolist() == [-i for i in range(1, 9)]
    assert series.rows(6)["step"].tolist() == [7, 8]


@pytest.mark.parametrize("wrong", ["null", "[]", "x", "{}", '{"step": "1"}', "[" * 5000, "\udcff"])
def test_a_damaged_line_is_named_and_earlier_measurements_are_kept(tmp_path: Path, wrong: str) -> None:
    file = written(tmp_path / "metrics.jsonl", line(1, 1, 1), line(2, 2, 2))
    with file.open("a", errors="surrogateescape") as more:
        more.write(f"{wrong}\n{json.dumps(line(3, 3, 3))}\n")
    series = Series(file)
    series.refresh()
    assert series.count == 2 and "metrics.jsonl, line 3" in series.problem
    assert "damaged" in glance(file).problem


def test_fewer_points_keep_every_peak() -> None:
    count = 10_000
    column = np.sin(np.arange(count) / 300)
    column[[1234, 7777]] = 50, -50
    columns = thin({"step": np.arange(count, dtype=float), "y": column}, 500)
    assert all(len(each) <= 500 for each in columns.values())
    assert {50.0, -50.0} <= set(columns["y"])
    assert columns["step"][0] == 0 and columns["step"][-1] == count - 1
    assert (np.diff(columns["step"]) >= 0).all()
    peak = columns["step"][columns["y"].argmax()]
    assert abs(peak - 1234) < 2 * count / 500 + 2


@pytest.mark.parametrize("count", [0, 1, 399, 400, 401, 799, 801, 12_345])
def test_thinning_takes_any_length(count: int) -> None:
    columns = thin({"step": np.arange(count, dtype=float), "nothing": np.full(count, np.nan)}, 400)
    assert len(columns["step"]) == len(columns["nothing"]) <= 400
    assert count == 0 or columns["step"][-1] == count - 1


def test_a_window_has_a_neighbour_at_either_side() -> None:
    columns = {"step": np.arange(0.0, 100.0, 10.0)}
    assert window(columns, "step", 25, 55)["step"].tolist() == [20, 30, 40, 50, 60]
    assert window(columns, "step", 31, 34)["step"].tolist() == [30, 40]
    assert window(columns, "step", 500, 600)["step"].tolist() == [90]
    assert window(columns, "no such", 0, 1)["step"].size == 10


def test_a_repeated_evaluation_is_reported_once(tmp_path: Path) -> None:
    rows = [line(1, 1, 1, evaluation={})]
    rows += [line(i, i, i, evaluation={"step": 10 * (i // 2), "return": float(i // 2)}) for i in range(2, 8)]
    series = Series(written(tmp_path / "metrics.jsonl", *rows))
    series.refresh()
    found = series.evaluations()
    assert found["evaluation/step"].tolist() == [10, 20, 30] and found["evaluation/return"].tolist() == [1, 2, 3]


def test_a_glance_shows_the_recent_rate(tmp_path: Path) -> None:
    assert glance(tmp_path / "none").rate is None
    file = written(tmp_path / "metrics.jsonl", line(1000, 10, 1))
    assert glance(file).rate == 100
    written(file, *(line(1000 * i, 10 * i, i) for i in range(1, 50)), line(49_600, 550, 50))
    assert glance(file).rate == 10 and glance(file).last["step"] == 49_600
