"""`headrace zoo`, and commands that take an agent of the zoo in place of a run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import headrace
from headrace.cli.main import main
from headrace.errors import OptionError
from headrace.train.runs import zoo
from headrace.train.runs.files import read

NAME = "CartPole-v1"


def test_the_agents_are_listed_and_one_is_told(capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert main(["zoo"]) == 0
    said = capsys.readouterr().out
    assert all(f"zoo:{name}" in said for name in zoo.agents())
    for asked in (NAME, f"zoo:{NAME}"):
        assert main(["zoo", asked]) == 0
        said = capsys.readouterr().out
        assert f"headrace train {NAME} --seed" in said and "MIT" in said and "SHA-256" in said
    assert main(["zoo", "CartPol"]) == 2
    assert "did you mean zoo:CartPole-v1" in capsys.readouterr().err
    assert main(["zoo", "Amidar-v5"]) == 2
    assert (
        "no agent 'Amidar-v5'; headrace zoo lists them, and headrace train Amidar-v5 makes one"
        in capsys.readouterr().err
    )
    assert main(["zoo", "zoo:"]) == 2
    assert "which agent? zoo:NAME, such as zoo:Acrobot-v1" in capsys.readouterr().err
    monkeypatch.setattr(zoo, "home", lambda: None)
    assert main(["zoo"]) == 2
    assert "pip install 'headrace[zoo]'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("Cartpole-v1", "CartPole-v1"),
        ("Zoo:CartPole-v1", "zoo:CartPole-v1"),
        ("zoo/Ant-v5", "zoo:Ant-v5"),
    ],
)
def test_a_slip_in_what_is_to_be_played_is_answered(
    name: str, meant: str, tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["play", name]) == 2
    assert f"there is no folder {name} (did you mean {meant}?)" in capsys.readouterr().err


def test_an_agent_is_no_task_to_train_in(capsys: Any) -> None:
    words = f"zoo:{NAME} is an agent, and no task: headrace train {NAME} --load zoo:{NAME} begins with its networks"
    assert main(["train", f"zoo:{NAME}"]) == 2
    assert words in capsys.readouterr().err
    with pytest.raises(OptionError, match=words):
        headrace.train(f"zoo:{NAME}")


def test_an_agent_is_played_and_its_files_are_written_here(
    tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = zoo.agent_folder(NAME)
    before = {file: read(file) for file in folder.rglob("*") if file.is_file()}
    monkeypatch.chdir(tmp_path)
    assert main(["play", f"zoo:{NAME}", "--max-steps", "3", "--log", "all"]) == 0
    said = capsys.readouterr().out
    assert "from the zoo: headrace train CartPole-v1" in said and "mean return 500.0" in said
    assert {file.name for file in tmp_path.iterdir()} == {f"zoo-{NAME}.mp4", f"zoo-{NAME}.npz"}
    assert {file: read(file) for file in folder.rglob("*") if file.is_file()} == before
    assert main(["export", f"zoo:{NAME}", "policy.pt"]) == 0
    returns = json.loads(Path("policy.json").read_text())["returns"]
    assert returns == {"by": "evaluation", "return": 500.0, "episodes": 100}, "those of its card"
    assert (tmp_path / "policy.pt").is_file()


def test_a_task_stands_for_its_newest_run_or_leads_to_the_zoo(
    tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for runs_there in (False, True):
        if runs_there:
            how: dict[str, Any] = {"num_envs": 2, "num_steps": 8, "total_steps": 16, "tensorboard": False}
            headrace.train("Acrobot-v1", run_dir="runs/other", quiet=True, video=False, viewer=False, **how)
        assert main(["play", NAME]) == 2
        assert (
            "there is no run of CartPole-v1 in runs: the zoo has an agent, zoo:CartPole-v1" in capsys.readouterr().err
        )
        assert main(["play", "Blackjack-v1"]) == 2
        assert "headrace train Blackjack-v1 makes one" in capsys.readouterr().err
    assert main(["play", "Acrobot-v1", "--no-film"]) == 0
    assert "runs/other, the newest run of Acrobot-v1" in capsys.readouterr().out
    assert main(["play", "missing"]) == 2
    assert "missing is not a folder" in capsys.readouterr().err
