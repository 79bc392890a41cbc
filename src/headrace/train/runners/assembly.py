"""The parts of a run, from its settings and its checkpoint, and training in this process and its workers."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from contextlib import closing, nullcontext
from pathlib import Path

from headrace.train.algorithms.compiled_updates import updated_by
from headrace.train.algorithms.off_policy import OffPolicy
from headrace.train.algorithms.on_policy import OnPolicy
from headrace.train.collect.fitting import check_workers, policy_settings
from headrace.train.collect.game_values import metric_names
from headrace.train.collect.policies import find_device, make_policies
from headrace.train.logging.dashboard import Dashboard
from headrace.train.play.loading import begin_with_network
from headrace.train.processes.counters import Counters
from headrace.train.processes.process_group import ProcessGroup
from headrace.train.runners.callbacks import Callback
from headrace.train.runners.parts import Learner, Source
from headrace.train.runners.pool_source import PoolSource
from headrace.train.runners.result import Result
from headrace.train.runners.trainer import Trainer
from headrace.train.runners.turn_learners import PolicyLearner, StepReplayLearner
from headrace.train.runners.worker_learners import ReplayLearner, RolloutLearner
from headrace.train.runners.worker_source import WorkerSource
from headrace.train.runs import checkpoint as checkpoints
from headrace.train.runs.checkpoint import Checkpoint
from headrace.train.runs.folder import RunFolder
from headrace.train.settings.config import UPDATES, Config

FORMS = {"compiled": "compiled code", "torch": "PyTorch"}


def make_trainer(
    config: Config,
    run: RunFolder,
    resume: Checkpoint | None = None,
    group: ProcessGroup | None = None,
    callbacks: Sequence[Callback] = (),
) -> Trainer:
    """Returns a run that is ready to train.

    Args:
        resume: the checkpoint to continue from, as `ProcessGroup.scatter` returns it; None for a new run.
        group: the processes that train together; by default this one alone.
        callbacks: the user's callbacks.

    Raises:
        OptionError: a run with samplers does not support the task or a setting.
    """
    group = group or ProcessGroup()
    config = group.share_of(config)
    if config.samplers > 0:
        source, learner = _with_workers(config, run, resume)
    else:
        source, learner = _in_turn(config, run, resume, group)
    return Trainer(config, run, source, learner, group, callbacks, resume)


def _in_turn(config: Config, run: RunFolder, resume: Checkpoint | None, group: ProcessGroup) -> tuple[Source, Learner]:
    step = 0 if resume is None else resume.counters["step"]
    source = PoolSource(config, run, step, find_device(config.device), group)
    if resume is None and group.leads:  # the other processes receive its parameters
        for policy in source.policies:
            begin_with_network(policy)
    group.join(source.collector.experiences)
    source.collector.start()
    if source.replay is None:
        return source, PolicyLearner(source.policies, source.generator, source.device)
    (policy,) = source.policies
    assert isinstance(policy, OffPolicy)
    return source, StepReplayLearner(config, policy, source.replay, lambda: source.taken, run, group)


def _with_workers(config: Config, run: RunFolder, resume: Checkpoint | None) -> tuple[Source, Learner]:
    check_workers(config, *policy_settings(config, config.build().spec).values())
    policy = make_policies(config, None, find_device(config.learns_on))[0]
    counters = Counters(config.samplers, len(metric_names(config)))
    exchange = None
    if isinstance(policy, OffPolicy):
        learner = ReplayLearner(config, policy, counters, run)
        exchange = learner.exchange if learner.apart else None
    else:
        assert isinstance(policy, OnPolicy)
        learner = RolloutLearner(config, policy)
    source = WorkerSource(config, run, policy, learner.memory, learner.weights, counters, exchange)
    if resume is None:
        begin_with_network(policy)
        learner.publish()
    return source, learner


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
    group = group or ProcessGroup()
    point = group.scatter(checkpoints.load(saved, trust) if saved is not None and group.leads else None, config)
    with closing(make_trainer(config, run, point, group, callbacks)) as trainer:
        dashboard = Dashboard(quiet=quiet)
        remarks = [policy.caveat for policy in trainer.policies if policy.caveat is not None]
        if group.leads:
            remarks[:0] = _note_updates(config, run, trainer)
        if config.samplers <= 0:
            rollout = config.num_envs * config.num_steps * group.size
            remarks[:0] = _on_whole_rollouts(config.total_steps, trainer.step, rollout)
        for words in remarks:
            dashboard.say(words)
        notes = group.leads and not group.watched
        with run.events.failure_noted(lambda: (trainer.step, trainer.seconds)) if notes else nullcontext():
            reason = trainer.train(dashboard)
        group.barrier()  # no process leaves while another is still sending
        elo = None if trainer.source.ladder is None else trainer.source.ladder.elo
        return Result(run.path, reason, trainer.step, trainer.seconds, trainer.tracker.mean_return(), elo=elo)


def _note_updates(config: Config, run: RunFolder, trainer: Trainer) -> list[str]:
    """Notes in the run's folder what makes its updates, and says so; remarks where a run goes on with others."""
    learning = {policy.name: policy.updated_by for policy in trainer.policies if policy.updated_by}
    if config.apart:
        (policy,) = trainer.policies
        learning = {"critics": policy.updated_by, "actor": updated_by(policy, find_device(config.actor_device))}
    if not learning:
        return []
    each = {*learning.values()}
    made_by = each.pop() if len(each) == 1 else ", ".join(f"{name} {words}" for name, words in learning.items())
    before = (
        "" if UPDATES in vars(config) else run.note_updates(made_by)
    )  # else it is a setting of the user's algorithm
    earlier, now = (" and ".join(dict.fromkeys(re.findall(r"(compiled|torch) \(", by))) for by in (before, made_by))
    if config.deterministic and earlier and earlier != now:
        earlier, now = (re.sub("compiled|torch", lambda form: FORMS[form[0]], by) for by in (earlier, now))
        trainer.reporter.remark(f"{earlier} made this run's updates, and now {now} does: they differ by rounding")
    return [f"updates: {made_by}"]


def _on_whole_rollouts(total: int, step: int, rollout: int) -> list[str]:
    """Returns in words where a run ends that collects ``rollout`` steps at a time, if clearly after ``total``."""
    end = step + math.ceil((total - step) / rollout) * rollout
    if end <= 1.01 * total:
        return []
    return [f"ends after {end:,} steps, not {total:,}: it collects {rollout:,} at a time"]
