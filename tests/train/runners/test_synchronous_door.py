"""A run that is stepped through by hand, by the names that programs outside of the repository use."""

from pathlib import Path

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
