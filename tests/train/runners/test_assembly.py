"""What a run is made of is checked before it begins."""

from pathlib import Path
from typing import Any

import pytest

from headrace.errors import OptionError
from headrace.train.recipes.make import make_config
from headrace.train.runners.assembly import make_trainer
from headrace.train.runs.folder import RunFolder


@pytest.mark.parametrize(
    ("task", "settings", "told"),
    [
        ("CartPole-v1", {"algo": "a2c"}, "does not learn from what workers collect"),
        ("TagGridWorld-v0", {"algo": "ppo"}, "several agents"),
        ("Pendulum-v1", {"algo": "sac", "host_random": True}, "host_random=True would not be used by sac"),
    ],
)
def test_a_run_with_samplers_refuses_settings_that_these_cannot_use(
    task: str, settings: dict[str, Any], told: str, tmp_path: Path
) -> None:
    config = make_config(task, samplers=1, **settings)
    with pytest.raises(OptionError, match=told):
        make_trainer(config, RunFolder.create(tmp_path / "run", config))
