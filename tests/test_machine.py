"""The cores that this process may use: the least of its affinity, its container's quota, and what the user says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.errors import OptionError
from headrace.machine import MOST_CORES, cores, usable_cores
from hosts import act_as, real_group

TWO = pytest.mark.skipif(
    not hasattr(os, "sched_getaffinity") or len(os.sched_getaffinity(0)) < 2, reason="a quota of 1 needs 2 cores"
)
LIMITED = """
import json
import headrace
from headrace.machine import cores
with headrace.make("CartPole-v1", num_envs=8) as pool:
    print(json.dumps([*cores()]), pool.config["num_threads"])
"""
TRAINED = """
import headrace.train
import torch
from headrace.train.collect.policies import make_policies
before = torch.get_num_threads()
make_policies(headrace.train.make_config("CartPole-v1", num_envs=2048), None, torch.device("cpu"))
print(before, torch.get_num_threads())
"""


def within(quota: float, program: str) -> str:
    """What a program prints in a container with a quota."""
    environment = {name: value for name, value in os.environ.items() if name not in (MOST_CORES, "OMP_NUM_THREADS")}
    with real_group(quota) as words:
        command = [*words, sys.executable, "-c", program]
        return subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True).stdout


@TWO
def test_a_pool_in_a_real_group_has_as_many_threads_as_its_quota() -> None:
    told, threads = within(1, LIMITED).strip().rsplit(" ", 1)
    assert json.loads(told) == [1, os.cpu_count(), "the container's quota of 1"]
    assert threads == "1"


@TWO
@pytest.mark.nightly
def test_torch_in_a_real_group_has_as_many_threads_as_its_quota() -> None:
    pytest.importorskip("torch")
    assert within(1, TRAINED).split() == ["1", "1"]


@pytest.mark.parametrize(
    ("quota", "usable", "limit"),
    [
        (None, 64, ""),
        (2, 2, "the container's quota of 2"),
        (1.5, 2, "the container's quota of 1.5"),
        (0.2, 1, "the container's quota of 0.2"),
        (64, 64, ""),
        (100, 64, ""),
    ],
)
def test_a_quota_is_rounded_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quota: float | None, usable: int, limit: str
) -> None:
    act_as(monkeypatch, tmp_path, 64, quota)
    assert (*cores(),) == (usable, 64, limit) and usable_cores() == usable


def test_what_limits_most_is_named_and_the_affinity_may_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    act_as(monkeypatch, tmp_path, 64, 8)
    assert str(cores()) == "8 of 64 cores: the container's quota of 8"
    os.sched_setaffinity(0, range(4))
    assert str(cores()) == "4 of 64 cores: the affinity of this process"
    monkeypatch.setenv(MOST_CORES, "3")
    assert str(cores()) == "3 of 64 cores: HEADRACE_CORES=3"
    monkeypatch.setenv(MOST_CORES, "128")
    assert usable_cores() == 4


@pytest.mark.parametrize("told", ["0", "-2", "two", "1.5"])
def test_a_number_of_cores_that_is_none_is_an_error(monkeypatch: pytest.MonkeyPatch, told: str) -> None:
    monkeypatch.setenv(MOST_CORES, told)
    with pytest.raises(OptionError, match=f"HEADRACE_CORES='{told}' must be a whole number"):
        usable_cores()


@pytest.mark.parametrize(
    ("quota", "size", "each", "bound"), [(None, 4, 16, 16), (8, 4, 2, 16), (2, 4, 1, 16), (None, 100, 1, 64)]
)
def test_processes_that_share_a_container_have_a_share_of_its_quota(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quota: float | None, size: int, each: int, bound: int
) -> None:
    from headrace.train.processes.start import take_cores

    there = act_as(monkeypatch, tmp_path, 64, quota)
    take_cores(1, size)
    assert (usable_cores(), len(there)) == (each, bound)
    assert min(there) == (16 if bound == 16 else 0)
