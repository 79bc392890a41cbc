"""A run folder that somebody sent runs no code that was not agreed to."""

from __future__ import annotations

import os
import pty
import shutil
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

import headrace
import programs
from headrace.cli.main import main
from headrace.errors import HeadraceError, TrustError
from headrace.train.play.evaluate import evaluate
from headrace.train.play.video import record
from headrace.train.runs.folder import RunFolder
from headrace.watch.library import Library
from nightly import rest_nightly

TASK = """
import os, pathlib
pathlib.Path(os.environ["MARK"]).write_text("ran")
import headrace
from headrace.envs.classic_control import build
headrace.register("Sent-v0", lambda task, **options: build("CartPole-v1", **options), replace=True)
"""
NETWORK = """
import os, pathlib
pathlib.Path(os.environ["MARK"]).write_text("ran")
import torch

class Net(torch.nn.Module):
    def __init__(self, space, outputs):
        super().__init__()
        self.layer = torch.nn.Linear(4, outputs + 1)

    def forward(self, x):
        y = self.layer(x)
        return y[:, :-1], y[:, -1]
"""
TINY = {"num_envs": 4, "num_steps": 8, "minibatch_size": 32, "total_steps": 64, "video": False, "quiet": True}
TRAIN = f"import sys, headrace; headrace.train(sys.argv[1], run_dir=sys.argv[2], network=sys.argv[3], **{TINY})"


@pytest.fixture(scope="session")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Lets another user train a run of each kind, once; returns the folder that holds it and its code."""

    @cache
    def train(kind: str) -> Path:
        home = tmp_path_factory.mktemp(kind)
        task, network = "CartPole-v1", "mlp"
        if kind == "task":
            task = "sent_task.py"
            (home / task).write_text(TASK)
        else:
            (home / f"sent_{kind}.py").write_text(NETWORK)
            network = "sent_network.py:Net" if kind == "network" else "sent_module:Net"
        environment = os.environ | {"XDG_CACHE_HOME": str(home / "cache"), "PYTHONPATH": str(home), "MARK": "ran"}
        command = [sys.executable, "-c", TRAIN, task, "sent", network]
        programs.run(command, check=True, env=environment, cwd=home)
        assert (home / "ran").exists()
        return home

    return train


@pytest.fixture
def sent(
    theirs: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> tuple[Path, Path]:
    """A run that another user trained, and the file that its code writes."""
    mark = tmp_path / "ran"
    shutil.copytree(theirs(request.param), tmp_path, dirs_exist_ok=True, ignore=shutil.ignore_patterns("ran", "cache"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MARK", str(mark))
    if request.param == "module":
        monkeypatch.setenv("PYTHONPATH", str(tmp_path))
        monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "mine"))
    return tmp_path / "sent", mark


every_kind = pytest.mark.parametrize("sent", ["task", "network", "module"], indirect=True)


@every_kind
def test_nothing_of_it_is_run_by_anything_that_opens_it(sent, capsys):
    run, mark = sent
    for act in (headrace.train.resume, evaluate, record, headrace.train.log_episode, RunFolder.open):
        with pytest.raises(TrustError, match=r"runs code of .*sent_(task|network|module)\.py"):
            act(run)
    for argv in (["play", str(run)], ["train", "--resume", str(run)], ["play", str(run), "--log", "all"]):
        assert main(argv) == 1
        assert "--trust" in capsys.readouterr().err
    library = Library([run])
    library.look()
    assert [each.summary["task"] != "" for each in library.runs.values()] == [True]
    RunFolder.read(run)
    assert not mark.exists()


@every_kind
def test_who_agrees_once_is_asked_again_after_a_change(sent):
    run, mark = sent
    with pytest.raises(TrustError, match="runs code of"):
        RunFolder.open(run)
    RunFolder.open(run, trust=True)
    RunFolder.open(run)
    for file in run.parent.glob("sent_*.py"):
        file.write_text(file.read_text() + "\n# more\n")
    with pytest.raises(TrustError, match="which has changed since you ran it last"):
        RunFolder.open(run)
    assert not mark.exists()


@pytest.mark.parametrize("sent", rest_nightly(["task", "network", "module"], "task"), indirect=True)
def test_who_agrees_once_is_not_asked_again_until_it_changes(sent):
    run, mark = sent
    script = "import sys; from headrace.cli.main import main; sys.exit(main(sys.argv[1:]))"

    def played(*more: str) -> int:
        command = [sys.executable, "-c", script, "play", str(run), "--no-film", *more]
        return programs.run(command, capture_output=True).returncode

    assert played() == 1 and not mark.exists()
    assert played("--trust") == 0 and mark.exists()
    assert played() == 0
    for file in run.parent.glob("sent_*.py"):
        file.write_text(file.read_text() + "\n# more\n")
    mark.unlink()
    assert played() == 1 and not mark.exists()


@pytest.mark.parametrize("sent", ["network"], indirect=True)
def test_a_run_of_ones_own_goes_on_without_a_word(sent, tmp_path):
    run, mark = sent
    shutil.rmtree(run)
    command = [sys.executable, "-c", TRAIN, "CartPole-v1", str(run), "sent_network.py:Net"]
    programs.run(command, check=True)  # what its user names is trusted, and remembered
    mark.unlink()
    resumed = "headrace.train.resume(sys.argv[1], quiet=True, total_steps=96); evaluate(sys.argv[1], 1)"
    again = f"import sys, headrace; from headrace.train.play.evaluate import evaluate; {resumed}"
    programs.run([sys.executable, "-c", again, str(run)], check=True)
    assert mark.exists()


@pytest.mark.parametrize("sent", ["network"], indirect=True)
@pytest.mark.parametrize(("answer", "status"), [("n", 1), ("", 1), ("y", 0)])
def test_on_a_terminal_one_is_asked(sent, answer, status):
    run, mark = sent
    ours, theirs = pty.openpty()
    script = "import sys; from headrace.cli.main import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", script, "play", str(run), "--no-film"]
    process = programs.Program(command, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    shown = b""
    while b"[y/N]" not in shown:
        shown += os.read(ours, 1024)
    assert b"sent_network.py" in shown
    assert not mark.exists()
    os.write(ours, f"{answer}\n".encode())
    try:
        while os.read(ours, 1024):
            pass
    except OSError:  # it has gone
        pass
    assert process.wait() == status
    assert mark.exists() == (status == 0)
    os.close(ours)


def test_what_is_installed_is_no_strangers(tmp_path):
    run = tmp_path / "run"
    headrace.train.train("CartPole-v1", run_dir=run, **TINY)
    config = (run / "config.json").read_text().replace('"network": "auto"', '"network": "json:loads"')
    (run / "config.json").write_text(config)
    RunFolder.open(run)
    for name in ("no_such_module:x", "json.no_such_part:x", "no_such_file.py:x"):  # there is nothing to be run
        (run / "config.json").write_text(config.replace("json:loads", name))
        with pytest.raises(HeadraceError, match=name.partition(":")[0]):
            evaluate(run, 1)
