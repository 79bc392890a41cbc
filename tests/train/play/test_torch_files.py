"""Exported policies answer as the agent does: in onnxruntime and as TorchScript, for any number of rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import headrace
from headrace.cli import export as command
from headrace.errors import OptionError
from headrace.train.play.export import METADATA, export_policy
from nightly import rest_nightly
from untrained_agents import CASES, observed, untrained
from whole_runs import SMALL

pytest.importorskip("onnxscript")
onnxruntime = pytest.importorskip("onnxruntime")
onnx = pytest.importorskip("onnx")


@pytest.mark.parametrize(
    ("suffix", "case"),
    rest_nightly(
        [(suffix, case) for suffix in ("onnx", "pt") for case in CASES],
        *(("onnx", case) for case in ("gru", "masks", "a number, sac", "normed images")),
        ("pt", "continuous"),
    ),
)
def test_an_exported_file_answers_as_the_agent_does(tmp_path: Path, suffix: str, case: str):
    task, settings = CASES[case]
    agent = untrained(task, **settings)
    path = tmp_path / f"policy.{suffix}"
    done = export_policy(agent, path)
    assert done.difference is not None and done.difference <= 1e-5
    run = loaded(path)
    for rows in (1, 5, 64):
        given, memory = observed(agent, rows), agent.policy.memory_size
        agent.reset()
        state = np.zeros((rows, memory), np.float32)
        for _ in range(3 if memory else 1):
            extra = {"memory": state} if memory else {}
            found = run({**given, **extra})
            ours = agent.policy(
                torch.from_numpy(given["observation"]),
                torch.from_numpy(state) if memory else None,
                torch.from_numpy(given["action_mask"]) if "action_mask" in given else None,
            )
            for name, mine in zip(("parameters", "value", "next_memory"), ours, strict=False):
                assert np.allclose(found[name], mine.numpy(), rtol=1e-5, atol=1e-5), name
            acts = agent.act(given["observation"], action_mask=given.get("action_mask"))
            assert found["action"].dtype == acts.dtype and found["action"].shape == acts.shape
            assert np.allclose(found["action"], acts, atol=1e-5)
            state = found.get("next_memory", state)


def loaded(path: Path) -> Any:
    """The file as a function of arrays by name."""
    if path.suffix == ".onnx":
        session = onnxruntime.InferenceSession(str(path))
        names = [each.name for each in session.get_outputs()]
        return lambda given: dict(zip(names, session.run(None, given), strict=True))
    extra = {f"{METADATA}.json": ""}
    script = torch.jit.load(str(path), _extra_files=extra)
    facts = json.loads(extra[f"{METADATA}.json"])
    inputs, outputs = ([each["name"] for each in facts[kind]] for kind in ("inputs", "outputs"))

    def run(given: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        found = script(*(torch.from_numpy(given[name]) for name in inputs))
        return {name: tensor.numpy() for name, tensor in zip(outputs, found, strict=True)}

    return run


def test_large_images_are_exported_in_standard_layers(tmp_path: Path):
    """The Nature-CNN computes over blocks of pixels; in a file it is three plain convolutions."""
    agent = untrained("Pong-v5", wild=False, algo="ppo", preset="default", bf16=True)
    done = export_policy(agent, tmp_path / "policy.onnx")
    assert done.difference is not None and done.difference <= 1e-5
    model = onnx.load(tmp_path / "policy.onnx")
    assert [node.op_type for node in model.graph.node].count("Conv") == 3


def test_metadata_describe_the_inputs_and_the_outputs(tmp_path: Path):
    export_policy(untrained("TestGate-v0"), tmp_path / "policy.onnx")
    model = onnx.load(tmp_path / "policy.onnx")
    (facts,) = [json.loads(prop.value) for prop in model.metadata_props if prop.key == METADATA]
    assert facts["task"] == "TestGate-v0" and "Discrete" in facts["action_space"]
    assert [each["name"] for each in facts["inputs"]] == ["observation", "action_mask"]
    assert facts["inputs"][0]["shape"][0] == "batch"
    assert [each["name"] for each in facts["outputs"]] == ["action", "parameters", "value"]


def test_each_of_several_policies_is_exported_to_its_own_file(tmp_path: Path):
    settings: Any = SMALL | {"total_steps": 256}
    run = headrace.train("TagGridWorld-v0", **settings, run_dir=tmp_path / "run", quiet=True).run_dir
    agent = headrace.load(run)
    with pytest.raises(OptionError, match="name one of tagger, runner"):
        export_policy(agent, tmp_path / "policy.onnx")
    done = export_policy(agent, tmp_path / "policy.onnx", "runner")
    (runner,) = (policy for policy in agent.policies if policy.name == "runner")
    assert done.inputs[0].shape == runner.agent_group.observation.shape


class Unbatched(nn.Module):
    """A network whose answer no exporter can follow: it looks at numbers."""

    def __init__(self, space: Any, outputs: int):
        super().__init__()
        self.outputs, self.weight = outputs, nn.Parameter(torch.zeros(1))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        rows = [row.sum() if float(row.sum()) > 0 else -row.sum() for row in x]
        params = torch.stack(rows)[:, None].expand(-1, self.outputs) * self.weight
        return params, params[:, 0]


def test_an_export_that_is_impossible_says_why(tmp_path: Path):
    agent = untrained("CartPole-v1")
    with pytest.raises(OptionError, match=r"ends in \.onnx, \.c or \.pt"):
        export_policy(agent, tmp_path / "policy.txt")
    settings: Any = SMALL | {"total_steps": 128, "network": Unbatched}
    run = headrace.train("CartPole-v1", **settings, run_dir=tmp_path / "run", quiet=True).run_dir
    with pytest.raises(OptionError, match="cannot be exported to ONNX"):
        export_policy(headrace.load(run, network=Unbatched), tmp_path / "policy.onnx")
    assert not (tmp_path / "policy.onnx").exists()


class Interrupted(Unbatched):
    """Is interrupted while an exception handler of torch fails, as one does while torch's modules are imported."""

    pressed = False

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        try:
            if self.pressed:
                raise KeyboardInterrupt
        except KeyboardInterrupt:
            raise AttributeError("exc")  # noqa: B904
        return super().forward(x)


def test_an_interrupt_that_torch_replaces_is_raised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    settings: Any = SMALL | {"total_steps": 128, "network": Interrupted}
    run = headrace.train("CartPole-v1", **settings, run_dir=tmp_path / "run", quiet=True).run_dir
    agent = headrace.load(run, network=Interrupted)
    monkeypatch.setattr(Interrupted, "pressed", True)
    with pytest.raises(KeyboardInterrupt):
        export_policy(agent, tmp_path / "policy.onnx")


def test_the_export_command_writes_a_file_and_reports_its_arrays(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    settings = SMALL | {"total_steps": 256}
    run = headrace.train("CartPole-v1", **settings, run_dir=tmp_path / "run", quiet=True).run_dir  # type: ignore[operator]
    assert command.run([str(run), str(tmp_path / "policy.onnx")]) == 0
    said = capsys.readouterr().out
    assert "observation" in said and "float32 [batch, 4]" in said and "onnxruntime" in said
    with pytest.raises(OptionError, match="there is no folder"):
        command.run([str(run), str(tmp_path / "nowhere" / "policy.onnx")])


@pytest.mark.nightly
@pytest.mark.parametrize("settings", [{"algo": "pqn"}, {"algo": "ppo", "trunk": "strided"}])
def test_a_network_in_bfloat16_is_exported_in_float32(tmp_path: Path, settings: dict[str, Any]):
    task = "MinAtar-Breakout-v1" if settings["algo"] == "pqn" else "Pong-v5"
    done = export_policy(untrained(task, wild=False, bf16=True, **settings), tmp_path / "policy.onnx")
    assert done.difference is not None and done.difference <= 1e-5
