"""Results of measurements and agreements are kept in a file that several processes write."""

from __future__ import annotations

import multiprocessing
from pathlib import Path
from typing import Any

import pytest

from headrace.train.runs.cache import MeasurementCache

EACH = 20


def _cache() -> MeasurementCache[int]:
    return MeasurementCache("numbers", lambda number: {"number": number}, lambda number: int(number))


def _remember(process: int) -> None:
    for i in range(EACH):
        _cache().remember({"process": process, "i": i}, i)


def test_processes_that_remember_at_the_same_time_lose_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    context: Any = multiprocessing.get_context("fork")
    writers = [context.Process(target=_remember, args=(number,)) for number in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(60)
        assert writer.exitcode == 0
    assert [_cache().recall({"process": p, "i": i}) for p in range(4) for i in range(EACH)] == [*range(EACH)] * 4
    assert _cache().forget(lambda key: key["process"] == 2) == EACH
    assert _cache().recall({"process": 2, "i": 0}) is None and _cache().recall({"process": 3, "i": 1}) == 1


def test_nothing_is_forgotten_or_written_where_nothing_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "none"))
    assert _cache().forget(lambda key: True) == 0 and _cache().recall({}) is None
    assert not (tmp_path / "none").exists()
