"""The tuner finds the best of the sizes that it may try, shows and remembers them, and leaves nothing behind."""

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
import torch
from hypothesis import given
from hypothesis import settings as conditions
from hypothesis import strategies as st

from headrace.cli.main import main
from headrace.errors import OptionError, UnknownTaskError, WorkerError
from headrace.pool import shared
from headrace.studies.tuning import search
from headrace.studies.tuning import tune as tuner
from headrace.studies.tuning.measure import Probe, Size, measure
from headrace.studies.tuning.search import GAIN, Search, best_of, usable
from headrace.studies.tuning.tune import CACHE, Tuning, forget, tune
from headrace.train.recipes.make import make_config
from headrace.train.runs.cache import machine
from headrace.train.settings.config import Config
from hosts import act_as

CROWDED = Path(__file__).parent / "crowded_env.py"
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
    values: dict[str, Any] = {"algo": "ddpg", "hidden": (16,), "num_envs": 8, "total_steps": 16_000}
    values |= {"learning_starts": 1000, "minibatch_size": 32} | changes
    return make_config(task, **values)


def free(**changes: Any) -> Config:
    """Settings that leave much to find."""
    return config(**({"replay_ratio": None, "total_steps": 10**6, "num_envs": 48} | changes))


class Machine:
    """A machine of which everything is known: rates rise with each number and fall again, or stay.

    Args:
        threads, samplers: where growth ends.
        shared: samplers beyond so many take updates away.
        pools: exponent of the growth with the threads of pools.
    """

    def __init__(self, threads: int, samplers: int, shared: int, pools: float = 0.05):
        self.threads, self.samplers, self.shared, self.pools = threads, samplers, shared, pools
        self.asked: list[Size] = []

    def __call__(self, size: Size) -> Probe:
        self.asked.append(size)
        updates = 100.0 * min(size.torch_threads, self.threads) * min(1.0, self.shared / size.samplers)
        sampling = 1000.0 * min(size.samplers, self.samplers) * max(1, size.num_threads) ** self.pools
        return Probe(size, sampling, updates)


powers = st.integers(0, 4).map(lambda power: 1 << power)


@conditions(deadline=None)
@given(powers, powers, powers)
def test_the_search_finds_the_best_size_for_a_known_machine(threads: int, samplers: int, shared: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(search, "usable_cores", lambda: 16)
        machine = Machine(threads, samplers, shared)
        settings = free()
        how = Search(settings, machine)
        found = how.run()
    assert [probe.size for probe in how.probes] == machine.asked, "every measurement is a probe, in its order"
    assert not how.over and found in how.probes and len(how.probes) < 40
    grid = [machine(Size(s, 48 // s, 1, t)) for s in (1, 2, 3, 4, 6, 8, 12, 16) for t in (1, 2, 4, 8, 16)]
    best = best_of(settings, grid)
    assert found.updates >= best.updates / GAIN and found.sampling >= best.sampling / GAIN
    assert 1 <= len(how.reasons()) <= 3 and all(how.reasons())
    # what is learnt stays as it is
    assert {size.samplers * size.num_envs for size in machine.asked} == {48}


def test_a_container_on_a_larger_machine_gets_what_fits_its_quota(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    act_as(monkeypatch, tmp_path, 16, quota=2)
    generous = Machine(threads=16, samplers=16, shared=16, pools=1.0)  # as it seems for a moment after a pause
    how = Search(free(), generous)
    found = how.run()
    assert all(size.torch_threads <= 2 and size.samplers * size.num_threads <= 2 for size in generous.asked)
    assert found.size == Size(samplers=2, num_envs=24, num_threads=1, torch_threads=2)
    tried = ("4 threads of the learner", "4 samplers", "2 threads of each pool")
    assert how.reasons() == tuple(f"{more}: there are 2 cores" for more in tried)
    assert machine(torch.device("cpu"))["cores"] == 2, "it is remembered for so many"


@conditions(deadline=None)
@given(st.randoms(use_true_random=False))
def test_the_search_takes_a_measured_size_at_any_rates(chance: Any) -> None:
    def measured(size: Size) -> Probe:
        if chance.random() < 0.2 and probes:
            return Probe(size, note="no luck")
        probes.append(size)
        return Probe(
            size, chance.choice((0.0, 1.0)) * chance.random(), chance.choice((0.0, 1.0, 1.0)) * chance.random()
        )

    probes: list[Size] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(search, "usable_cores", lambda: 8)
        how = Search(free(), measured)
        found = how.run()
    assert found.size in probes and not found.note
    assert all(probe.size.samplers <= 8 and probe.size.samplers * probe.size.num_envs == 48 for probe in how.probes)


def test_samplers_share_the_environments_evenly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "usable_cores", lambda: 8)
    fast = Machine(threads=4, samplers=8, shared=8)
    assert Search(free(num_envs=12), fast).run().size.samplers == 6, "8 could not share them evenly"
    assert len({size.torch_threads for size in fast.asked}) > 1


def test_sampling_faster_than_updates_can_use_counts_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "usable_cores", lambda: 8)
    settings = config(replay_ratio=0.05, num_envs=16)
    slow = Machine(threads=1, samplers=8, shared=8)  # 100 updates/s, 1000 steps/s of a sampler
    how = Search(settings, slow)
    found = how.run()
    assert found.size.samplers == 2 and found.sampling >= usable(settings, found) == 2000
    assert any("faster than the replay ratio can use" in words for words in how.reasons())


def test_measurements_on_a_busy_machine_are_not_kept(
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


def test_settings_chosen_by_the_user_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "usable_cores", lambda: 8)
    fast = Machine(threads=4, samplers=4, shared=4)
    Search(free(), fast, keep={"learning_rate", "num_threads", "torch_threads"}).run()
    assert {(size.num_threads, size.torch_threads) for size in fast.asked} == {(0, 0)}
    assert len({size.samplers for size in fast.asked}) > 2


def test_a_near_miss_is_measured_again_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    def measured(size: Size) -> Probe:
        seen.append(size)
        return Probe(size, 1000.0, {1: 100.0, 2: 104.0 if seen.count(size) == 1 else 110.0}[size.torch_threads])

    monkeypatch.setattr(search, "usable_cores", lambda: 2)
    seen: list[Size] = []
    how = Search(config(), measured, keep={"samplers", "num_threads"})
    found = how.run()
    assert seen[:4] == [seen[0], seen[1]] * 2 and len(how.probes) == len(seen)
    assert found.size.torch_threads == 2 and found.updates == pytest.approx(107)


@pytest.mark.parametrize(("luck", "turns"), [(107.0, 2), (115.0, 3)])
def test_one_lucky_measurement_does_not_end_the_search(
    monkeypatch: pytest.MonkeyPatch, luck: float, turns: int
) -> None:
    def measured(size: Size) -> Probe:
        seen.append(size)
        lucky = size.samplers == 1 and seen.count(size) == 1
        return Probe(size, 100.0 * size.samplers, luck if lucky else 100.0)

    monkeypatch.setattr(search, "usable_cores", lambda: 4)
    seen: list[Size] = []
    found = Search(free(), measured, keep={"torch_threads", "num_threads"}).run()
    assert found.size.samplers == 4
    assert [size.samplers for size in seen] == [1, 2] * turns + [4]


def test_the_search_keeps_to_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(search.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(search, "usable_cores", lambda: 16)
    fast = Machine(threads=16, samplers=16, shared=16)

    def measured(size: Size) -> Probe:
        now[0] += 2.0
        return fast(size)

    how = Search(free(), measured, limit=9.0)
    how.run()
    assert now[0] == 8.0 and how.reasons() == ("the 9 s for the search are over",)
    # a tenth of the run, as it would be without a search: 1000 steps/s, for a million steps
    how = Search(free(), fast, briefly=True, limit=1000)
    how.run()
    assert not how.over
    how = Search(free(total_steps=50_000), fast, briefly=True)
    how.run()
    assert len(how.probes) == 1 and "about 50 s: too short" in how.over


def test_the_tuner_measures_real_runs_and_remembers_the_best() -> None:
    shown: list[Probe] = []
    found = tune(config(), show=shown.append, **QUICK)
    assert tuple(shown) == found.probes and found.complete and found.kept and not found.remembered
    for probe in found.probes:
        assert probe.sampling > 0 and probe.updates > 0 and not probe.note
        assert probe.cores is None or 0 < probe.cores < 64
        assert probe.staleness is not None and probe.staleness >= 0
        assert probe.size.samplers * probe.size.num_envs == 8
    assert found.best.size in [probe.size for probe in found.probes]
    assert not multiprocessing.active_children()

    again = tune(config(), show=shown.append, **QUICK)
    assert again == dataclasses.replace(found, remembered=True) and len(shown) == len(found.probes)
    assert tune(config("Pendulum-v0"), **QUICK).remembered, "it is of the same family"
    (entry,) = json.loads(CACHE.file.read_text())
    assert entry["key"]["algo"] == "ddpg"
    assert forget("CartPole-v1") == 0 and forget("Pendulum-v0") == 1 and forget() == 0


DAMAGED = ['{"task": 1}', "null", '[{"key": {}}]', '[{"key": {}, "best": {}, "probes": [], "ended": 1}]', "\xff"]


@pytest.mark.parametrize("text", DAMAGED)
def test_a_damaged_cache_counts_as_empty(text: str) -> None:
    CACHE.file.parent.mkdir(parents=True, exist_ok=True)
    CACHE.file.write_text(text, encoding="latin1")
    assert CACHE.recall({"a": (1, 2)}) is None and forget() == 0
    found = Tuning(Probe(Size(1, 8, 1, 1), 1.0, 2.0), (), ("enough",))
    CACHE.remember({"a": (1, 2)}, found)
    assert CACHE.recall({"a": [1, 2]}) == dataclasses.replace(found, remembered=True) and forget() == 1


def test_a_size_that_cannot_run_is_a_row_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "usable_cores", lambda: 2)
    crowded = config(f"{CROWDED}:Crowded-v0", replay_ratio=None)
    found = tune(crowded, keep={"torch_threads", "num_threads"}, **QUICK)
    first, second = found.probes
    assert not first.note and first.sampling > 0
    assert second.size.num_envs == 4 and "ValueError: 4 are too few" in second.note and second.sampling == 0
    assert found.best == first and "4 are too few" in found.ended[0]
    size = first.size
    with monkeypatch.context() as patch:
        patch.setattr(shared, "free_memory", lambda: 1000)
        assert "of shared memory were wanted, but 1000 B are free" in measure(config(), size, 0.05).note
    assert measure(config(minibatch_size=1 << 32), size, 0.05).note == "out of memory"
    assert not multiprocessing.active_children()


def test_a_run_that_cannot_be_tuned_is_refused() -> None:
    with pytest.raises(WorkerError, match="7 are too few"):
        tune(config(f"{CROWDED}:Crowded-v0", num_envs=7), **QUICK)
    with pytest.raises(UnknownTaskError):
        tune(config("Pendulun-v1"), **QUICK)
    with pytest.raises(OptionError, match="ppo"):
        tune(make_config("CartPole-v1"), **QUICK)
    with pytest.raises(OptionError, match="normalise_observations"):
        tune(config(normalise_observations=True), **QUICK)
    with pytest.raises(OptionError, match="above 0"):
        tune(config(), seconds=0)


def test_ctrl_c_ends_the_tuner_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_the_command_train_uses_the_sizes_found_by_tune(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """`headrace tune` shows its probes; `headrace train` uses what it found."""
    words = ["Pendulum-v1", "--algo", "ddpg", "--hidden", "16", "--total-steps", "3000"]
    for _ in range(2):  # who asks for it sees it again
        assert main(["tune", *words, "--seconds", "0.05"]) == 0
        said = capfd.readouterr().out
        assert said.count("updates/s  cores") == 1 and "tuned: " in said and str(CACHE.file) in said
    (found,) = json.loads(CACHE.file.read_text())

    brief = ["--learning-starts", "2900", "--evaluate-episodes", "0", "--no-video", "--stop-at-return", "None"]
    run = ["train", *words, *brief]
    alike = make_config("Pendulum-v1", algo="ddpg", hidden=(16,), total_steps=3000, learning_starts=2900)
    assert main([*run, "--run-dir", str(tmp_path / "tuned")]) == 0
    said = capfd.readouterr().out
    assert "measured earlier" in said and "updates/s  cores" not in said, "the table was shown then"
    trained = Config.from_json((tmp_path / "tuned" / "config.json").read_text())
    size = found["best"]["size"]
    assert {name: getattr(trained, name) for name in size} == size
    assert trained.samplers * trained.num_envs == alike.num_envs, "a command learns what Python does"

    for more in (["--tune", "none"], ["--num-envs=8"]):
        assert main([*run, "--run-dir", str(tmp_path / more[0]), *more]) == 0
        assert "tuned" not in capfd.readouterr().out
    assert main(["tune", "--forget"]) == 0 and "1 measurement removed" in capfd.readouterr().out
    assert main([*run, "--run-dir", str(tmp_path / "short")]) == 0
    said = capfd.readouterr().out
    assert "too short a run to tune for" in said and not CACHE.file.read_text().strip("[] \n")
    assert main(["tune", "CartPole-v1", "--seconds", "0.05", "--limit", "0.1"]) == 0
    assert "headrace train CartPole-v1 --algo dqn" in capfd.readouterr().out  # its recipe, PPO, has no replay
    assert main(["tune"]) == 2 and main(["tune", "Pendulum-v1", "--replay-ratio", "much"]) == 2
