"""The earlier door to a run's `Trainer`, for programs that step through a run by hand, such as measurements."""

from typing import Any

from headrace.train.config.settings import Config
from headrace.train.runners.assembly import make_trainer
from headrace.train.runs.folder import RunFolder


def Trainer(config: Config, run: RunFolder) -> Any:  # noqa: N802, as it was a class
    """Returns `make_trainer`'s object, with ``rollout``, the agent steps of one iteration."""
    trainer: Any = make_trainer(config, run)
    trainer.rollout = config.num_envs * getattr(config, "num_steps", 1)
    return trainer
