"""The earlier door to an `Updater` from a replay of steps, for programs that measure updates."""

from headrace.train.algorithms.off_policy import OffPolicy
from headrace.train.algorithms.updater import Updater
from headrace.train.config.replay import ReplayConfig
from headrace.train.storage.step_replay import StepReplay


def StepLearner(config: ReplayConfig, policy: OffPolicy, replay: StepReplay) -> Updater:  # noqa: N802, as it was a class
    return Updater(policy, replay)
