"""The parts of a run, from its settings and its checkpoint."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.train.algorithms.off_policy import OffPolicy
from headrace.train.algorithms.on_policy import OnPolicy
from headrace.train.collect.setup import find_device, make_policies
from headrace.train.config.settings import Config
from headrace.train.play.loading import begin_with_network
from headrace.train.processes.counters import Counters
from headrace.train.runners.callbacks import Callback
from headrace.train.runners.checks import check_workers
from headrace.train.runners.parts import Learner, Source
from headrace.train.runners.pool_source import PoolSource
from headrace.train.runners.process_group import ProcessGroup
from headrace.train.runners.replay_learner import ReplayLearner
from headrace.train.runners.rollout_learner import RolloutLearner
from headrace.train.runners.trainer import Trainer
from headrace.train.runners.turn_learners import PolicyLearner, StepReplayLearner
from headrace.train.runners.worker_source import WorkerSource
from headrace.train.runs.checkpoint import Checkpoint
from headrace.train.runs.folder import RunFolder
from headrace.train.workers.actor_learner import extras_of
from headrace.train.workers.policy_copy import PolicyCopy


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
        OptionError: the task or a setting does not allow workers, or a policy cannot be made with its settings.
    """
    group = group or ProcessGroup()
    config = group.share_of(config)
    if config.samplers > 0:
        source, learner = _with_workers(config, run, resume)
    else:
        source, learner = _in_turn(config, run, resume, group)
    return Trainer(config, run, source, learner, group, callbacks, resume)


def _in_turn(config: Config, run: RunFolder, resume: Checkpoint | None, group: ProcessGroup) -> tuple[Source, Learner]:
    """Returns the parts of a run that collects and learns in turn."""
    step = 0 if resume is None else resume.counters["step"]
    source = PoolSource(config, run, step, find_device(config.device), group)
    if resume is None and group.leads:  # the other processes receive its parameters
        for policy in source.policies:
            begin_with_network(policy)
    group.join(source.collector.experiences)
    source.collector.start()
    if source.replay is None:
        return source, PolicyLearner(config, source.policies, source.generator, source.device)
    (policy,) = source.policies
    assert isinstance(policy, OffPolicy)
    return source, StepReplayLearner(config, policy, source.replay, lambda: source.taken, run, group)


def _with_workers(config: Config, run: RunFolder, resume: Checkpoint | None) -> tuple[Source, Learner]:
    """Returns the parts of a run whose samplers, learner and evaluator work at the same time."""
    check_workers(config)
    policy, counters = make_policies(config, None, find_device(config.learns_on))[0], Counters(config.samplers)
    exchange = None
    if isinstance(policy, OffPolicy):
        weights = PolicyCopy(policy).buffer(extras_of(policy))
        learner = ReplayLearner(config, policy, counters, weights, run)
        exchange = learner.exchange if learner.config.apart else None
    else:
        assert isinstance(policy, OnPolicy)
        weights = PolicyCopy(policy).buffer()
        learner = RolloutLearner(config, policy, weights)
    source = WorkerSource(config, run, policy, learner.memory, weights, counters, exchange)
    if resume is None:
        begin_with_network(policy)
        learner.publish()
    return source, learner
