"""What keeps a run from a cluster is said before there is a run folder."""

from __future__ import annotations

import socket
import sys
from typing import Any

import pytest

from headrace.errors import OptionError
from headrace.train import train


def refused(tmp_path, ray: str, words: str, **changes) -> None:
    settings: dict[str, Any] = {"algo": "sac", "samplers": 1, "viewer": False} | changes
    with pytest.raises(OptionError, match=words):
        train("Pendulum-v1", run_dir=tmp_path / "run", ray=ray, quiet=True, **settings)
    assert not (tmp_path / "run").exists()


def test_without_ray_it_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    refused(tmp_path, "local", r"needs Ray, .* pip install 'headrace\[ray\]'")


def test_nobody_at_an_address_is_named_at_once(tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))  # nobody listens
        address = f"127.0.0.1:{free.getsockname()[1]}"
        refused(tmp_path, address, rf"no Ray cluster at {address} .* ray start --head .* --ray local")


@pytest.mark.parametrize("ray", ["ray://10.0.0.1:10001", "10.0.0.1", "somewhere", ":6379"])
def test_what_is_no_address_is_named(tmp_path, ray):
    refused(tmp_path, ray, "must be local, auto or the address of a cluster's head")


def test_a_run_without_samplers_has_no_use_for_it(tmp_path):
    refused(tmp_path, "local", "ray='local' would not be used by ppo with samplers=0", algo="ppo", samplers=0)
