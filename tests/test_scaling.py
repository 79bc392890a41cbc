"""The model of scale: what it expects follows from what was measured."""

from __future__ import annotations

import importlib
import json
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("tyro", reason="tyro is not installed")
with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(Path(__file__).parent.parent / "benchmarks")
    scaling: Any = importlib.import_module("scaling")
Measured, Model = scaling.Measured, scaling.Model
KERNELS = next(case for case in scaling.CASES if case.name == "kernels, CartPole")


def model(alone_once: float, alone_each: float, each: float, factor: float = 1.0) -> Any:
    small, large = (Measured(alone_once + alone_each * n, each * n, n) for n in (256, 1024))
    return Model(KERNELS, small, large, factor)


times = st.floats(1e-9, 1e-3)


@given(times, times, times, st.floats(1.0, 3.0), st.integers(1, 10**6), st.integers(2, 256))
def test_more_cores_are_never_more_than_as_many_times_as_fast(
    once: float, each_alone: float, each: float, factor: float, n: int, cores: int
):
    expects = model(once, each_alone, each, factor)
    assert 0 < expects.share(n, cores) <= 1.0
    assert expects.batch(n, cores) > expects.alone(n)


def test_the_batch_that_cores_need_follows_from_what_is_done_once_and_for_each():
    expects = model(100e-6, 0.0, 1e-6)
    needed = int(expects.envs_for(32).replace(",", ""))
    assert expects.share(needed, 32) >= scaling.WANTED > expects.share(needed // 2, 32)
    assert model(0.0, 0.1e-6, 1e-6).envs_for(32) == "none"  # a tenth of each is serial: never 0.7 of 32
    assert model(0.0, 0.1e-6, 1e-6).saturates(65_536) == "32"  # 64 are 1.13 times as fast


def test_what_the_calling_thread_does_alone_is_told_from_what_threads_share():
    clock = scaling.Clock()
    with scaling.stepped("CartPole-v1", 4096, clock) as (step, size):
        step()
        clock.seconds, begin = 0.0, time.thread_time()
        for _ in range(20):
            step()
        assert 0 < clock.seconds < time.thread_time() - begin
        assert size == 4 * 4 + 4 + 2 + 4 + 4  # observation, reward, ends, environment, step


def test_units_are_those_of_which_a_share_is_a_multiple():
    from headrace.pool.executors.kernels.helper_threads import PARTS, TOGETHER

    for n, threads in ((100, 2), (65_536, 32), (1_000_000, 64)):
        assert scaling.rows(n, threads) == min(TOGETHER, max(1, n // (PARTS * threads)))


@pytest.mark.nightly
def test_a_row_is_written_for_each_case(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    arguments = ["scaling.py", "--seconds", "0.05", "--cases", "kernels", "--out", str(tmp_path)]
    monkeypatch.setattr("sys.argv", arguments)
    scaling.main()
    record = json.loads((tmp_path / "scaling.json").read_text())
    assert len(record["rows"]) == 2
    assert {one["threads"] for one in record["measured"]} >= {1}
