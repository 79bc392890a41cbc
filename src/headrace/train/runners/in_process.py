"""Training in this process, by the runner that the settings require."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.train.config.registry import find_algorithm
from headrace.train.config.settings import Config
from headrace.train.runners.callbacks import Callback, Callbacks
from headrace.train.runners.result import Result
from headrace.train.runs.folder import RunFolder

if TYPE_CHECKING:
    from headrace.train.runners.process_group import ProcessGroup
    from headrace.train.runners.runner import Runner
    from headrace.train.runs.checkpoint import Checkpoint


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
    from headrace.train.runners.process_group import ProcessGroup
    from headrace.train.runners.synchronous import Trainer
    from headrace.train.runs import checkpoint as checkpoints

    group = group or ProcessGroup()
    point = group.scatter(checkpoints.load(saved, trust) if saved is not None and group.leads else None, config)
    with closing(runner_for(config, run, point, group)) as trainer:
        trainer.callbacks = Callbacks(callbacks, trainer)
        dashboard = Dashboard(quiet=quiet)
        if isinstance(trainer, Trainer) and trainer.end > 1.01 * config.total_steps and not quiet:
            whole = f"rollouts of {trainer.rollout:,} steps are made whole: {trainer.end:,} steps in place of"
            dashboard.console.print(f"{whole} {config.total_steps:,}", highlight=False, soft_wrap=True)
        for policy in trainer.policies:
            if policy.caveat is not None and not quiet:
                dashboard.console.print(policy.caveat, highlight=False, soft_wrap=True)
        notes = group.leads and not group.watched
        with run.events.failure_noted(lambda: (trainer.step, trainer.seconds)) if notes else nullcontext():
            reason = trainer.train(dashboard)
        group.barrier()  # no process leaves while another is still sending
        return Result(run.path, reason, trainer.step, trainer.seconds, trainer.tracker.mean_return())


def runner_for(config: Config, run: RunFolder, point: Checkpoint | None, group: ProcessGroup) -> Runner:
    from headrace.train.collect.steps import replays_steps
    from headrace.train.runners.off_policy import OffPolicyTrainer
    from headrace.train.runners.on_policy import OnPolicyTrainer
    from headrace.train.runners.step_trainer import StepTrainer
    from headrace.train.runners.synchronous import Trainer

    if config.samplers > 0:
        replay = find_algorithm(config.algo).capabilities.replay
        return (OffPolicyTrainer if replay else OnPolicyTrainer)(config, run, point)
    return (StepTrainer if replays_steps(config) else Trainer)(config, run, point, group)
