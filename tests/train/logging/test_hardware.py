"""The cores and the GPU that a run uses."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest
import torch

import headrace.train
from headrace.train.logging import hardware
from headrace.train.logging.hardware import HardwareUse, family_of, gpu_use, processor_seconds
from headrace.train.runs.metrics import read_metrics

BUSY = "import time\nuntil = time.monotonic() + 30\nwhile time.monotonic() < until: pass"
PARENT = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {BUSY!r}])"
linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")


@linux
def test_cores_of_children_count_but_not_those_of_other_sessions(monkeypatch):
    monkeypatch.setattr(hardware, "LEAST", 0.0)
    own = subprocess.Popen([sys.executable, "-c", PARENT])
    other = subprocess.Popen([sys.executable, "-c", BUSY], start_new_session=True)
    family: list[int] = []
    try:
        until = time.monotonic() + 30
        while len(family := family_of(own.pid)) < 2:
            assert time.monotonic() < until
        assert own.pid in family_of(os.getpid()) and other.pid not in family_of(os.getpid())
        use = HardwareUse(torch.device("cpu"), own.pid)
        assert use.read() == {}  # nothing to compare with
        while not (cores := use.read().get("cores", 0.0)):
            time.sleep(0.5)
            assert time.monotonic() < until
        assert 0.0 < cores <= 1.3
        assert "gpu" not in use.read()
    finally:
        for pid in family[1:]:
            os.kill(pid, 9)
        for process in (own, other):
            process.kill()
            process.wait()
    assert family_of(own.pid) == [own.pid]


def test_hardware_is_measured_seldom():
    use = HardwareUse(torch.device("cpu"))
    assert use.read() == {} == use.read()


def test_an_unknown_use_of_hardware_is_none():
    assert gpu_use(torch.device("cpu")) is None
    assert processor_seconds([2**30]) is None
    assert (processor_seconds([os.getpid()]) or 0.0) > 0.0


def test_a_driver_without_utilisation_is_no_error(monkeypatch):
    class NotSupported(Exception):
        """As NVML's own."""

    def utilization(device: torch.device) -> int:
        raise NotSupported

    monkeypatch.setattr(torch.cuda, "utilization", utilization)
    assert gpu_use(torch.device("cuda", 0)) is None


@linux
def test_lines_of_metrics_hold_their_time_and_the_cores_in_use(tmp_path, monkeypatch):
    monkeypatch.setattr(hardware, "LEAST", 0.0)
    monkeypatch.setattr(hardware, "SHARE", 1.0)
    before = time.time()
    headrace.train.train("CartPole-v1", total_steps=20_000, run_dir=tmp_path, quiet=True, video=False)
    times = [line["time"] for line in read_metrics(tmp_path / "metrics.jsonl")]
    clock = [each["unix"] for each in times]
    assert clock == sorted(clock) and before - 1 <= clock[0] and clock[-1] <= time.time() + 1
    assert any(each.get("cores", 0.0) > 0.0 for each in times)
