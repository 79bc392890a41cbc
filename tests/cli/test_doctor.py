"""The report on this machine: it names every part that is installed, and a remedy for every missing one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

import headrace
from headrace.cli import doctor
from headrace.cli.main import main
from headrace.machine import usable_cores
from headrace.native_modules import ATARI
from hosts import act_as


def report(capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, dict]]:
    status = main(["doctor", "--json"])
    return status, {line["name"]: line for line in json.loads(capsys.readouterr().out)}


def test_the_report_matches_the_machine(capsys: pytest.CaptureFixture[str]) -> None:
    status, lines = report(capsys)
    assert lines["headrace"]["found"] == headrace.__version__
    assert lines["cores"]["found"].startswith(f"{usable_cores()} of ")
    assert metadata.version("torch") in lines["torch"]["found"]
    assert status == int(any(line["state"] == "broken" for line in lines.values()))
    for line in lines.values():
        assert line["state"] == "ok" or line["remedy"] or line["name"] in ("GPU", ATARI.distribution), line


def test_what_limits_the_cores_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    act_as(monkeypatch, tmp_path, 64, 1.5)
    assert report(capsys)[1]["cores"]["found"] == "2 of 64 cores: the container's quota of 1.5"


def test_a_terminal_gets_groups_and_names_no_home(capsys: pytest.CaptureFixture[str]) -> None:
    main(["doctor"])
    out = capsys.readouterr().out
    assert [group for group in ("system", "machine", "compiled", "learning", "extras") if f"\n{group}\n" in out]
    assert str(Path.home()) not in out


def test_a_missing_extra_has_its_command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(doctor, "_is_there", lambda package: package != "vizdoom")
    _, lines = report(capsys)
    assert lines["vizdoom"]["state"] == "missing"
    assert lines["vizdoom"]["remedy"] == "pip install 'headrace[vizdoom]'"
    main(["doctor"])
    assert "pip install 'headrace[vizdoom]'" in capsys.readouterr().out  # rich has taken no bracket for markup


def test_a_module_of_another_version_is_broken(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    package = pytest.importorskip("headrace_atari")
    monkeypatch.setattr(package, "__version__", "0.0.7")
    status, lines = report(capsys)
    assert status == 1
    assert lines["headrace-atari"]["state"] == "broken"
    assert "--force-reinstall" in lines["headrace-atari"]["remedy"]


def test_a_cache_that_cannot_be_written_is_broken(tmp_path: Path) -> None:
    if os.getuid() == 0:
        pytest.skip("everything can be written by root")
    tmp_path.chmod(0o500)
    code = "import sys; from headrace.cli.main import main; sys.exit(main(['doctor', '--json']))"
    environment = os.environ | {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert done.returncode == 1
    assert {"cache"} <= {line["name"] for line in json.loads(done.stdout) if line["state"] == "broken"}
