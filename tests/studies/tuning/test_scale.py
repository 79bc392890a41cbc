"""The scaler picks among what it measured, keeps to the memory it may use, and remembers."""

from __future__ import annotations

import dataclasses
import json
import multiprocessing
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from headrace.cli.main import main
from headrace.errors import OptionError, UnknownTaskError
from headrace.studies.tuning.measure import Probe, Size, measure
from headrace.studies.tuning.scale import CACHE, Scale, _key, cache_file, forget, scale
from headrace.studies.tuning.size_search import GAIN
from headrace.train.config.settings import Config, make_config
from headrace.train.logging import memory_use

CPU = torch.device("cpu")
QUICK: dict[str, Any] = {"seconds": 0.05, "most_envs": 32}


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def config(**changes: Any) -> Config:
    settings: dict[str, Any] = {"num_steps": 16, "minibatch_size": 64, "epochs": 1} | changes
    return make_config("CartPole-v1", **settings)


def probe_of(config: Config, memory_share: float = 0.9) -> Probe:
    return measure(config, Size.of(config), 0.05, memory_share)


def test_it_picks_the_last_size_that_paid_and_remembers_it() -> None:
    shown: list[Probe] = []
    found = scale(config(), show=shown.append, **QUICK)
    assert tuple(shown) == found.probes and not found.remembered
    rates: dict[tuple[int, int], list[float]] = {}
    for probe in found.probes:
        assert probe.sampling > 0 and 0 < probe.memory <= probe.limit
        assert probe.size.num_envs in (16, 32)
        rates.setdefault((probe.size.num_envs, probe.size.minibatch_size), []).append(probe.sampling)
    middle = {size: statistics.median(measured) for size, measured in rates.items()}
    best = (found.best.size.num_envs, found.best.size.minibatch_size)
    assert found.best.sampling == middle[best]
    # whatever larger size was tried from there did not pay
    for larger in ((2 * best[0], best[1]), (best[0], 2 * best[1])):
        assert middle.get(larger, 0) < GAIN * middle[best]
    assert found.settings(config()) == {"num_envs": best[0], "minibatch_size": best[1]}

    again = scale(config(), show=shown.append, **QUICK)
    assert again.remembered and again.best == found.best and again.probes == found.probes == tuple(shown)
    assert str(cache_file()) and '"CartPole-v1"' in cache_file().read_text()
    assert forget("Pendulum-v1") == 0 and forget("CartPole-v1") == 1 and forget() == 0


def test_memory_stops_it_before_the_device_does() -> None:
    one = probe_of(config(num_envs=16))
    share = one.memory / memory_use.free(CPU)  # beside what a process has from its beginning; twice as much is expected
    found = scale(config(), memory_share=share, **QUICK)
    assert [probe.size.num_envs for probe in found.probes] == [16] and "would need about" in found.ended[0]
    with pytest.raises(OptionError, match="do not fit"):
        scale(config(), memory_share=0.25 * share, again=True, **QUICK)


def test_a_probe_that_needs_more_than_it_may_is_stopped_and_says_so() -> None:
    probe = probe_of(config(num_envs=1 << 22, num_steps=64), 256 * 2**20 / memory_use.free(CPU))
    assert probe.note == "out of memory" and probe.sampling == 0
    assert probe.memory < 2**30, "all of it would be many times as much"


DAMAGED = ['{"task": 1}', "null", "[1]", '[{"key": {}}]', '[{"key": 1, "best": {}, "probes": [], "ended": ""}]', "\xff"]


@pytest.mark.parametrize("text", DAMAGED)
def test_a_damaged_memory_is_none(text: str) -> None:
    cache_file().parent.mkdir(parents=True)
    cache_file().write_text(text, encoding="latin1")
    assert CACHE.recall(_key(config())) is None and forget() == 0
    found = Scale(Probe(Size(0, 16, 0, 0, 64), 1.0), (), ("enough", "more than enough"))
    CACHE.remember(_key(config()), found)
    assert CACHE.recall(_key(config())) == dataclasses.replace(found, remembered=True) and forget() == 1


def test_what_was_found_holds_for_what_it_was_found_for() -> None:
    found = Scale(Probe(Size(0, 64, 0, 0, 256), 1.0, memory=1 << 50), (), ("enough",))
    two, three = (config(num_envs=32 * groups, batch_size=32) for groups in (2, 3))
    CACHE.remember(_key(two), found)
    assert found.settings(two) == {"num_envs": 64, "minibatch_size": 256, "batch_size": 32}
    assert CACHE.recall(_key(config(num_envs=128, batch_size=64))) is not None, "two groups as well"
    assert CACHE.recall(_key(three)) is None
    assert CACHE.recall(_key(config(num_envs=64, batch_size=32, target_kl=0.1))) is None
    # nor where it would go beyond the limits of today: then it is measured again
    CACHE.remember(_key(config()), found)
    narrow: dict[str, Any] = QUICK | {"most_envs": 16}
    again = scale(config(), **narrow)
    assert not again.remembered and again.best.size.num_envs == 16
    assert scale(config(), **narrow).remembered


def test_nothing_is_left_of_a_probe_that_ctrl_c_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    ended = threading.Event()

    def press() -> None:
        while not ended.is_set() and not list((tmp_path / "temporary").glob("*/run/config.json")):
            time.sleep(0.01)
        if not ended.is_set():
            os.kill(os.getpid(), signal.SIGINT)

    presser = threading.Thread(target=press)
    presser.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            measure(config(), Size.of(config()), 100.0)
    finally:
        ended.set()
        presser.join()
    assert not multiprocessing.active_children()
    assert not list((tmp_path / "temporary").iterdir())


def test_a_limit_that_the_system_sets_stays() -> None:
    code = """
import resource, torch
from headrace.train.logging import memory_use
resource.setrlimit(resource.RLIMIT_DATA, (1 << 40, 1 << 40))
memory_use.limit(torch.device("cpu"), 1 << 50)
assert resource.getrlimit(resource.RLIMIT_DATA) == (1 << 40, 1 << 40)
memory_use.limit(torch.device("cpu"), 1 << 30)
assert 1 << 30 < resource.getrlimit(resource.RLIMIT_DATA)[0] < 1 << 40
"""
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_mistakes_are_named() -> None:
    with pytest.raises(UnknownTaskError):
        scale(make_config("CartPoke-v1"), **QUICK)
    with pytest.raises(OptionError, match="memory_share"):
        scale(config(), memory_share=1.5)
    with pytest.raises(OptionError, match="cnn"):
        scale(config(network="cnn"), **QUICK)


def test_the_commands(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """`headrace scale` shows its probes; `headrace train --scale` uses what it found."""
    words = ["FrozenLake-v1", "--num-steps", "8"]
    share = probe_of(make_config("FrozenLake-v1", num_envs=16)).memory / memory_use.free(CPU)
    assert main(["scale", *words, "--seconds", "0.05", "--memory-share", str(share)]) == 0
    said = capfd.readouterr().out
    assert "steps/s" in said and "best: " in said
    (found,) = json.loads(cache_file().read_text())
    run = [
        "train",
        *words,
        "--scale",
        "--run-dir",
        str(tmp_path / "run"),
        "--total-steps",
        "10",
        "--no-video",
        "--quiet",
    ]
    assert main(run) == 0
    assert "measured earlier" in capfd.readouterr().out
    trained = Config.from_json((tmp_path / "run" / "config.json").read_text())
    best = found["best"]
    assert (trained.num_envs, trained.minibatch_size) == (best["num_envs"], best["minibatch_size"])
    assert main([*run, "--num-envs", "4"]) == 2
    assert main(["scale", "--forget"]) == 0 and "1 finding forgotten" in capfd.readouterr().out
