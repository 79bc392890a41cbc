"""The tuner finds the best of what it may try, says what it did, remembers it, and leaves nothing behind."""

from __future__ import annotations

import dataclasses
import json
import multiprocessing
import os
import signal
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as conditions
from hypothesis import strategies as st

from headrace.cli.main import main
from headrace.errors import OptionError, UnknownTaskError, WorkerError
from headrace.pool.executors.processes import shared
from headrace.studies.tuning import size_search
from headrace.studies.tuning import tune as tuner
from headrace.studies.tuning.measure import Probe, Size, measure
from headrace.studies.tuning.size_search import GAIN
from headrace.studies.tuning.tune import CACHE, Tuning, WorkersSearch, best_of, forget, holds, limits, tune, usable
from headrace.train.config.batch_rule import TIMES, follow_batch, largest_batch
from headrace.train.config.settings import Config, make_config

CROWDED = f"{Path(__file__).parent / 'crowded_env.py'}:Crowded-v0"
QUICK: dict[str, Any] = {"seconds": 0.05}


@pytest.fixture(autouse=True, scope="module")
def _cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(autouse=True)
def _nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    CACHE.file.unlink(missing_ok=True)
    monkeypatch.setattr(tuner, "BUSY", float("inf"))  # whatever else this machine does


def config(task: str = "Pendulum-v1", **changes: Any) -> Config:
    """Settings under which no more than 16 environments are tried, and no larger minibatch."""
    values: dict[str, Any] = {"algo": "ddpg", "hidden": (16,), "num_envs": 8, "total_steps": 16_000}
    values |= {"learning_starts": 1000, "minibatch_size": 32} | changes
    return make_config(task, **values)


def free(**changes: Any) -> Config:
    """Settings that leave much to find."""
    return config(**({"replay_ratio": None, "total_steps": 10**6, "minibatch_size": 256} | changes))


class Machine:
    """A machine of which everything is known: rates rise with each number and fall again, or stay.

    Args:
        batch, threads, envs, samplers: where growth ends.
        shared: samplers beyond so many take updates away.
    """

    def __init__(self, batch: int, threads: int, envs: int, samplers: int, shared: int):
        self.batch, self.threads, self.envs, self.samplers, self.shared = batch, threads, envs, samplers, shared
        self.asked: list[Size] = []

    def __call__(self, size: Size) -> Probe:
        self.asked.append(size)
        frames = 1000.0 * min(size.minibatch_size, self.batch) * min(size.torch_threads, self.threads)
        frames *= min(1.0, self.shared / size.samplers)
        sampling = (
            100.0 * min(size.num_envs, self.envs) * min(size.samplers, self.samplers) * max(1, size.num_threads) ** 0.05
        )
        return Probe(size, sampling, frames / size.minibatch_size)


powers = st.integers(0, 6).map(lambda power: 1 << power)


@conditions(deadline=None)
@given(powers, powers, powers, powers, powers)
def test_it_finds_the_best_point_of_a_known_machine(
    batch: int, threads: int, envs: int, samplers: int, shared: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tuner, "usable_cores", lambda: 16)
        machine = Machine(256 * batch, threads, 8 * envs, samplers, shared)
        settings = free(total_steps=10**8)
        found = WorkersSearch(settings, machine).run()
    assert [probe.size for probe in found.probes] == machine.asked, "every measurement is a probe, in its order"
    assert found.complete and found.best in found.probes and len(found.probes) < 60
    grid = [
        machine(Size(s, n, 1, t, b))
        for s in (1, 2, 3, 4, 6, 8, 12, 16)
        for n in (8 << power for power in range(8))
        for t in (1, 2, 4, 8, 16)
        for b in (256 << power for power in range(8))
        if s * n <= limits(settings)[1] and b <= limits(settings)[0]
    ]
    best = best_of(settings, grid)
    assert found.best.update_frames >= best.update_frames / GAIN
    assert found.best.sampling >= best.sampling / GAIN
    names = {"num_envs", "samplers", "num_threads", "torch_threads", "minibatch_size"}
    assert 1 <= len(found.ended) <= len(names) and all(found.ended)


@conditions(deadline=None)
@given(st.randoms(use_true_random=False))
def test_whatever_the_rates_are_the_best_that_was_measured_is_taken(chance: Any) -> None:
    def measured(size: Size) -> Probe:
        if chance.random() < 0.2 and probes:
            return Probe(size, note="no luck")
        probes.append(size)
        return Probe(
            size, chance.choice((0.0, 1.0)) * chance.random(), chance.choice((0.0, 1.0, 1.0)) * chance.random()
        )

    probes: list[Size] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tuner, "usable_cores", lambda: 8)
        found = WorkersSearch(free(), measured).run()
    assert found.best.size in probes and not found.best.note
    for probe in found.probes:
        samplers, envs = probe.size.samplers, probe.size.num_envs
        assert samplers <= 8 and samplers * envs <= 1000 and probe.size.minibatch_size <= largest_batch(free())


def test_samplers_share_the_environments_that_a_run_may_have(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuner, "usable_cores", lambda: 8)
    wide = Machine(batch=256, threads=1, envs=32, samplers=4, shared=4)
    found = WorkersSearch(free(total_steps=40_000), wide, keep={"num_threads"}).run()
    assert (found.best.size.samplers, found.best.size.num_envs) == (2, 20), "4 of 10 are not faster"
    flat = Machine(batch=256, threads=1, envs=8, samplers=4, shared=4)
    found = WorkersSearch(free(total_steps=20_000), flat, keep={"num_threads"}).run()
    assert (found.best.size.samplers, found.best.size.num_envs) == (4, 5)


def test_sampling_faster_than_updates_can_use_counts_for_nothing() -> None:
    settings = config(total_steps=10**6, replay_ratio=0.5)
    slow = Machine(batch=32, threads=1, envs=64, samplers=1, shared=1)  # 1000 updates/s, 800 steps/s of 8 environments
    found = WorkersSearch(settings, slow).run()
    assert found.best.size.num_envs == 32 and found.best.sampling >= usable(settings, found.best) == 2000
    assert any("faster than the replay ratio can use" in words for words in found.ended)
    assert dataclasses.replace(settings, **found.settings(settings)).num_envs == 32


def test_what_is_learnt_can_be_left_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuner, "usable_cores", lambda: 8)
    settings = free(num_envs=12)
    fast = Machine(batch=1 << 14, threads=4, envs=1, samplers=8, shared=8)
    found = WorkersSearch(settings, fast, scope="speed").run()
    assert {(size.samplers * size.num_envs, size.minibatch_size) for size in fast.asked} == {(12, 256)}
    assert len({size.torch_threads for size in fast.asked}) > 1
    assert found.best.size.samplers == 6, "8 could not share them evenly"
    changed = found.settings(settings)
    assert changed.keys() <= {"samplers", "num_envs", "num_threads", "torch_threads"}
    assert limits(settings, "speed") == (256, 12)


def test_what_was_measured_on_a_busy_machine_is_not_kept(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def disturbed(*how: Any) -> Probe:
        return dataclasses.replace(measure(*how), others=1000.0)

    monkeypatch.setattr(tuner, "BUSY", 0.15)
    monkeypatch.setattr(tuner, "measure", disturbed)
    words = ["Pendulum-v1", "--algo", "ddpg", "--hidden", "16", "--total-steps", "3000"]
    assert main(["tune", *words, "--seconds", "0.05"]) == 0
    assert "not remembered: other programs took 1000.0 cores" in capfd.readouterr().out
    assert not CACHE.file.exists()


def test_what_somebody_chose_stays() -> None:
    fast = Machine(batch=1 << 14, threads=4, envs=1 << 10, samplers=1, shared=1)
    found = WorkersSearch(free(), fast, keep={"learning_rate", "num_threads", "torch_threads"}).run()
    sizes = [probe.size for probe in found.probes]
    assert {size.minibatch_size for size in sizes} == {256}, "the learning rate would have to follow it"
    assert {(size.num_threads, size.torch_threads) for size in sizes} == {(0, 0)}
    assert len({size.num_envs for size in sizes}) > 3
    moved = WorkersSearch(free(), fast, keep={"replay_ratio"}).run().best.size.minibatch_size
    assert moved > 256, "a free replay ratio is followed by nothing"
    assert WorkersSearch(config(), fast, keep={"replay_ratio"}).run().best.size.minibatch_size == 32


def test_a_near_miss_is_measured_again_in_turns() -> None:
    def measured(size: Size) -> Probe:
        seen.append(size)
        frames = {32: 1000.0, 64: 1040.0 if seen.count(size) == 1 else 1100.0}[size.minibatch_size]
        return Probe(size, 1000.0, frames / size.minibatch_size)

    seen: list[Size] = []
    found = WorkersSearch(config(total_steps=300_000), measured, keep={"torch_threads"}).run()
    assert seen[:4] == [seen[0], seen[1]] * 2 and len(found.probes) == len(seen)
    assert found.best.size.minibatch_size == 64 and found.best.update_frames == pytest.approx(1070)


@pytest.mark.parametrize(("luck", "turns"), [(1070.0, 2), (1150.0, 3)])
def test_one_lucky_measurement_does_not_end_the_search(luck: float, turns: int) -> None:
    def measured(size: Size) -> Probe:
        seen.append(size)
        lucky = size.num_envs == 8 and seen.count(size) == 1
        return Probe(size, 100.0 * size.num_envs, (luck if lucky else 1000.0) / 32)

    seen: list[Size] = []
    keep = {"minibatch_size", "torch_threads", "num_threads", "samplers"}
    found = WorkersSearch(free(minibatch_size=32, total_steps=32_000), measured, keep=keep).run()
    assert found.best.size.num_envs == 32
    assert [size.num_envs for size in seen] == [8, 16] * turns + [32]


def test_it_keeps_to_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(size_search.time, "monotonic", lambda: now[0])
    fast = Machine(batch=1 << 14, threads=64, envs=1 << 14, samplers=64, shared=64)

    def measured(size: Size) -> Probe:
        now[0] += 2.0
        return fast(size)

    found = WorkersSearch(free(), measured, limit=9.0).run()
    assert now[0] == 8.0 and not found.complete and found.ended == ("the 9 s for the search are over",)
    # a tenth of the run, as it would be without a search: 800 steps/s, for a million steps
    assert WorkersSearch(free(), fast, briefly=True, limit=1000).run().complete
    short = WorkersSearch(free(total_steps=50_000), fast, briefly=True).run()
    assert len(short.probes) == 1 and "about 62 s: too short" in short.ended[0] and not short.complete


def test_the_rule() -> None:
    own = config(
        learning_rate=1e-3, critic_learning_rate=2e-3, replay_ratio=1.0, target_rate=0.01,
        schedules={"learning_rate": [[0, 1e-3], [100, 1e-4]]},
    )  # fmt: skip
    assert follow_batch(own, 32) == own
    four = follow_batch(own, 128)
    assert (four.learning_rate, four.critic_learning_rate, four.replay_ratio) == (2e-3, 4e-3, 0.25)
    assert four.target_rate == pytest.approx(1 - 0.99**4)
    assert [rate for _, rate in four.schedules["learning_rate"]] == [2e-3, 2e-4]
    assert Config.from_json(four.to_json()) == follow_batch(Config.from_json(own.to_json()), 128)
    many = follow_batch(dataclasses.replace(own, replay_ratio=None), 32 * 64)
    assert many.learning_rate == 1e-3 * TIMES**0.5 and many.replay_ratio is None
    copied = make_config("CartPole-v1", algo="dqn", minibatch_size=32, target_update=100)
    assert [follow_batch(copied, size).target_update for size in (128, 32 * 64)] == [25, 2]
    long = {steps: largest_batch(dataclasses.replace(own, total_steps=steps)) for steps in (100, 201_000, 10**6)}
    assert long == {100: 32, 201_000: 64, 10**6: 32 * TIMES}, "100,000 updates are left"
    assert largest_batch(free()) == 1 << 13, "a tenth of DDPG's 100,000 steps"


def test_it_measures_real_runs_and_remembers() -> None:
    shown: list[Probe] = []
    found = tune(config(), show=shown.append, **QUICK)
    assert tuple(shown) == found.probes and found.complete and found.kept and not found.remembered
    for probe in found.probes:
        assert probe.sampling > 0 and probe.update_frames > 0 and not probe.note
        assert probe.cores is None or 0 < probe.cores < 64
        assert probe.staleness is not None and probe.staleness >= 0
        assert probe.size.num_envs <= 16 and probe.size.minibatch_size == 32
    assert found.best.size in [probe.size for probe in found.probes]
    assert not multiprocessing.active_children()

    again = tune(config(), show=shown.append, **QUICK)
    assert again == dataclasses.replace(found, remembered=True) and len(shown) == len(found.probes)
    assert tune(config("Pendulum-v0"), **QUICK).remembered, "it is of the same family"
    (entry,) = json.loads(CACHE.file.read_text())
    assert entry["key"]["algo"] == "ddpg"
    assert forget("CartPole-v1") == 0 and forget("Pendulum-v0") == 1 and forget() == 0


def test_what_was_found_holds_for_runs_with_such_limits() -> None:
    ours = config(total_steps=250_000)
    assert limits(ours) == (64, 250)
    found = Tuning(Probe(Size(1, 8, 1, 1, 32), 1.0, 1.0), (), (), limits(ours))
    assert holds(ours, found) and not holds(ours, dataclasses.replace(found, limits=(32, 250)))
    assert holds(config(total_steps=10**6), found), "nothing kept it small"
    large = dataclasses.replace(found, best=Probe(Size(2, 8, 1, 1, 64), 1.0, 1.0))
    assert holds(ours, large) and not holds(config(total_steps=20_000), large)
    assert not holds(config(total_steps=10**6), large), "it was kept small"


DAMAGED = ['{"task": 1}', "null", '[{"key": {}}]', '[{"key": {}, "best": {}, "probes": [], "ended": 1}]', "\xff"]


@pytest.mark.parametrize("text", DAMAGED)
def test_a_damaged_memory_is_none(text: str) -> None:
    CACHE.file.parent.mkdir(parents=True, exist_ok=True)
    CACHE.file.write_text(text, encoding="latin1")
    assert CACHE.recall({"a": (1, 2)}) is None and forget() == 0
    found = Tuning(Probe(Size(1, 8, 1, 1, 32), 1.0, 2.0), (), ("enough",), (32, 8))
    CACHE.remember({"a": (1, 2)}, found)
    assert CACHE.recall({"a": [1, 2]}) == dataclasses.replace(found, remembered=True) and forget() == 1


def test_what_cannot_be_done_is_a_row_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    found = tune(
        config(CROWDED, replay_ratio=None), keep={"minibatch_size", "torch_threads", "num_threads", "samplers"}, **QUICK
    )
    first, second = found.probes
    assert not first.note and first.sampling > 0
    assert second.size.num_envs == 16 and "ValueError: 16 are too many" in second.note and second.sampling == 0
    assert found.best == first and "16 are too many" in found.ended[0]
    size = first.size
    with monkeypatch.context() as patch:
        patch.setattr(shared, "free_memory", lambda: 1000)
        assert "of shared memory were wanted, but 1000 B are free" in measure(config(), size, 0.05).note
    batch = measure(config(hidden=(1 << 14,)), dataclasses.replace(size, minibatch_size=1 << 22), 0.05)
    assert batch.note == "out of memory"
    assert not multiprocessing.active_children()


def test_what_cannot_be_done_at_all_is_said() -> None:
    with pytest.raises(WorkerError, match="9 are too many"):
        tune(config(CROWDED, num_envs=9), **QUICK)
    with pytest.raises(UnknownTaskError):
        tune(config("Pendulun-v1"), **QUICK)
    with pytest.raises(OptionError, match="ppo"):
        tune(make_config("CartPole-v1"), **QUICK)
    with pytest.raises(OptionError, match="normalise_observations"):
        tune(config(normalise_observations=True), **QUICK)
    with pytest.raises(OptionError, match="above 0"):
        tune(config(), seconds=0)


def test_nothing_is_left_when_ctrl_c_ends_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    ended = threading.Event()

    def press() -> None:
        while not ended.is_set() and not multiprocessing.active_children():
            time.sleep(0.01)
        time.sleep(0.3)  # processes are started deaf to it
        if not ended.is_set():
            os.kill(os.getpid(), signal.SIGINT)

    presser = threading.Thread(target=press)
    presser.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            tune(config(), seconds=100.0)
    finally:
        ended.set()
        presser.join()
    assert not multiprocessing.active_children()
    assert not list((tmp_path / "temporary").glob("headrace-tune-*")) and not CACHE.file.exists()


def test_the_commands(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """`headrace tune` shows its probes; `headrace train` uses what it found."""
    words = ["Pendulum-v1", "--algo", "ddpg", "--hidden", "16", "--total-steps", "3000"]
    for scope in ("all", "speed"):
        assert main(["tune", *words, "--seconds", "0.05", "--scope", scope]) == 0
        said = capfd.readouterr().out
        assert said.count("samples/s  cores") == 1 and "tuned: " in said and str(CACHE.file) in said
    assert main(["tune", *words]) == 0
    assert "samples/s  cores" in capfd.readouterr().out, "who asks for it sees it again"
    everything, speed = json.loads(CACHE.file.read_text())

    brief = ["--learning-starts", "2900", "--evaluate-episodes", "0", "--no-video", "--stop-at-return", "None"]
    run = ["train", *words, *brief]
    alike = make_config("Pendulum-v1", algo="ddpg", hidden=(16,), total_steps=3000, learning_starts=2900)
    for more, found in (["--tune", "all"], everything), ([], speed):
        folder = tmp_path / f"tuned {len(more)}"
        assert main([*run, *more, "--run-dir", str(folder)]) == 0
        said = capfd.readouterr().out
        assert "measured earlier" in said and "samples/s  cores" not in said, "the table was shown then"
        trained = Config.from_json((folder / "config.json").read_text())
        size = found["best"]["size"]
        assert {name: getattr(trained, name) for name in size} == size
    assert trained.samplers * trained.num_envs == alike.num_envs
    for name in ("minibatch_size", "learning_rate", "critic_learning_rate", "replay_ratio", "target_rate"):
        assert getattr(trained, name) == getattr(alike, name), "a command learns what Python does"

    for more in (["--tune", "none"], ["--num-envs=8"]):
        assert main([*run, "--run-dir", str(tmp_path / more[0]), *more]) == 0
        assert "tuned" not in capfd.readouterr().out
    assert main(["tune", "--forget"]) == 0 and "2 findings forgotten" in capfd.readouterr().out
    assert main([*run, "--run-dir", str(tmp_path / "short")]) == 0
    said = capfd.readouterr().out
    assert "too short a run to tune for" in said and not CACHE.file.read_text().strip("[] \n")
    assert main(["tune"]) == 2 and main(["tune", "Pendulum-v1", "--replay-ratio", "much"]) == 2
