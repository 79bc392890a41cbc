"""Signals that ask for the end: heard once, undone afterwards, and left to a program that handles them itself."""

from __future__ import annotations

import io
import os
import signal
import sys
import time
from contextlib import nullcontext
from typing import Any

import pytest

from headrace.train.processes import interrupt as interrupt_module
from headrace.train.processes.interrupt import ASKING, Interrupt


@pytest.mark.parametrize("each", ASKING)
def test_a_signal_asks_and_a_second_ctrl_c_raises(each: signal.Signals, monkeypatch: pytest.MonkeyPatch, capsys: Any):
    monkeypatch.setattr(interrupt_module, "AGAIN", 0.05)
    usual = signal.default_int_handler if each is signal.SIGINT else signal.SIG_DFL
    before = signal.signal(each, usual)  # another test's library may have left a handler
    try:
        with Interrupt() as interrupt:
            assert not interrupt
            os.kill(os.getpid(), each)
            os.kill(os.getpid(), each)  # as `timeout` does
            assert interrupt
            assert len(capsys.readouterr().err.strip().splitlines()) == 1
            time.sleep(0.06)
            with pytest.raises(KeyboardInterrupt) if each is signal.SIGINT else nullcontext():
                os.kill(os.getpid(), each)
        assert signal.getsignal(each) is usual
    finally:
        signal.signal(each, before)


class InterruptedWrite(io.RawIOBase):
    """A file in whose write Ctrl-C arrives."""

    def writable(self) -> bool:
        return True

    def write(self, text: Any) -> int:
        os.kill(os.getpid(), signal.SIGINT)
        return len(text)


def test_a_signal_is_confirmed_in_the_midst_of_another_print(monkeypatch: pytest.MonkeyPatch, capfd: Any):
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with Interrupt() as interrupt:
            monkeypatch.setattr(sys, "stderr", io.TextIOWrapper(io.BufferedWriter(InterruptedWrite())))
            print("a remark", file=sys.stderr, flush=True)
            assert interrupt and "Ctrl-C again to end at once" in capfd.readouterr().err
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_programs_own_handler_of_sigterm_stays():
    heard: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _: heard.append(number))
    try:
        with Interrupt() as interrupt:
            os.kill(os.getpid(), signal.SIGTERM)
        assert heard == [signal.SIGTERM] and not interrupt
    finally:
        signal.signal(signal.SIGTERM, before)


def test_rays_handler_of_sigterm_is_replaced_during_a_run(monkeypatch: pytest.MonkeyPatch):
    """``ray.init`` installs one that exits, before there could be a checkpoint; it is there again afterwards."""
    worker: Any = pytest.importorskip("ray._private.worker")
    monkeypatch.setattr(worker.ray._private.node.Node, "_init_gcs_client", _no_cluster)  # which would wait
    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        with pytest.raises(ConnectionError):
            worker.init(address="10.0.0.1:6379")
        rays = signal.getsignal(signal.SIGTERM)
        assert callable(rays)
        with Interrupt() as interrupt:
            os.kill(os.getpid(), signal.SIGTERM)
            assert interrupt
        assert signal.getsignal(signal.SIGTERM) is rays
    finally:
        signal.signal(signal.SIGTERM, before)


def _no_cluster(*_: Any) -> None:
    raise ConnectionError
