"""Watching a run: real processes, real pictures over real HTTP, and nothing done while nobody looks."""

import dataclasses
import io
import itertools
import json
import os
import signal
import socket
import threading
import time
import urllib.request
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import numpy as np
import pytest

from headrace.cli.main import main
from headrace.errors import OptionError
from headrace.pool.registry import build_task
from headrace.train.config.settings import Config, make_config
from headrace.train.logging.dashboard import Dashboard
from headrace.train.play.video import SMALLEST_HEIGHT, enlarged
from headrace.train.processes.counters import Counters
from headrace.train.processes.supervisor import Supervisor
from headrace.train.processes.weight_buffer import WeightBuffer
from headrace.train.runners.asynchronous import AsyncTrainer
from headrace.train.runners.off_policy import OffPolicyTrainer
from headrace.train.runners.on_policy import OnPolicyTrainer
from headrace.train.runs.folder import RunFolder
from headrace.train.viewer import server as viewer
from headrace.train.viewer.address import address, announce, find
from headrace.train.viewer.player import LEAST_PICTURES, picture_options
from headrace.train.workers.policy_copy import acting_policy

UNPICTURED = Path(__file__).with_name("unpictured_env.py")
OPEN = urllib.request.build_opener(urllib.request.ProxyHandler({})).open
SMALL: dict[str, Any] = {
    "samplers": 1, "num_envs": 2, "hidden": (8,), "stop_at_return": None, "tensorboard": False, "video": False,
    "viewer_share": 1.0,
}  # fmt: skip


def settings(task: str, algo: str, **options: object) -> Config:
    return make_config(task, algo=algo, env_options=options, **SMALL)


class Watched:
    """A viewer in a process of its own, and what a run shares with it."""

    def __init__(self, config: Config, folder: Path):
        self.config, self.run = config, RunFolder.create(folder, config)
        self.policy = acting_policy(config)
        self.weights, self.counters = WeightBuffer(self.policy.acting.numel()), Counters(1)
        self.supervisor = Supervisor(self.counters.stop)
        self.weights.publish(self.policy.acting)
        arguments = (config, self.run.path, self.weights, self.counters)
        self.supervisor.start("viewer", viewer.work, *arguments, progress=lambda: int(self.counters.viewers[0]))
        self.url = ""
        wait_for(lambda: find(self.run) is not None)
        self.url = address(int(self.counters.port[0]))

    @property
    def pid(self) -> int:
        return self.supervisor.pids()["viewer"]

    def get(self, page: str) -> bytes:
        with OPEN(f"{self.url}/{page}", timeout=60) as answer:
            return answer.read()

    def status(self) -> dict:
        return json.loads(self.get("status.json"))

    def close(self) -> None:
        self.supervisor.close()
        self.weights.close()
        self.counters.close()


@contextmanager
def watched(config: Config, folder: Path) -> Iterator[Watched]:
    run = Watched(config, folder)
    try:
        yield run
    finally:
        run.close()


def wait_for(condition, seconds: float = 60.0) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "nothing happened"
        time.sleep(0.02)


@contextmanager
def stream(url: str) -> Iterator[Iterator[np.ndarray]]:
    """The pictures of a page, as a browser gets them."""
    with OPEN(f"{url}/stream", timeout=60) as answer:
        kind, _, boundary = answer.headers["Content-Type"].partition("; boundary=")
        assert kind == "multipart/x-mixed-replace"
        assert answer.readline().strip() == f"--{boundary}".encode()
        yield pictures(answer, boundary)


def pictures(answer, boundary: str) -> Iterator[np.ndarray]:
    image = pytest.importorskip("PIL.Image")
    while line := answer.readline():
        assert line.strip() == b"Content-Type: image/jpeg"
        length = int(answer.readline().removeprefix(b"Content-Length: "))
        assert not answer.readline().strip()
        yield np.asarray(image.open(io.BytesIO(answer.read(length))))
        assert not answer.readline().strip()
        assert answer.readline().strip() == f"--{boundary}".encode()


def processor_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def threads(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/task").iterdir()))


def assert_idle(run: Watched) -> None:
    """Nothing is drawn, and next to no processor time used."""
    drawn, used, began = run.status()["pictures"], processor_seconds(run.pid), time.monotonic()
    time.sleep(1.0)
    assert processor_seconds(run.pid) - used <= 0.1 * (time.monotonic() - began)
    assert run.status()["pictures"] == drawn


def test_a_run_is_played_for_who_watches_and_for_nobody_else(tmp_path: Path) -> None:
    with watched(settings("CartPole-v1", "dqn"), tmp_path) as run:
        before = threads(run.pid)
        assert_idle(run)
        assert run.status()["pictures"] == 0

        with stream(run.url) as first, stream(run.url) as second:
            seen = [next(first) for _ in range(6)]
            assert {picture.shape for picture in seen} == {(400, 600, 3)}
            assert all((a != b).any() for a, b in itertools.pairwise(seen))
            assert next(second).shape == next(second).shape == (400, 600, 3)
            status = run.status()
            assert status["watchers"] == 2
            assert status["playing"]["version"] == status["version"] == 1

            run.policy.acting.add_(0.1)
            run.weights.publish(run.policy.acting)
            wait_for(lambda: next(first) is not None and run.status()["playing"]["version"] == 2)

        wait_for(lambda: run.status()["watchers"] == 0 and run.status()["playing"] is None)
        wait_for(lambda: threads(run.pid) <= before + 1)  # the one that answered is about to end
        assert_idle(run)

        with stream(run.url) as again:  # the last weights, though nobody has published any meanwhile
            next(again)
            assert run.status()["playing"]["version"] == 2


def test_the_page_needs_nobody_else(tmp_path: Path) -> None:
    with watched(settings("CartPole-v1", "dqn"), tmp_path) as run:
        page = run.get("").decode()
        assert "<title>" in page
        assert "http:" not in page and "https:" not in page
        assert all(name in page for name in ("stream", "status.json", "curve.json", "episode.mp4"))
        status = run.status()
        assert {name for name in status if f"now.{name}" not in page} <= {"pid", "watchers", "pictures", "fps"}
        with pytest.raises(HTTPError) as wrong:
            run.get("config.json")
        assert wrong.value.code == 404


def test_what_is_said_of_a_run_is_what_its_counters_hold(tmp_path: Path) -> None:
    with watched(settings("CartPole-v1", "dqn"), tmp_path) as run:
        run.counters.steps[0], run.counters.updates[0] = 1000, 50
        run.counters.note_episodes(0, np.array([3.0, 5.0]), np.array([3, 5]))
        status = run.status()
        assert (status["step"], status["updates"], status["pid"]) == (1000, 50, run.pid)
        assert (status["training_return"], status["training_episodes"]) == (4.0, 2)
        assert 0 < status["per_second"]["updates"] < status["per_second"]["sampling"]
        lines = [{"step": 10 * i, "return": None if i < 2 else float(i)} for i in range(1000)]
        run.run.metrics_file.write_text("".join(json.dumps(line) + "\n" for line in lines))
        curve = json.loads(run.get("curve.json"))
        assert curve[0] == [20, 2.0]
        assert 100 < len(curve) <= viewer.POINTS
        assert sorted(curve) == curve
        run.counters.note_episodes(0, np.array([np.inf]), np.array([1]))
        assert run.status()["training_return"] is None  # JSON has no infinity


def test_the_last_episode_is_a_video(tmp_path: Path) -> None:
    av = pytest.importorskip("av")
    with watched(settings("Pendulum-v1", "ddpg", max_episode_steps=8), tmp_path) as run:
        with pytest.raises(HTTPError) as missing:
            run.get("episode.mp4")
        assert missing.value.code == 404
        with stream(run.url) as seen:
            wait_for(lambda: next(seen) is not None and len(run.status()["episodes"]) > 0)
        assert run.status()["episodes"][0]["steps"] == 8
        with av.open(io.BytesIO(run.get("episode.mp4"))) as film:
            frames = [frame.to_ndarray(format="rgb24") for frame in film.decode(video=0)]
            assert film.streams.video[0].average_rate == 20
        assert len(frames) == 1 + 8  # as it began, and after each step
        assert all((a != b).any() for a, b in itertools.pairwise(frames))


def test_pictures_take_no_more_than_their_share(tmp_path: Path) -> None:
    config = dataclasses.replace(settings("Pendulum-v1", "ddpg"), viewer_share=1e-9)
    with watched(config, tmp_path) as run, stream(run.url) as seen:
        next(seen)
        began, before = time.monotonic(), run.status()
        wait_for(lambda: run.status()["playing"]["steps"] >= before["playing"]["steps"] + 40)
        drawn = run.status()["pictures"] - before["pictures"]
        assert 1 <= drawn <= 1 + (time.monotonic() - began) * LEAST_PICTURES


def test_robots_are_drawn_small_unless_somebody_chose_a_size(tmp_path: Path) -> None:
    assert picture_options(settings("CartPole-v1", "dqn")) == {}
    assert picture_options(settings("HalfCheetah-v5", "sac", render_width=320)) == {"render_effects": False}
    assert picture_options(settings("HalfCheetah-v5", "sac", width=320, height=320)) == {"render_effects": False}
    assert "render_effects" not in picture_options(settings("HalfCheetah-v5", "sac", render_effects=True))
    with watched(settings("HalfCheetah-v5", "sac"), tmp_path) as run, stream(run.url) as seen:
        assert next(seen).shape == (240, 240, 3)


def test_a_killed_viewer_comes_back_where_it_was(tmp_path: Path) -> None:
    with watched(settings("CartPole-v1", "dqn"), tmp_path) as run:
        for _ in range(3):
            pid = run.pid
            os.kill(pid, signal.SIGKILL)
            wait_for(lambda: bool(run.supervisor.check()))
            wait_for(lambda: find(run.run) is not None)
            assert find(run.run) == run.url
            assert run.status()["pid"] == run.pid != pid
        with stream(run.url) as seen:
            assert next(seen).any()


def test_it_ends_with_the_run_even_while_somebody_watches(tmp_path: Path) -> None:
    run = Watched(settings("CartPole-v1", "dqn"), tmp_path)
    process = run.supervisor._workers[0].process
    with stream(run.url) as seen:
        next(seen)
        run.close()
        for _ in seen:
            pass
    assert process.exitcode == 0  # by itself, in the time that the others have, too
    assert not run.run.viewer_file.exists()
    assert find(run.run) is None


def test_who_cannot_be_drawn_says_why(tmp_path: Path) -> None:
    task = f"{UNPICTURED}:Broken-v0"
    config = make_config(task, algo="ddpg", **SMALL)
    assert viewer.has_pictures(config)
    with watched(config, tmp_path) as run:
        pid = run.pid
        with pytest.raises(HTTPError) as refused:
            run.get("stream")
        assert refused.value.code == 503
        assert refused.value.read().decode().strip() == "all pencils are broken"
        status = run.status()
        assert (status["trouble"], status["pid"]) == ("all pencils are broken", pid)
        assert_idle(run)


def test_a_task_without_pictures_has_no_viewer() -> None:
    assert not viewer.has_pictures(make_config(f"{UNPICTURED}:Unpictured-v0", algo="ddpg", **SMALL))


@pytest.mark.parametrize(
    ("task", "algo", "options", "shape"),
    [
        ("HalfCheetah-v5", "ddpg", {"render_width": 80, "render_height": 60}, (240, 320, 3)),
        ("Pong-v5", "dqn", {}, (420, 320, 3)),
        ("MinAtar-Breakout-v1", "dqn", {}, (320, 320, 3)),
    ],
)
def test_games_and_robots_are_large_enough_to_see(tmp_path, task, algo, options, shape) -> None:
    try:
        config = settings(task, algo, **options)
        build_task(task)
    except OptionError as error:
        pytest.skip(str(error))
    with watched(config, tmp_path) as run:
        try:
            with stream(run.url) as seen:
                assert next(seen).shape == shape
        except HTTPError as error:  # of a machine without OpenGL, or without MuJoCo
            words = error.read().decode()
            assert "there is none" in words or "need the compiled module" in words
            pytest.skip(words)


def test_small_frames_are_enlarged_by_whole_factors() -> None:
    frame = np.arange(3 * 100 * 50, dtype=np.uint8).reshape(100, 50, 3)
    large = enlarged(frame)
    assert large.shape == (300, 150, 3) and len(large) >= SMALLEST_HEIGHT
    assert (large[::3, ::3] == frame).all() and (large[2::3, 1::3] == frame).all()
    assert enlarged(large) is large


@pytest.mark.parametrize(("algo", "kind"), [("dqn", OffPolicyTrainer), ("ppo", OnPolicyTrainer)])
def test_a_training_can_be_watched_until_it_ends(tmp_path: Path, algo: str, kind: type[AsyncTrainer]) -> None:
    config = make_config("CartPole-v1", algo=algo, total_steps=10**8, evaluate_episodes=0, **SMALL)
    trainer = kind(config, RunFolder.create(tmp_path, config))
    seen: list[np.ndarray] = []

    def look() -> None:
        try:
            wait_for(lambda: find(trainer.run) is not None)
            assert find(trainer.run) == trainer.address
            assert trainer.address is not None
            with stream(trainer.address) as shown:
                seen.extend(next(shown) for _ in range(3))
            wait_for(lambda: trainer.counters.updates[0] > 0)
        finally:
            os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=look, daemon=True)
    try:
        thread.start()
        shown = io.StringIO()
        assert trainer.train(Dashboard(shown)) == "interrupted"
        thread.join()
        assert shown.getvalue().count(f"watch {trainer.address}\n") == 1
        assert len(seen) == 3
        assert trainer.restarts == 0
    finally:
        trainer.close()
    assert find(trainer.run) is None
    assert not trainer.run.viewer_file.exists()


def test_what_a_killed_run_leaves_is_not_taken_for_a_viewer(tmp_path: Path) -> None:
    config = settings("CartPole-v1", "dqn")
    with watched(config, tmp_path / "other") as run:
        mine = RunFolder.create(tmp_path / "mine", config)
        assert find(mine) is None
        announce(mine, int(run.counters.port[0]))  # a port that another run's viewer has taken since
        assert find(mine) is None
        assert find(run.run) == run.url
    announce(mine, 9)  # where nobody answers
    assert find(mine) is None
    mine.viewer_file.write_text('{"url": "http://')
    assert find(mine) is None


def asked(port: int, request: bytes) -> bytes:
    """The first bytes of the answer to whatever was sent; empty if there is none."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as line:
        try:
            line.sendall(request)
            line.shutdown(socket.SHUT_WR)
            return line.recv(4096)
        except ConnectionError:
            return b""


def test_only_this_machine_is_answered_whoever_asks(tmp_path: Path) -> None:
    """A foreign page whose name its owner lets mean 127.0.0.1 (DNS rebinding) gets nothing."""
    with watched(settings("CartPole-v1", "dqn"), tmp_path) as run:
        port = int(run.counters.port[0])

        def status(host: str, page: str = "/status.json") -> int:
            answer = asked(port, f"GET {page} HTTP/1.1\r\n{host}Connection: close\r\n\r\n".encode())
            assert status_of(answer) == 200 or str(tmp_path).encode() not in answer
            return status_of(answer)

        for own in ("127.0.0.1", f"127.0.0.1:{port}", f"localhost:{port}", "LOCALHOST", f"[::1]:{port}", "localhost:9"):
            assert status(f"Host: {own}\r\n") == 200
        foreign = ("evil.example", f"evil.example:{port}", "127.0.0.1.evil.example", "evil@127.0.0.1.x", "", "[::1")
        for page in ("/", "/status.json", "/curve.json", "/episode.mp4", "/stream"):
            assert {status(f"Host: {each}\r\n", page) for each in foreign} == {403}
        assert status("") == 403


def status_of(answer: bytes) -> int:
    return int(answer.split()[1])


def test_odd_requests_do_it_no_harm(tmp_path: Path) -> None:
    with watched(settings("CartPole-v1", "dqn"), tmp_path) as run:
        pid, port, here = run.pid, int(run.counters.port[0]), b"Host: localhost\r\n\r\n"
        slow = [socket.create_connection(("127.0.0.1", port), timeout=60) for _ in range(100)]
        for number, line in enumerate(slow):
            line.sendall(b"GET /status.json HTT" if number % 2 else b"")
        for request in (b"\0" * 1000, b"GET", b"GET / HTTP/9.9\r\n" + here, b"G" * 100_000, b"\r\n\r\n"):
            answer = asked(port, request)
            assert not answer.startswith(b"HTTP/1.0 200")
        assert status_of(asked(port, b"GET /?" + b"x" * 60_000 + b" HTTP/1.1\r\n" + here)) == 200
        assert status_of(asked(port, b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 1000 + here)) == 431
        for page in (
            "/../config.json",
            "/%2e%2e/config.json",
            "//etc/passwd",
            "/<script>alert(1)</script>",
            "/stream/",
        ):
            answer = asked(port, f"GET {page} HTTP/1.1\r\n".encode() + here)
            assert status_of(answer) == 404
            assert b"script" not in answer and b"text/plain" in answer
        for method in (b"POST", b"PUT", b"DELETE", b"HEAD", b"OPTIONS"):
            assert status_of(asked(port, method + b" / HTTP/1.1\r\n" + here)) == 501
        assert run.status()["pid"] == pid == run.pid
        for line in slow:
            line.close()
        run.run.metrics_file.write_text("null\n")
        with pytest.raises(HTTPError) as odd:
            run.get("curve.json")
        assert odd.value.code == 500 and "metrics.jsonl, line 1" in odd.value.read().decode()
        assert run.status()["pid"] == pid


def test_a_run_folder_leads_nowhere_but_to_this_machine(tmp_path: Path) -> None:
    config = settings("CartPole-v1", "dqn")
    with watched(config, tmp_path / "run") as run:
        said = json.loads(run.run.viewer_file.read_text())
        run.run.viewer_file.write_text(json.dumps(said | {"url": "http://evil.example/"}))
        assert find(run.run) == run.url
        for port in (0, -1, 2**16, 10**30, "evil.example", None, [], True):
            run.run.viewer_file.write_text(json.dumps(said | {"port": port}))
            assert find(run.run) is None
        run.run.viewer_file.write_text(json.dumps(said))


def test_watch_says_why_there_is_no_page(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setattr("headrace.cli.watch.PATIENCE", 0.0)
    alone = RunFolder.create(tmp_path / "alone", make_config("CartPole-v1", samplers=0))
    unseen = RunFolder.create(tmp_path / "unseen", dataclasses.replace(settings("CartPole-v1", "dqn"), viewer=False))
    for run, words in ((alone, "only runs with samplers have a viewer"), (unseen, "--no-viewer")):
        with run.held():
            assert main(["watch", str(run.path), "--no-browser"]) == 1
            shown = capsys.readouterr().err
            assert words in shown and f"trained by process {os.getpid()}" in shown
        assert main(["watch", str(run.path), "--no-browser"]) == 1
        assert "nobody trains it now" in capsys.readouterr().err


def test_watch_opens_the_page_of_the_newest_run(tmp_path, monkeypatch, capsys) -> None:
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", lambda url: bool(opened.append(url)) or True)
    monkeypatch.chdir(tmp_path)
    assert main(["watch"]) == 2
    assert "there are no runs" in capsys.readouterr().err
    config = settings("CartPole-v1", "dqn")
    old = RunFolder.create("runs/old", config)
    os.utime(old.path, (1, 1))
    with watched(config, Path("runs/new")) as run:
        assert main(["watch", "--no-browser"]) == 0
        assert capsys.readouterr().out.strip() == f"watch {run.url}"
        assert not opened
        assert main(["watch"]) == 0
        assert opened == [run.url]
    monkeypatch.setattr("headrace.cli.watch.PATIENCE", 0.0)
    assert main(["watch", "runs/old"]) == 1
    assert "headrace play runs/old" in capsys.readouterr().err
    assert main(["watch", "runs"]) == 2
