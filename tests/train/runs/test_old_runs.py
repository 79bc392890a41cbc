"""Run folders that earlier code wrote (``old_runs``, of 26 November 2026) are played, exported and resumed."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import headrace
from headrace.train import resume
from headrace.train.play.export import export_policy
from headrace.train.runs.events import read_events
from headrace.train.runs.metrics import read_metrics

ACTIONS: dict[str, Any] = {  # of that code, for eight observations
    "ppo": [0, 0, 1, 1, 0, 1, 1, 1],
    "sac": [[-0.0850], [-0.0277], [-0.0335], [-0.0631], [-0.0220], [-0.0292], [-0.0385], [-0.0305]],
}


@pytest.fixture(params=list(ACTIONS))
def run(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return Path(shutil.copytree(Path(__file__).parent / "old_runs" / request.param, tmp_path / request.param))


def test_old_runs_are_played_and_exported_as_then(run: Path, tmp_path: Path):
    agent = headrace.load(run, which="newest")
    observations = np.random.default_rng(0).uniform(-1, 1, (8, *(agent.spec.observation.shape or ())))
    observations = observations.astype(np.float32)
    np.testing.assert_allclose(agent.act(observations), ACTIONS[run.name], atol=1e-4)
    exported: Any = torch.jit.load(export_policy(agent, tmp_path / "policy.pt").path)
    np.testing.assert_allclose(exported(torch.from_numpy(observations))[0], ACTIONS[run.name], atol=1e-4)


def test_old_runs_are_resumed(run: Path):
    before = read_metrics(run / "metrics.jsonl")
    result = resume(run, total_steps=960, quiet=True)
    assert result.reason == "finished" and result.steps == 960
    after = read_metrics(run / "metrics.jsonl")
    assert after[: len(before)] == before and after[-1]["step"] == 960
    assert after[-1]["episodes"] > before[-1]["episodes"]
    assert not [event for event in read_events(run / "events.jsonl") if event.kind == "warning"]
