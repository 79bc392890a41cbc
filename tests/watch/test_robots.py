"""A run's robot in 3D: served to this machine alone, with the newest weights."""

from __future__ import annotations

import importlib.util
import threading
import urllib.request
from pathlib import Path
from typing import Any

import pytest

import headrace.train
from headrace.cli.main import main
from headrace.errors import OptionError

OPEN = urllib.request.build_opener(urllib.request.ProxyHandler({})).open
QUICK: dict[str, Any] = {"total_steps": 64, "num_envs": 4, "num_steps": 8, "video": False, "tensorboard": False}


def train(path: Path, task: str) -> Path:
    headrace.train.train(task, run_dir=path, quiet=True, viewer=False, **QUICK)
    return path


def test_play_without_mjviser_names_the_extra_to_install(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert main(["play", str(train(tmp_path / "run", "CartPole-v1")), "--3d"]) == 2
    assert "pip install 'headrace[viewer3d]'" in capsys.readouterr().err


def test_a_task_without_mujoco_is_refused(tmp_path):
    pytest.importorskip("mjviser")
    from headrace.watch.robots import show

    with pytest.raises(OptionError, match="CartPole-v1 is no MuJoCo task"):
        show(train(tmp_path / "run", "CartPole-v1"))


def test_a_robot_is_served_until_its_episodes_are_over(tmp_path, capsys):
    pytest.importorskip("mjviser")
    pytest.importorskip("mujoco")
    from headrace.watch.robots import show

    found: list[str] = []
    steps, served = 0, threading.Event()

    def look() -> None:
        with OPEN(found[0], timeout=60) as answer:
            assert answer.status == 200 and b"<html" in answer.read()
        served.set()

    def ready(url: str) -> None:
        found.append(url)
        threading.Thread(target=look).start()

    def stop() -> bool:
        nonlocal steps
        steps += 1
        return steps > 30 and served.is_set()

    show(train(tmp_path / "run", "Hopper-v5"), ready=ready, stop=stop)
    assert found[0].startswith("http://127.0.0.1:") and served.is_set()
    assert "viser" not in capsys.readouterr().out
    with pytest.raises(OSError, match="refused"):
        OPEN(found[0], timeout=5)
