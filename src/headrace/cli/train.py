"""``headrace train``: train an agent and leave a run folder.

The options are the fields of `headrace.train.config.Config`, with the values tuned for
the task as their defaults: the task is read first, everything else overrides it.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Annotated, Any

import tyro

from headrace.cli.options import parse_options
from headrace.pool.registry import make_spec
from headrace.train.config import Config, make_config

EXAMPLE_TASK = "CartPole-v1"


@dataclass(frozen=True)
class TrainArgs(Config):
    """Train an agent on a task.

    Shows a live dashboard and leaves a run folder with config.json, metrics.jsonl, checkpoints, a plot
    of the learning curve and a video. Ctrl-C stops a run cleanly; --resume goes on with it exactly.
    The defaults below are those of the task named on the command line.

    examples:
      headrace train CartPole-v1
      headrace train Pong-v5 --total-steps 2000000 --seed 2
      headrace train Pong-v5 --num-envs 32 --batch-size 16 --option frame_skip=2
      headrace train CartPole-v1 --run-dir runs/mine
      headrace train --resume runs/mine
    """

    task: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="TASK")]
    """name of the task; headrace envs lists them"""
    env_options: tyro.conf.Suppress[dict[str, Any]] = field(default_factory=dict)
    option: tyro.conf.UseAppendAction[tuple[str, ...]] = ()
    """a task option as name=value; may be repeated"""
    run_dir: str | None = None
    """folder for the run; a new one in runs/ by default"""

    def __post_init__(self) -> None:
        """Nothing: `Config` checks the values once the overrides are known."""
