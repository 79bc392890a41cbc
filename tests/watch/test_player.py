"""The process that plays a run's agent for a page: real runs, real pictures over a pipe."""

from __future__ import annotations

import io
import itertools
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import headrace.train
from headrace.train.runs import checkpoint as checkpoints
from headrace.train.runs import lock
from headrace.train.runs.folder import RunFolder
from headrace.train.runs.live import write_live
from hosts import act_as
from programs import Program

QUICK: dict[str, Any] = {"tensorboard": False, "video": False, "stop_at_return": None}
TURNS: dict[str, Any] = {"samplers": 0, "learning_starts": 32, "minibatch_size": 16, "num_envs": 2}
FEW_TAGGERS = {"env_options": {"num_runners": 4, "num_taggers": 2}}


class Shown:
    """What a player writes, as a page reads it."""

    def __init__(self, run: Path, *arguments: str):
        command = [sys.executable, "-m", "headrace.watch.player", str(run), *arguments]
        self.process = Program(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def next(self) -> tuple[dict[str, Any], bytes]:
        return json.loads(self._part()), self._part()

    def until(self, condition, seconds: float = 60.0) -> tuple[dict[str, Any], bytes]:
        end = time.monotonic() + seconds
        while not condition(*(found := self.next())):
            assert time.monotonic() < end, found
        return found

    def _part(self) -> bytes:
        assert self.process.stdout is not None
        size = self.process.stdout.read(4)
        return self.process.stdout.read(int.from_bytes(size, "big"))


@contextmanager
def shown(run: Path, *arguments: str) -> Iterator[Shown]:
    player = Shown(run, *arguments)
    try:
        yield player
        assert player.process.stdin is not None
        player.process.stdin.close()
        assert player.process.wait(10) == 0
    finally:
        player.process.kill()
        player.process.wait()


def train(path: Path, task: str, algo: str = "ppo", **changes: Any) -> Path:
    settings = {"total_steps": 64, "num_envs": 4, **QUICK, **changes}
    headrace.train.train(task, algo, run_dir=path, quiet=True, **settings)
    return path


def decoded(jpeg: bytes) -> np.ndarray:
    return np.asarray(pytest.importorskip("PIL.Image").open(io.BytesIO(jpeg)))


@pytest.fixture(scope="module")
def cartpole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train(tmp_path_factory.mktemp("runs") / "cartpole", "CartPole-v1")


@pytest.fixture
def run(cartpole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(cartpole, tmp_path / "run"))


def test_a_player_shows_pictures_with_the_agents_probabilities_and_value(run):
    with shown(run) as player:
        header, jpeg = player.until(lambda header, jpeg: jpeg)
        assert decoded(jpeg).shape == (400, 600, 3)
        assert sum(header["probabilities"][0]) == pytest.approx(1.0, abs=1e-4)
        assert header["meanings"] == ["←", "→"] and header["actions"][0] in (0.0, 1.0)
        assert isinstance(header["value"], float) and header["error"] is None
        steps = [player.next()[0] for _ in range(20)]
        assert all(a["step"] < b["step"] or a["episode"] < b["episode"] for a, b in itertools.pairwise(steps))
        assert all(each["return"] == each["step"] for each in steps)  # CartPole's reward is 1 a step
        assert os.getpriority(os.PRIO_PROCESS, player.process.pid) == min(19, os.nice(0) + 19)
        header, _ = player.until(lambda header, _: header["episode"] == 2)


def test_live_weights_are_taken_while_a_run_trains_and_checkpoints_afterwards(run):
    folder = RunFolder(run)
    point = checkpoints.load(max(folder.checkpoints.glob("step-*")))
    model = point.model
    with folder.held():
        write_live(folder.live_file, model, 1_000)
        with shown(run) as player:
            player.until(lambda header, _: header["trained_steps"] == 1_000)
            write_live(folder.live_file, model, 2_000)
            player.until(lambda header, _: header["trained_steps"] == 2_000)
            folder.live_file.unlink()
            checkpoints.save(folder.checkpoints, checkpoints.step_name(3_000), point)
            player.until(lambda header, _: header["trained_steps"] == point.counters["step"])
    write_live(folder.live_file, model, 1_000)  # of a run that was killed
    with shown(run) as player:
        assert player.next()[0]["trained_steps"] == point.counters["step"]
        assert lock.holder(folder.lock_file) is None


def test_the_best_checkpoint_is_played_on_request(run):
    folder = RunFolder(run)
    best = checkpoints.load(folder.checkpoints / checkpoints.BEST)
    best.counters["step"] = 77
    checkpoints.save(folder.checkpoints, checkpoints.BEST, best)
    with shown(run, "--source", "best") as player:
        assert player.next()[0]["trained_steps"] == 77


def test_a_player_waits_for_a_first_checkpoint(run):
    folder = RunFolder(run)
    hidden = folder.checkpoints.rename(run / "elsewhere")
    with shown(run) as player:
        assert player.next() == ({**player_nothing(), "error": "the run has no checkpoint yet"}, b"")
        hidden.rename(folder.checkpoints)
        player.until(lambda header, jpeg: jpeg)


def player_nothing() -> dict[str, Any]:
    unknown = ("value", "probabilities", "action_values", "actions", "meanings", "controls")
    return {"episode": 1, "step": 0, "return": 0.0, "trained_steps": 0} | dict.fromkeys(unknown)


@pytest.mark.parametrize(
    ("task", "algo", "changes", "shape"),
    [
        ("CartPole-v1", "dqn", TURNS, (400, 600, 3)),
        ("Pendulum-v1", "sac", TURNS, None),
        pytest.param("Pendulum-v1", "td3", TURNS, None, marks=pytest.mark.nightly),
        pytest.param("Pendulum-v1", "ppo", {"normalise_observations": True}, None, marks=pytest.mark.nightly),
        pytest.param("CartPole-v1", "ppo", {"network": "gru"}, (400, 600, 3), marks=pytest.mark.nightly),
        ("MinAtar-Breakout-v1", "ppo", {}, (648, 648, 3)),  # two by two
        ("Taxi-v3", "ppo", {}, None),  # which has action masks
        ("TagGridWorld-v0", "ppo", {}, (488, 488, 3)),  # a grid of worlds, each of half the size
        pytest.param(
            "TagContinuous-v0",
            "ppo",
            FEW_TAGGERS,
            (488, 488, 3),
            marks=pytest.mark.nightly,
        ),
    ],
)
def test_every_kind_of_agent_is_shown_with_its_picture(tmp_path, task, algo, changes, shape):
    with shown(train(tmp_path / "run", task, algo, **changes)) as player:
        header, jpeg = player.until(lambda header, jpeg: jpeg)
        assert header["error"] is None and isinstance(header["value"], float)
        if shape is not None:
            assert decoded(jpeg).shape == shape
        assert (header["action_values"] is not None) == (algo == "dqn")
        if header["probabilities"] is not None:
            assert sum(map(len, header["probabilities"])) == len(header["meanings"])
            assert len(header["actions"]) == len(header["probabilities"])


def test_a_robot_at_play_is_steered_by_lines_of_its_input(tmp_path):
    pytest.importorskip("mujoco")
    run = train(tmp_path / "run", "Go1Flat-v0", num_steps=8)
    with shown(run) as player:
        stdin = player.process.stdin
        assert stdin is not None
        header, _ = player.until(lambda header, _: header["controls"])
        assert [low for _, low, _ in header["controls"]["ranges"]] == [-1.5, -0.8, -1.2]
        assert header["controls"]["can_push"] and not header["controls"]["steered"]
        for line in (b"{", b"[]", b'{"command": [9, 0, 0]}', b'{"command": [NaN, 0, 0]}', b"[" * 5000, b"\xff"):
            stdin.write(line + b"\n")  # which nobody's page sends
        stdin.write(b'{"command": [0.5, 0, -0.25]}\n{"push": true}\n')
        stdin.flush()
        header, _ = player.until(lambda header, _: header["controls"]["steered"])
        for _ in range(5):
            assert header["controls"]["command"] == [0.5, 0.0, -0.25] and header["error"] is None
            header, _ = player.next()
        stdin.write(b'{"command": null}\n{"chase": true}\n')
        stdin.flush()
        player.until(lambda header, _: not header["controls"]["steered"] and header["controls"]["chased"])
        header, _ = player.until(lambda _, jpeg: jpeg)
        assert header["error"] is None


@pytest.mark.parametrize("breakage", ["stdout", "stdin"])
def test_a_player_ends_with_its_server(run, breakage):
    with shown(run) as player:
        player.next()
        stream = getattr(player.process, breakage)
        stream.close()
        assert player.process.wait(30) == 0


def test_a_folder_without_a_run_is_named(tmp_path):
    player = Shown(tmp_path)
    header, _ = player.next()
    assert "is not a run folder" in header["error"]
    assert player.process.wait(30) == 1


def test_a_player_runs_no_code_without_agreement(tmp_path, run):
    config = json.loads((run / "config.json").read_text())
    (tmp_path / "mine.py").write_text("raise SystemExit('was run')")
    (run / "config.json").write_text(json.dumps(config | {"task": f"{tmp_path}/mine.py:make"}))
    player = Shown(run)
    assert "may do whatever you may do" in player.next()[0]["error"]
    assert player.process.wait(30) == 1


@pytest.mark.parametrize(
    ("quota", "idle", "expected"), [(2, 62.5, 0.5), (2, 64.0, 2.0), (2, 40.0, 0.0), (None, 40.0, 40.0)]
)
def test_idle_cores_outside_of_a_containers_quota_do_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quota: float | None, idle: float, expected: float
) -> None:
    from headrace.watch import player

    now = [100.0]
    act_as(monkeypatch, tmp_path, 64, quota)
    monkeypatch.setattr(player, "_Machine", type("Machine", (player._Machine,), {}))
    monkeypatch.setattr(player.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(player.psutil, "cpu_times", lambda: SimpleNamespace(idle=idle * now[0]))
    assert player.idle_cores() == 0.0
    now[0] += 2.0
    assert player.idle_cores() == expected
