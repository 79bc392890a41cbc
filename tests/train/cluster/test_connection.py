"""What keeps a run from a cluster is said before there is a run folder."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import psutil
import pytest

from headrace.errors import OptionError
from headrace.train import train
from headrace.train.cluster.connection import QUIET
from train.cluster.nodes import wait_until


def refused(tmp_path, ray: str, words: str, **changes) -> None:
    settings: dict[str, Any] = {"algo": "sac", "samplers": 1, "viewer": False} | changes
    with pytest.raises(OptionError, match=words):
        train("Pendulum-v1", run_dir=tmp_path / "run", ray=ray, quiet=True, **settings)
    assert not (tmp_path / "run").exists()


def test_a_run_without_ray_names_the_extra_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    refused(tmp_path, "local", r"needs Ray, .* pip install 'headrace\[ray\]'")


def test_an_address_without_a_cluster_is_an_error_at_once(tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))  # nobody listens
        address = f"127.0.0.1:{free.getsockname()[1]}"
        refused(tmp_path, address, rf"no Ray cluster at {address} .* ray start --head .* --ray local")


@pytest.mark.parametrize("ray", ["ray://10.0.0.1:10001", "10.0.0.1", "somewhere", ":6379"])
def test_a_malformed_address_of_a_cluster_is_refused(tmp_path, ray):
    refused(tmp_path, ray, "must be local, auto or the address of a cluster's head")


@pytest.mark.nightly
def test_a_cluster_that_asks_for_a_token_is_reached_with_it(tmp_path):
    """As every cluster does once Ray has written a token; without it the error says what to copy."""
    ray, token = Path(sys.executable).with_name("ray"), "0123456789abcdef" * 4
    (tmp_path / "home").mkdir()
    home = {"HOME": str(tmp_path / "home"), "RAY_AUTH_TOKEN": token, "RAY_AUTH_MODE": "token"}
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory(prefix="hr", dir="/tmp") as folder:
        at = [f"--port={port}", "--node-ip-address=127.0.0.1", f"--temp-dir={folder}", "--num-cpus=1"]
        small = ["--include-dashboard=false", "--object-store-memory=80000000"]
        head = subprocess.Popen(
            [ray, "start", "--head", "--block", *at, *small], env=os.environ | QUIET | home, stdout=subprocess.DEVNULL
        )
        try:
            wait_until(lambda: answers(port), "the start of the cluster")
            del home["RAY_AUTH_MODE"]
            assert connected_by(port, home) == "1"
            assert "OptionError" in (said := connected_by(port, {"HOME": home["HOME"]}))
            assert f"ray='127.0.0.1:{port}': the cluster asks for a token" in said
        finally:
            left = psutil.Process(head.pid).children(recursive=True)
            for process in (head, *left):
                process.kill()
            head.wait()


def answers(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


def connected_by(port: int, environment: dict[str, str]) -> str:
    """What a program says of the number of nodes that it has found."""
    code = "from headrace.train.cluster.connection import connected\n"
    code += f"with connected('127.0.0.1:{port}', 1) as ray: print(len(ray.nodes()))"
    told = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")} | environment
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=told, timeout=200)
    return ran.stdout.strip() or ran.stderr


def test_a_run_without_samplers_refuses_a_cluster(tmp_path):
    refused(tmp_path, "local", "ray='local' would not be used by ppo with samplers=0", algo="ppo", samplers=0)
