"""``headrace check`` shows every check; every command finds a task by its file."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import programs
from headrace.cli.main import main
from headrace.testing import CHECKS

EXAMPLE = (Path(__file__).parents[2] / "examples" / "kernel_environment.py").read_text()


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> str:
    """A user's file in the working directory, with a task of its own name."""
    monkeypatch.chdir(tmp_path)
    name = "Cli" + request.node.name.title().replace("_", "").partition("[")[0]
    (tmp_path / f"{name.lower()}.py").write_text(EXAMPLE.replace("TargetCart", name))
    return f"{name.lower()}.py"


def test_every_check_has_a_row(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "CartPole-v1", "--steps", "20"]) == 0
    out = capsys.readouterr().out
    assert all(check.__name__ in out for check in CHECKS)
    assert "✓" in out
    assert "✗" not in out


def test_check_runs_the_chosen_checks_alone(capsys: pytest.CaptureFixture[str]) -> None:
    chosen = ["--only", "seeds", "spaces", "--seed", "3", "--option", "max_episode_steps=9"]
    assert main(["check", "CartPole-v1", *chosen]) == 0
    out = capsys.readouterr().out
    assert "seeds" in out
    assert "rendering" not in out


def test_a_failure_is_shown_with_the_call_that_repeats_it(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = Path(file).read_text()
    Path(file).write_text(text.replace("Box(-np.inf, np.inf,", "Box(-1e-3, 1e-3,"))
    assert main(["check", file, "--only", "spaces", "determinism"]) == 1
    out = capsys.readouterr().out
    assert "✗" in out
    assert "which is not in Box" in out
    assert f"again: headrace.testing.spaces('{file}', seed=0" in out


@pytest.mark.parametrize(
    ("argv", "told"),
    [
        (["check", "CartPool-v1"], "CartPole-v1"),
        (["check", "nothing.py"], "no file nothing.py"),
        (["check", "CartPole-v1", "--only", "speed"], "there are determinism"),
        (["check", "CartPole-v1", "--num-envs", "1"], "at least 2"),
        (["check", "CartPole-v1", "--seed", "-1"], "seed must be an integer in [0, "),
        (["check", "CartPole-v1", "--seed", str(2**63)], "seed must be an integer in [0, "),
        (["check", "CartPole-v1", "--option", "gravity=3"], "no option 'gravity'"),
    ],
)
def test_wrong_words_are_named(argv: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(argv) == 2
    assert told in capsys.readouterr().err


def test_a_mistake_in_the_file_is_one_message_with_its_line(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = Path(file).read_text()
    Path(file).write_text(text.replace("state.x[env] = x\n", "state.y[env] = x\n"))
    assert main(["check", file]) == 1
    error = capsys.readouterr().err
    assert "has no field 'y'" in error
    assert "state.y[env] = x" in error
    assert "Traceback" not in error


def commanded(*argv: str) -> subprocess.CompletedProcess[str]:
    """The command as a person starts it: a crash ends that process alone."""
    return programs.run([sys.executable, "-m", "headrace.cli.main", *argv], capture_output=True, text=True)


@pytest.mark.parametrize("command", ["check", "bench", "train"])
def test_every_command_names_the_line_that_would_write_over_other_memory(file: str, command: str) -> None:
    if command == "train":
        pytest.importorskip("torch")
    text = Path(file).read_text().replace("view.obs[row, 1]", "view.obs[row, 9]")
    Path(file).write_text(text)
    done = commanded(command, file)
    line = next(i for i, source in enumerate(text.splitlines(), 1) if "view.obs[row, 9]" in source)
    assert done.returncode == 1
    assert "view.obs[0, 9] is out of range: axis 1 of view.obs has 2 elements" in done.stderr
    assert f"{Path(file).resolve()}:{line}, in observe" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("command", ["check", "bench", "train"])
def test_a_syntax_error_in_a_file_is_shown_as_python_shows_it(file: str, command: str) -> None:
    if command == "train":
        pytest.importorskip("torch")
    text = Path(file).read_text().replace("def observe(", "def observe((")
    Path(file).write_text(text)
    done = commanded(command, file)
    line = next(i for i, source in enumerate(text.splitlines(), 1) if "def observe((" in source)
    first, *rest = done.stderr.splitlines()
    assert done.returncode == 2
    assert first == f"headrace: {file} cannot be imported:"
    assert rest[0] == f'  File "{Path(file).resolve()}", line {line}'
    assert rest[1].strip() == text.splitlines()[line - 1]
    assert set(rest[2].strip()) == {"^"}
    assert rest[3].startswith("SyntaxError: ")
    assert len(rest) == 4


def test_an_exception_in_a_file_shows_the_files_own_lines(file: str) -> None:
    helper = "import json\n\n\ndef levels():\n    return json.loads('{')\n"
    Path("levels_of_mine.py").write_text(helper)
    Path(file).write_text("import levels_of_mine\n\nLEVELS = levels_of_mine.levels()\n")
    done = commanded("check", file)
    files = re.findall(r'File "(.*?)", line (\d+)', done.stderr)
    assert done.returncode == 2
    assert files == [(str(Path(file).resolve()), "3"), (str(Path("levels_of_mine.py").resolve()), "5")]
    assert done.stderr.splitlines()[-1].startswith("json.decoder.JSONDecodeError: ")


def test_training_and_playing_find_the_file(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torch")
    arguments = ["--total-steps", "4096", "--run-dir", "run", "--quiet", "--no-video", "--no-tensorboard"]
    assert main(["train", file, *arguments]) == 0
    assert main(["play", "run", "--no-film"]) == 0
    assert file in capsys.readouterr().out
