"""Training in this process and its workers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import closing, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.train.config.settings import Config
from headrace.train.runners.callbacks import Callback
from headrace.train.runners.result import Result
from headrace.train.runs.folder import RunFolder

if TYPE_CHECKING:
    from headrace.train.runners.process_group import ProcessGroup


def train_in_process(
    config: Config,
    run: RunFolder,
    saved: Path | None,
    quiet: bool,
    group: ProcessGroup | None = None,
    callbacks: Sequence[Callback] = (),
    trust: bool = False,
) -> Result:
    """Trains in this process and its workers.

    Args:
        saved: the checkpoint to continue from; None for a new run.
        group: the processes that train together; by default only this one.
        trust: load the checkpoint's pickles, if it has some, whoever wrote them.
    """
    from headrace.train.logging.dashboard import Dashboard
    from headrace.train.runners.assembly import make_trainer
    from headrace.train.runners.process_group import ProcessGroup
    from headrace.train.runs import checkpoint as checkpoints

    group = group or ProcessGroup()
    point = group.scatter(checkpoints.load(saved, trust) if saved is not None and group.leads else None, config)
    with closing(make_trainer(config, run, point, group, callbacks)) as trainer:
        dashboard = Dashboard(quiet=quiet)
        remarks = [policy.caveat for policy in trainer.policies if policy.caveat is not None]
        if config.samplers <= 0:
            rollout = config.num_envs * config.num_steps * group.size
            remarks[:0] = _on_whole_rollouts(config.total_steps, trainer.step, rollout)
        for words in remarks:
            dashboard.say(words)
        notes = group.leads and not group.watched
        with run.events.failure_noted(lambda: (trainer.step, trainer.seconds)) if notes else nullcontext():
            reason = trainer.train(dashboard)
        group.barrier()  # no process leaves while another is still sending
        return Result(run.path, reason, trainer.step, trainer.seconds, trainer.tracker.mean_return())


def _on_whole_rollouts(total: int, step: int, rollout: int) -> list[str]:
    """Returns in words where a run ends that collects ``rollout`` steps at a time, if clearly after ``total``."""
    end = step + math.ceil((total - step) / rollout) * rollout
    if end <= 1.01 * total:
        return []
    return [f"ends after {end:,} steps, not {total:,}: it collects {rollout:,} at a time"]
