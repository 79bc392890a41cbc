"""A run that is stepped through by hand, by the names that programs outside of the repository use."""

from pathlib import Path
from typing import Any

import pytest

from headrace.errors import OptionError
from headrace.train.config.settings import make_config
from headrace.train.runners.synchronous import Trainer
from headrace.train.runs.folder import RunFolder


def test_a_run_is_stepped_through_by_hand(tmp_path: Path) -> None:
    config = make_config(task="CartPole-v1", num_envs=2, num_steps=16, total_steps=10**9, tensorboard=False)
    trainer = Trainer(config, RunFolder.create(tmp_path / "run", config))
    try:
        trainer.iterate()
        assert trainer.rollout == 32 and trainer.policies[0].last_losses()
    finally:
        trainer.close()


@pytest.mark.parametrize(
    ("task", "settings", "told"),
    [
        ("CartPole-v1", {"algo": "a2c"}, "does not learn from what workers collect"),
        ("TagGridWorld-v0", {"algo": "ppo"}, "several agents"),
        ("Pendulum-v1", {"algo": "sac", "host_random": True}, "host_random=True would not be used by sac"),
    ],
)
def test_settings_of_samplers_are_checked(task: str, settings: dict[str, Any], told: str, tmp_path: Path) -> None:
    config = make_config(task, samplers=1, **settings)
    with pytest.raises(OptionError, match=told):
        Trainer(config, RunFolder.create(tmp_path / "run", config))
