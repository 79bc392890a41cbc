"""The command's frame: help, versions, and wrong names answered in one line."""

from __future__ import annotations

import gc
import importlib
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from headrace.cli.main import ALLOCATIONS, COMMANDS, main
from headrace.native_modules import NEVER, NativeModule


@pytest.mark.parametrize("argv", [[], ["--help"], ["-h"], ["help"]])
def test_help_names_every_command(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(argv) == 0
    out = capsys.readouterr().out
    assert all(command in out for command in COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_examples(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, "--help"]) == 0
    out = capsys.readouterr().out
    assert f"headrace {command}" in out.split("examples:")[1]
    assert "default: '')" not in out and "default: )" not in out


def test_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("headrace ")


def test_only_the_whole_program_searches_less_for_garbage(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a function, the command leaves the caller's collector as it is."""
    set_to: list[int] = []
    at_exit: list[object] = []
    monkeypatch.setattr("gc.set_threshold", lambda young, *_: set_to.append(young))
    monkeypatch.setattr("atexit.register", at_exit.append)
    assert main(["--version"]) == 0 and not set_to and not at_exit
    monkeypatch.setattr(sys, "argv", ["headrace", "--version"])
    assert main() == 0 and set_to == [ALLOCATIONS] and at_exit == [gc.freeze]


def test_wrong_command_names_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trian"]) == 2
    assert "'train'" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["bench", "train", "envs"])
def test_wrong_task_names_the_nearest(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, "CartPool-v1"]) == 2
    out, err = capsys.readouterr()
    assert "CartPole-v1" in err
    assert "Traceback" not in out + err


@pytest.mark.parametrize("argv", [["bench", "CartPole-v1", "--second", "1"], ["train", "CartPole-v1", "--sede", "3"]])
def test_wrong_option_names_the_nearest(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(argv) == 2
    assert argv[2][:4] in capsys.readouterr().err


ANSWERED_AT_ONCE = {
    0: [
        "--help",
        "--version",
        *(f"{command} --help" for command in COMMANDS),
        "train CartPole-v1 --help-all",
        "envs",
        "recipes",
        "recipes CartPole-v1",
        "recipes Pong-v5",
        "leaderboard --list",
    ],
    2: [
        "trian",
        "train CartPool-v1",
        "train CartPool-v1 --algo sac",
        "train missing.py:Env",
        "train missing.py:Env --algo sac",
        "train Pendulum-v1 --algo sac --sede 3",
        "train Pendulum-v1 --algo sac --seed three",
        "train CartPole-v1 --learning-rate -1",
        "train CartPole-v1 --algo poo",
        "train --resume missing",
        "recipes CartPool-v1",
        "watch missing",
        "play missing",
        "play missing --grid",
        "plot missing",
        "export missing policy.onnx",
        "tune CartPool-v1",
        "bench CartPool-v1",
        "check missing.py",
        "leaderboard missing",
        "sweep CartPool-v1 --space learning_rate=0.1,0.2",
        "sweep missing.py:Env --space learning_rate=0.1,0.2",
        "sweep CartPole-v1 --space learning_rat=0.1,0.2",
        "sweep --resume missing",
    ],
}
"""exit status → commands that only tell something"""
AT_ONCE = """
import sys
import psutil
from headrace.cli.main import main
for command in sys.argv[2:]:
    assert main(command.split()) == int(sys.argv[1]), command
    assert not {"torch", "warp"}.intersection(sys.modules), command
    assert not psutil.Process().children(), command  # which would import them
"""


@pytest.mark.parametrize("status", ANSWERED_AT_ONCE)
def test_help_lists_and_wrong_names_import_neither_torch_nor_warp(status: int, tmp_path: Path) -> None:
    pytest.importorskip("optuna")
    command = [sys.executable, "-c", AT_ONCE, str(status), *ANSWERED_AT_ONCE[status]]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "command",
    [
        "recipes Pong-v5",
        "recipes CarRacing-v3",
        "envs Pong-v5",
        "envs box2d",
        "envs HalfCheetah-v5",
        "leaderboard --list",
        "train CarRacing-v3 --help",
        "train HalfCheetah-v5 --help-all",
        "doctor",
    ],
)
def test_commands_that_only_list_build_nothing(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv(NEVER, raising=False)
    monkeypatch.setattr(NativeModule, "_is_due", lambda module: True)
    monkeypatch.setattr(NativeModule, "build", lambda module: pytest.fail(f"{module.package} is built"))
    monkeypatch.setattr(NativeModule, "load", load_anew)
    assert main(command.split()) in (0, 1)  # the doctor's may be 1
    assert NEVER not in os.environ
    assert capsys.readouterr().out


def load_anew(module: NativeModule) -> ModuleType:
    """As in a process that has not loaded the module yet."""
    module.prepare()
    return importlib.import_module(f"{module.package}.{module.module}")


@pytest.mark.parametrize("command", ["play", "train", "bench", "tune", "check", "envs", "recipes", "sweep"])
def test_a_second_name_is_answered_with_the_command_for_several(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([command, "CartPole-v1", "Pong-v5"]) == 2
    said = capsys.readouterr().err
    hint = "headrace watch" if command == "play" else "give each a command"
    assert said.startswith(f"headrace: {command} takes one name, not Pong-v5 as well: {hint}")
    assert main([command, "CartPole-v1", "--epochz", "3"]) == 2
    assert "Unrecognized options: --epochz" in capsys.readouterr().err


def test_a_name_too_many_is_refused_by_commands_of_no_or_two_names(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "CartPole-v1"]) == 2
    assert "doctor takes options alone, not CartPole-v1 as well: headrace check TASK" in capsys.readouterr().err
    assert main(["export", "runs/mine", "policy.onnx", "policy.pt"]) == 2
    assert "export takes a run and a file, not policy.pt as well: give each a command" in capsys.readouterr().err


def test_the_package_runs_as_a_module() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "headrace.cli.main", "bench", "Pnog-v5"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "Pong-v5" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_reader_that_leaves_early_is_no_error() -> None:
    command = f"{sys.executable} -m headrace.cli.main envs classic_control | head -n 1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert not done.stderr


def test_a_command_and_python_without_torch_name_the_extra_to_install() -> None:
    hidden = "import sys; sys.modules |= dict.fromkeys(('torch', 'safetensors', 'uvicorn'))\n"
    command = "from headrace.cli.main import main; sys.exit(main(['train', 'CartPole-v1']))"
    done = subprocess.run([sys.executable, "-c", hidden + command], capture_output=True, text=True)
    assert done.stderr == "headrace: train needs torch, safetensors, uvicorn: pip install 'headrace[train]'\n"
    assert done.returncode == 1
    for call, missing in (("load('runs/first')", "safetensors"), ("make_torch('CartPole-v1')", "torch")):
        done = subprocess.run([sys.executable, "-c", f"{hidden}import headrace; headrace.{call}"], capture_output=True)
        assert done.stderr.decode().splitlines()[-1] == (
            f"ModuleNotFoundError: headrace.{call.partition('(')[0]} needs {missing}: pip install 'headrace[train]'"
        )
