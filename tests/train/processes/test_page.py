"""The door to a run's page: nothing runs until somebody comes, and nothing is left behind."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

import headrace.train
from headrace.train.processes import page
from headrace.train.processes.page import Page, address_of, page_of
from headrace.train.recipes.make import make_config
from headrace.train.runs.folder import RunFolder
from programs import Program, is_alive, wait_for

OPEN = urllib.request.build_opener(urllib.request.ProxyHandler({})).open
TINY: dict[str, Any] = {"num_envs": 4, "num_steps": 8, "minibatch_size": 32, "hidden": [8], "total_steps": 64}
TINY |= {"video": False, "tensorboard": False, "stop_at_return": None}
SERVE = """
import http.server, os, socket, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        said = f"{os.getpid()} {os.getsid(0)} {os.getpriority(os.PRIO_PROCESS, 0)} {sys.argv[1]}".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)
        if self.path == "/end":
            os._exit(0)
    def log_message(self, *_):
        pass
server = http.server.HTTPServer(("", 0), Handler, bind_and_activate=False)
server.socket.close()
server.socket = socket.socket(fileno=int(sys.argv[3]))
server.serve_forever()
"""


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    return RunFolder.create(tmp_path / "run", make_config("CartPole-v1", **TINY))


@pytest.fixture
def server(monkeypatch) -> None:
    monkeypatch.setattr(page, "SERVER", (sys.executable, "-c", SERVE))


def get(url: str) -> str:
    with OPEN(url, timeout=60) as answer:
        return answer.read().decode()


@pytest.mark.usefixtures("server")
def test_the_first_visit_starts_a_server_that_outlives_the_run(run):
    door = Page(run)
    pids = []
    try:
        assert address_of(run) == door.address and door._server is None
        pid, session, nice, folder = get(door.address).split()
        pids.append(int(pid))
        assert (session, nice, folder) == (pid, "19", str(run.path.resolve()))
        assert get(door.address).split()[0] == pid
        assert get(f"{door.address}/end").split()[0] == pid
        again = get(door.address).split()[0]  # one that has ended is started again
        pids.append(int(again))
        assert again != pid
        door.close()
        assert not run.viewer_file.exists()
        assert get(door.address).split()[0] == again  # somebody may still look
    finally:
        for pid in pids:
            if is_alive(pid):
                os.kill(pid, signal.SIGKILL)


def test_a_server_that_fails_is_explained_and_not_started_without_end(run, monkeypatch):
    monkeypatch.setattr(page, "SERVER", (sys.executable, "-c", "raise SystemExit(3)"))
    with page_of(run, True) as address:
        assert address is not None
        for _ in range(2):
            with pytest.raises(urllib.error.HTTPError) as caught:
                OPEN(address, timeout=60)
            words = caught.value.read().decode()
            assert caught.value.code == 503 and f"headrace watch {run.path}" in words


def test_a_program_that_cannot_be_started_is_explained(run, monkeypatch):
    monkeypatch.setattr(page, "SERVER", ("/nowhere/python",))
    with page_of(run, True) as address, pytest.raises(urllib.error.HTTPError) as caught:
        OPEN(str(address), timeout=60)
    assert "cannot be started" in caught.value.read().decode()


def test_the_port_of_a_killed_run_is_taken_again_if_it_is_free(run):
    with page_of(run, True) as first:
        told = run.viewer_file.read_text()
        with page_of(run, True) as other:
            assert other != first
    assert not run.viewer_file.exists()
    run.viewer_file.write_text(told)
    with page_of(run, True) as again:
        assert again == first
    for damaged in ("", "[]", '{"port": 70000, "pid": 1}', '{"port": "x"}', '{"port": 1, "pid": 1}'):
        run.viewer_file.write_text(damaged)
        with page_of(run, True) as address:
            assert address is not None and address == address_of(run)


def test_a_run_without_a_page_listens_nowhere(run, monkeypatch):
    with page_of(run, False) as address:
        assert address is None and address_of(run) is None

    def full(*_, **__):
        raise OSError("no sockets left")

    monkeypatch.setattr(socket, "create_server", full)
    with page_of(run, True) as address:
        assert address is None


RUNS: list[tuple[str, str, dict[str, Any]]] = [
    ("CartPole-v1", "ppo", {}),
    ("CartPole-v1", "ppo", {"samplers": 1, "evaluate_episodes": 0}),
    ("CartPole-v1", "ppo", {"devices": ["cpu", "cpu"]}),
    ("CartPole-v1", "dqn", {"samplers": 0, "batch_size": 2, "learning_starts": 32}),
    ("Pendulum-v1", "sac", {"learning_starts": 32, "num_steps": None, "evaluate_episodes": 0}),
]


@pytest.mark.parametrize(("task", "algo", "changes"), RUNS)
def test_the_first_line_of_every_run_is_its_address(tmp_path, capfd, task, algo, changes):
    settings = {name: value for name, value in {**TINY, **changes}.items() if value is not None}
    headrace.train.train(task, algo, run_dir=tmp_path / "run", **settings)
    first = capfd.readouterr().out.splitlines()[0]
    assert re.fullmatch(r"watch http://127\.0\.0\.1:\d+", first)
    assert not (tmp_path / "run" / "viewer.json").exists()


def test_quiet_runs_and_runs_without_a_page_print_no_address(tmp_path, capsys):
    headrace.train.train("CartPole-v1", run_dir=tmp_path / "quiet", quiet=True, **TINY)
    assert capsys.readouterr().out == ""
    headrace.train.train("CartPole-v1", run_dir=tmp_path / "without", viewer=False, **TINY)
    assert "watch http" not in capsys.readouterr().out


def test_a_killed_trainer_leaves_no_listening_socket(tmp_path):
    code = (
        f"import sys, headrace; headrace.train('CartPole-v1', run_dir=sys.argv[1], **{TINY | {'total_steps': 10**9}})"
    )
    process = Program([sys.executable, "-c", code, tmp_path / "run"], stdout=subprocess.DEVNULL)
    run = RunFolder(tmp_path / "run")
    try:
        wait_for(lambda: address_of(run) is not None)
        port = int(str(address_of(run)).rpartition(":")[2])
        assert json.loads(run.viewer_file.read_text())["pid"] == process.pid
    finally:
        process.kill()
        process.wait()
    with socket.socket() as visitor:
        assert visitor.connect_ex(("127.0.0.1", port)) != 0


def test_removed_settings_of_earlier_versions_do_not_stop_a_resume(tmp_path):
    headrace.train.train("CartPole-v1", run_dir=tmp_path, quiet=True, **TINY)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {"viewer_share": 0.01}))
    assert headrace.train.resume(tmp_path, quiet=True, total_steps=128).steps == 128
