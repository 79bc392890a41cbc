"""Training in environments that cannot be saved: a resumed run begins new episodes, and goes on with all else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headrace.errors import StateError
from headrace.train import resume, train
from headrace.train.runs.events import read_events
from headrace.train.runs.metrics import read_metrics
from nightly import rest_nightly

TASK = f"{Path(__file__).with_name('unsaved_env.py')}:Walk"


@pytest.mark.parametrize("network", rest_nightly(["mlp", "gru"], "gru"))
def test_a_resumed_run_begins_new_episodes(tmp_path: Path, network: str) -> None:
    settings: dict[str, Any] = {"num_envs": 4, "num_steps": 16, "log_steps": 1, "video": False, "network": network}
    train(TASK, run_dir=tmp_path, quiet=True, total_steps=256, normalise_rewards=True, **settings)
    (said,) = {event.text for event in read_events(tmp_path / "events.jsonl") if event.kind == "warning"}
    assert said.startswith("a resumed run will begin new episodes, as an environment of ")
    assert said.count("cannot be saved, because it cannot be pickled") == 1
    result = resume(tmp_path, quiet=True, total_steps=512)
    assert result.steps == 512
    steps = [line["step"] for line in read_metrics(tmp_path / "metrics.jsonl")]
    assert steps == sorted(set(steps)) and steps[-1] == 512


def test_a_deterministic_run_refuses_environments_that_cannot_be_pickled(tmp_path: Path) -> None:
    with pytest.raises(StateError, match="cannot be pickled"):
        train(TASK, run_dir=tmp_path, quiet=True, total_steps=256, num_envs=4, deterministic=True)
