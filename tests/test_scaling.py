"""The model of scale: what it expects follows from what was measured."""

from __future__ import annotations

import importlib
import json
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
        clock.begin()
        for _ in range(20):
            step()
        alone, shared = clock.read()
        assert alone > 0 and shared > 0
        assert size == 4 * 4 + 4 + 2 + 4 + 4  # observation, reward, ends, environment, step


@pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="the system does not tell a process's time")
def test_the_time_of_worker_processes_is_shared_and_that_of_their_caller_is_alone():
    clock = scaling.Clock()
    with scaling.stepped("gymnasium:CartPole-v1", 64, clock, 2) as (step, _):
        step()
        clock.begin()
        for _ in range(20):
            step()
        alone, shared = clock.read()
    assert len(clock.workers) == 2 and shared > 64 * 20 * 1e-6 and alone > 0


def test_each_worker_that_the_caller_wakes_takes_its_time():
    plain, waking = (
        scaling.Model(KERNELS, Measured(0, 1e-3, 256), Measured(0, 1e-2, 2560), 1.0, each) for each in (0, 5e-6)
    )
    assert waking.batch(2560, 33) - plain.batch(2560, 33) == pytest.approx(32 * 5e-6)
    assert waking.batch(2560, 1) == plain.batch(2560, 1)


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
