"""The command's frame: help, versions, and wrong names answered in one line."""

from __future__ import annotations

import subprocess
import sys

import pytest

from headrace.cli.main import COMMANDS, main


@pytest.mark.parametrize("argv", [[], ["--help"], ["-h"], ["help"]])
def test_help_names_every_command(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(argv) == 0
    out = capsys.readouterr().out
    assert all(command in out for command in COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_examples(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    if command in ("play", "export", "tune"):
        pytest.importorskip("torch")
    assert main([command, "--help"]) == 0
    out = capsys.readouterr().out
    assert f"headrace {command}" in out.split("examples:")[1]
    assert "default: '')" not in out and "default: )" not in out


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("headrace ")


def test_wrong_command_names_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trian"]) == 2
    assert "'train'" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["bench", "train", "envs"])
def test_wrong_task_names_the_nearest(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    if command == "train":
        pytest.importorskip("torch")
    assert main([command, "CartPool-v1"]) == 2
    out, err = capsys.readouterr()
    assert "CartPole-v1" in err
    assert "Traceback" not in out + err


@pytest.mark.parametrize("argv", [["bench", "CartPole-v1", "--second", "1"], ["train", "CartPole-v1", "--sede", "3"]])
def test_wrong_option_names_the_nearest(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(argv) == 2
    assert argv[2][:4] in capsys.readouterr().err


def test_commands_that_do_not_train_start_without_torch() -> None:
    code = "import sys; from headrace.cli.main import main; main(['envs', 'cart']); sys.exit('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "CartPole-v1" in done.stdout


@pytest.mark.parametrize("command", ["play", "train", "bench", "tune", "check", "envs", "recipes", "sweep"])
def test_a_second_name_is_answered_with_what_takes_several(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    if command in ("play", "tune"):
        pytest.importorskip("torch")
    assert main([command, "CartPole-v1", "Pong-v5"]) == 2
    said = capsys.readouterr().err
    hint = "headrace watch" if command == "play" else "give each a command"
    assert said.startswith(f"headrace: {command} takes one name, not Pong-v5 as well: {hint}")
    assert main([command, "CartPole-v1", "--epochz", "3"]) == 2
    assert "Unrecognized options: --epochz" in capsys.readouterr().err


def test_a_name_too_many_is_answered_where_none_or_two_are_taken(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "CartPole-v1"]) == 2
    assert "doctor takes options alone, not CartPole-v1 as well: headrace check TASK" in capsys.readouterr().err
    pytest.importorskip("torch")
    assert main(["export", "runs/mine", "policy.onnx", "policy.pt"]) == 2
    assert "export takes a run and a file, not policy.pt as well: give each a command" in capsys.readouterr().err


def test_runs_as_a_module() -> None:
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


def test_without_torch_a_command_and_python_say_what_to_install() -> None:
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
