"""A new user's path, in an empty folder, with the commands that Headrace itself tells.

Train and look on in a browser, see the curve and the agent; change one setting, interrupt, resume with the command that
the page shows; compare both runs, plot, export, and run the file in onnxruntime.
"""

from __future__ import annotations

import shlex
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pages import serving

import headrace
from programs import wait_for

PATIENCE = 300.0  # seconds for a run, on a machine that has other things to do
RETURN, AGENT = "section[aria-label=Return]", "section[aria-label='The agent']"


def command(folder: Path, words: str) -> subprocess.Popen[str]:
    """A ``headrace`` command as a user types it, in a process of its own."""
    line = [sys.executable, "-m", "headrace.cli.main", *shlex.split(words)[1:]]
    pipe = subprocess.PIPE
    return subprocess.Popen(line, cwd=folder, stdout=pipe, stderr=subprocess.STDOUT, text=True)


def done(process: subprocess.Popen[str], status: int = 0) -> str:
    """What a command has printed, once it has ended as it should."""
    said, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == status, said
    return said


def is_drawn(page: Any, place: str) -> bool:
    """Whether a canvas is there, and has anything on it."""
    canvas = page.locator(f"{place} canvas").first
    look = "c => c.getContext('2d').getImageData(0, 0, c.width, c.height).data.some((each) => each !== 0)"
    return canvas.count() > 0 and canvas.is_visible() and canvas.evaluate(look)


@pytest.mark.nightly
def test_a_new_user_trains_watches_plays_and_exports(tmp_path: Path, open_page: Callable[..., Any]) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    first = command(tmp_path, "headrace train CartPole-v1 --total-steps 60000 --run-dir runs/first")
    assert first.stdout is not None
    address = first.stdout.readline()
    assert address.startswith("watch http://127.0.0.1:"), address
    page = open_page(address.split()[1])  # the run's own page, which outlives it as long as somebody looks
    wait_for(lambda: is_drawn(page, RETURN), PATIENCE)
    said = done(first)
    assert "run    runs/first" in said and "curve.png" in said and "episodes/" in said
    page.locator(".chip", has_text="finished").or_(page.locator(".chip", has_text="solved")).wait_for()
    page.get_by_role("tab", name="best, at play").click()
    wait_for(lambda: is_drawn(page, AGENT), PATIENCE)
    assert page.locator(f"{AGENT} .bars b", has_text="%").count() == 2
    page.context.close()

    with serving(cwd=tmp_path) as everything:
        page = open_page(everything)
        page.locator("#list .item", has_text="CartPole ppo seed 1").wait_for()
        words = "headrace train CartPole-v1 --total-steps 1500000 --stop-at-return 100000 --learning-rate 0.01"
        second = command(tmp_path, f"{words} --run-dir runs/second --no-video")
        running = page.locator("#list .item", has_text="running")
        running.wait_for()
        running.click()
        wait_for(lambda: page.locator(".fig", has_text="of 1.5 M").count() == 1, PATIENCE)  # it has learnt something
        second.send_signal(signal.SIGINT)
        assert "headrace train --resume runs/second" in done(second, 130)
        page.locator(".chip", has_text="interrupted").wait_for()
        again = page.locator(".head code").inner_text()
        assert again == "headrace train --resume runs/second"
        resumed = command(tmp_path, again)
        page.locator(".chip", has_text="running").wait_for()
        assert "all steps done" in done(resumed)
        page.locator(".chip", has_text="finished").wait_for()
        page.locator(".head .soft", has_text="resumed once").wait_for()

        page.locator("#clear").click()
        for box in page.locator("#list input").all():
            box.click()
        wait_for(lambda: page.locator(f"{RETURN} .key button").count() == 2)
        page.locator("section[aria-label=Settings] th", has_text="learning_rate").wait_for()

    drawn = done(command(tmp_path, "headrace plot runs --out curves.svg"))
    assert "learning rate 0.01" in drawn and "<svg" in (tmp_path / "curves.svg").read_text()
    done(command(tmp_path, "headrace export runs/second policy.onnx"))
    session = onnxruntime.InferenceSession(tmp_path / "policy.onnx")
    agent = headrace.load(tmp_path / "runs" / "second")
    with headrace.make("CartPole-v1", num_envs=16, seed=3) as pool:
        obs, _ = pool.reset()
        for _ in range(30):
            action, _, _ = session.run(None, {"observation": obs})
            assert np.array_equal(action, agent.act(obs))
            obs, *_ = pool.step(action)
