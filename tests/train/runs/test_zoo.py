"""Agents of the zoo are run folders that are only read; what is wrong with one, is said in a sentence."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

import headrace
from headrace.cli.main import main
from headrace.errors import OptionError, StateError
from headrace.train.runs import checkpoint as checkpoints
from headrace.train.runs import zoo
from headrace.train.runs.checkpoint import Checkpoint
from headrace.train.runs.folder import RunFolder
from headrace.train.runs.trust import unagreed

NAME = "CartPole-v1"


@pytest.fixture
def agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of an agent that is the only one of a zoo."""
    shutil.copytree(zoo.agent_folder(NAME), tmp_path / "zoo" / zoo.PACKAGE / NAME)
    monkeypatch.setattr(zoo, "checkout", lambda: tmp_path)
    return tmp_path / "zoo" / zoo.PACKAGE / NAME


def changed(agent: Path, **values: Any) -> None:
    """Changes an agent's card."""
    card = json.loads((agent / zoo.CARD).read_text())
    (agent / zoo.CARD).write_text(json.dumps(card | values))


def put(agent: Path, model: dict[str, torch.Tensor]) -> None:
    """Puts other weights in place of an agent's, and says so on its card."""
    folder = checkpoints.save(agent / "checkpoints", checkpoints.step_name(1), Checkpoint(model, counters={"step": 1}))
    for other in set((agent / "checkpoints").iterdir()) - {folder}:
        shutil.rmtree(other)
    changed(agent, weights=hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest())


def test_an_agent_is_loaded_by_its_name_and_says_where_it_is(agent: Path) -> None:
    found = headrace.load(f"zoo:{NAME}")
    assert found.run_dir == agent and found.config.task == NAME
    assert {tensor.dtype for tensor in found.policy.state_dict().values()} == {torch.float32}


def test_names_that_are_not_in_the_zoo_are_answered(agent: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(OptionError, match=r"no agent 'CartPol' \(did you mean zoo:CartPole-v1\?\)"):
        headrace.load("zoo:CartPol")
    monkeypatch.setattr(zoo, "home", lambda: None)
    with pytest.raises(OptionError, match=r"not installed: pip install 'headrace\[zoo\]'"):
        headrace.load(f"zoo:{NAME}")


def test_the_installed_package_is_the_zoo_where_there_is_no_checkout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = zoo.agent_folder(NAME).parent
    monkeypatch.setattr(zoo, "checkout", lambda: tmp_path)
    assert zoo.home() is None or zoo.home() != package
    monkeypatch.syspath_prepend(package.parent)
    assert zoo.home() == package and NAME in zoo.agents()


def test_weights_of_another_task_are_refused(agent: Path, tmp_path: Path) -> None:
    model = headrace.load(f"zoo:{NAME}").policies[0].model()
    put(agent, {name: tensor + 1 if tensor.is_floating_point() else tensor for name, tensor in model.items()})
    headrace.load(f"zoo:{NAME}")
    changed(agent, weights="0" * 64)
    with pytest.raises(StateError, match=r"weights in .* are not those that its card is of: install headrace-zoo anew"):
        headrace.load(f"zoo:{NAME}")
    changed(agent, task="Acrobot-v1")
    with pytest.raises(StateError, match="are not those that its card is of"):
        headrace.load(agent)


def test_a_card_of_another_task_is_refused(agent: Path) -> None:
    changed(agent, task="Acrobot-v1")
    with pytest.raises(StateError, match=r"it is of CartPole-v1, and the card beside it of Acrobot-v1"):
        headrace.load(f"zoo:{NAME}")


def test_weights_of_another_shape_are_refused(agent: Path) -> None:
    model = headrace.load(f"zoo:{NAME}").policies[0].model()
    put(agent, {name: tensor[:1] for name, tensor in model.items()})
    with pytest.raises(StateError, match=r"does not fit this configuration: network\.\S+ has shape \[1"):
        headrace.load(f"zoo:{NAME}")


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"format": 2}, "has format 2; this version reads 1: install the headrace-zoo that came with it"),
        ({"returns": []}, "it has no returns"),
        ({"returns": ["a"]}, "it has no returns"),
        ({"colour": "red"}, "unexpected keyword argument 'colour'"),
    ],
)
def test_a_card_of_another_version_is_refused(agent: Path, values: dict[str, Any], words: str) -> None:
    changed(agent, **values)
    with pytest.raises(StateError, match=words):
        headrace.load(f"zoo:{NAME}")


def test_a_damaged_card_and_damaged_weights_are_refused(agent: Path) -> None:
    (weights,) = agent.glob("checkpoints/*/model.safetensors")
    weights.write_bytes(b"import os")
    with pytest.raises(StateError, match="not those that its card is of"):
        headrace.load(f"zoo:{NAME}")
    changed(agent, weights=hashlib.sha256(b"import os").hexdigest())
    with pytest.raises(StateError, match=r"model\.safetensors is not what was written"):
        headrace.load(f"zoo:{NAME}")
    (agent / zoo.CARD).write_text("{")
    with pytest.raises(StateError, match=r"card\.json cannot be read"):
        headrace.load(f"zoo:{NAME}")


def test_an_agent_is_neither_resumed_nor_trained_into(agent: Path, capsys: Any) -> None:
    with pytest.raises(OptionError, match=f"headrace train {NAME} --load zoo:{NAME} begins with them"):
        headrace.train.resume(f"zoo:{NAME}")
    with pytest.raises(OptionError, match="into which nothing is trained: name a folder"):
        headrace.train(NAME, run_dir=f"zoo:{NAME}")
    assert main(["train", "--resume", str(agent)]) == 2
    assert f"--load {agent}" in capsys.readouterr().err


def test_a_run_begins_with_an_agents_weights_and_other_tasks_do_not(agent: Path, tmp_path: Path) -> None:
    how: dict[str, Any] = {"total_steps": 64, "num_envs": 2, "num_steps": 32, "learning_rate": 1e-9, "quiet": True}
    how |= {"video": False, "viewer": False, "tensorboard": False, "load": f"zoo:{NAME}"}
    headrace.train(NAME, run_dir=tmp_path / "run", **how)
    theirs, ours = (
        each.policy.state_dict() for each in (headrace.load(f"zoo:{NAME}"), headrace.load(tmp_path / "run"))
    )
    assert all(torch.allclose(tensor, ours[name], atol=1e-6) for name, tensor in theirs.items())
    with pytest.raises(OptionError, match=r"load='zoo:CartPole-v1': that run learnt CartPole-v1"):
        headrace.train("Acrobot-v1", run_dir=tmp_path / "other", **how)


def test_a_run_that_began_with_an_agent_asks_for_nothing_to_go_on() -> None:
    settings = {"task": NAME, "load": f"zoo:{NAME}"}
    assert unagreed(settings, training=True) == []
    assert [each.words for each in unagreed(settings | {"load": "runs/x"}, training=True)] == ["reads the run runs/x"]


def test_what_is_made_of_an_agent_is_written_elsewhere(agent: Path, tmp_path: Path) -> None:
    assert zoo.written(tmp_path) == tmp_path
    assert not RunFolder(f"zoo:{NAME}").episodes.is_relative_to(tmp_path / "zoo")
