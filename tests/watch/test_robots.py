"""A run's robot in 3D: served to this machine alone, with the newest weights."""

from __future__ import annotations

import asyncio
import importlib.util
import threading
import urllib.request
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import headrace
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


def test_who_watches_a_walker_commands_and_pushes_it_by_sliders_and_keys():
    viser = pytest.importorskip("viser")
    pytest.importorskip("mjviser")
    pytest.importorskip("mujoco")
    from headrace.watch.robots import HOST, KEYS_IN_3D, _free_port, _model_of, _Screen, _silence
    from headrace.watch.steering import PUSH

    with headrace.make("Go1Flat-v0", num_envs=1, noise=0.0, push=0.0) as pool:
        pool.reset()
        with _silence():
            server = viser.ViserServer(host=HOST, port=_free_port())
        try:
            added: dict[str, Any] = {}
            add = server.gui.add_command

            def noted(label: str, *, hotkey: Any) -> Any:
                added[hotkey] = add(label, hotkey=hotkey)  # which refuses a name that browsers do not have
                return added[hotkey]

            server.gui.add_command = noted
            screen = _Screen(server, _model_of(pool), pool)
            own = pool.state_arrays(["command"])["command"][0]
            screen.steering.apply()
            assert (pool.state_arrays(["command"])["command"][0] == own).all()  # it walks by the task's commands

            def moved(slider: Any, value: float) -> None:  # as the browser of a person does
                slider._impl.value = value
                asyncio.run(screen._hand_over(SimpleNamespace(client=object(), target=slider)))

            for slider, wanted in zip(screen._sliders, (0.4, -0.2, 0.8), strict=True):
                assert slider.min < wanted < slider.max
                moved(slider, wanted)
            screen.steering.apply()
            assert screen._steered.value
            assert pool.state_arrays(["command"])["command"][0] == pytest.approx((0.4, -0.2, 0.8))
            before = pool.state_arrays(["qvel"])["qvel"][0].copy()
            assert len(added) == len(KEYS_IN_3D) and not {*"WASDQE", "arrowup"} & added.keys()  # those move the camera

            def press(hotkey: str) -> None:
                for act in added[hotkey]._impl.trigger_cb:
                    asyncio.run(act(None))

            press("P")
            screen.steering.apply()
            pushed = pool.state_arrays(["qvel"])["qvel"][0] - before
            assert (pushed[:2] ** 2).sum() ** 0.5 == pytest.approx(PUSH) and not pushed[2:].any()
            *_, info = pool.step(np.zeros((1, 12)))
            assert info["command"][0] == pytest.approx((0.4, -0.2, 0.8))
            press("space")
            for hotkey in ("I", "I", "L", "U"):
                press(hotkey)
            screen.steering.apply()
            assert pool.state_arrays(["command"])["command"][0] == pytest.approx((0.75, -0.2, 0.3))
            assert [slider.value for slider in screen._sliders] == pytest.approx([0.75, -0.2, 0.3])
            screen.draw("", at_once=True)
            heads, rods = screen._over[1.0], screen._over[0.0]
            assert len(heads.points) >= 2 and len(rods.points) >= 8
            wanted = pool._executor.arrows(np.array([0]))[0]  # pyright: ignore[reportAttributeAccessIssue]
            assert heads.points[0] == pytest.approx(wanted[wanted[:, 7] == 1][0, :6].reshape(2, 3))
            pool._executor.state_arrays()["qpos"][0, :7] = (2, 1, 0.3, 0.8**0.5, 0, 0, 0.2**0.5)
            screen._chase.value = True
            screen.draw("", at_once=True)
            frame, data = screen._scene.fixed_bodies_frame, screen._data
            assert data.xmat[1].reshape(3, 3)[:, 0] == pytest.approx((1, 0, 0), abs=1e-9)  # it faces ahead
            places = np.array(((2, 1, 0.3), (2.6, 1.8, 0.3)))  # the robot's, and a metre ahead of it
            ground = viser.transforms.SO3(frame.wxyz).apply(places) + frame.position
            assert ground[1] - ground[0] == pytest.approx((1, 0, 0), abs=1e-6)  # and so does what is ahead of it
            assert ground[0] == pytest.approx(data.xpos[1] + screen._scene._scene_offset, abs=1e-6)
            screen._chase.value = False
            screen.draw("", at_once=True)
            assert frame.wxyz == pytest.approx((1, 0, 0, 0))
            moved(screen._steered, False)
            press("space")
            rows = pool._executor.state_arrays()
            screen.steering.apply()
            rows["qvel"][:] = 0
            screen.draw("", at_once=True)
            assert not screen._over
        finally:
            with _silence():
                server.stop()
