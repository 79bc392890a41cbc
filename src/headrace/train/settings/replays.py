"""Records of algorithms that learn from a replay."""

from __future__ import annotations

import dataclasses

from headrace.train.settings.algorithm import only
from headrace.train.settings.common import COMMON
from headrace.train.settings.config import Config
from headrace.train.settings.fields import record, setting
from headrace.train.settings.networks import Compilation, Convolutions, Layers, Pixels
from headrace.train.settings.run import Collecting, DeviationFloor
from headrace.train.settings.when import CNN, IN_TURN, LAYERS, ONE_AGENT, given, network
from headrace.train.settings.workers import Apart, Publishing


@record("learning")
class Batches:
    """The batches of an update."""

    minibatch_size: int = setting(256, "Transitions in one update.", low=1, speed=True)


@record("learning")
class TargetRate:
    """Target networks that follow the learning ones."""

    target_rate: float = setting(
        0.005, "Step of the target networks towards the learning ones after each update; 1 copies them.", low=0, high=1
    )


@record("learning", ONE_AGENT, given("hindsight", 0))
class NStep:
    """Targets over several steps."""

    n_step: int = setting(
        1, "Number of rewards in a target before the value of the observation that follows.", low=1, speed=True
    )


@record("replay")
class Replay:
    """The replay, and the updates for each step."""

    replay_size: int = setting(
        1_000_000,
        "Steps of a policy's agents that its replay holds. A replay of transitions, which a run in one process has, is "
        "on the device, and takes for a step of one agent 8 bytes for each number observed, 4 for each number of an "
        "action, and 8; a replay of steps, which samplers write, is in shared memory, and holds each observation once. "
        "Images take a byte for each value.",
        low=1,
        speed=True,
    )
    replay_ratio: float | None = setting(
        1.0,
        "Updates for each step of a policy's agents; None lets samplers and learner go as fast as they can.",
        above=0,
        speed=True,
    )
    learning_starts: int = setting(
        1000,
        "Steps of a policy's agents before its first update; their actions are random, all equally likely, or after "
        "load the policy's.",
        low=0,
    )
    save_replay: bool = setting(
        True,
        "Write the replay into checkpoints, so that a resumed run continues with it; the files may be as large as the "
        "replay. Otherwise a resumed run first fills an empty replay with learning_starts steps.",
    )


@record("replay", ONE_AGENT)
class Hindsight:
    """Hindsight experience replay."""

    hindsight: float = setting(
        0.0,
        "In tasks with goals, share of transitions whose goal is replaced by one that was achieved later in the "
        "episode, with the reward for it (hindsight experience replay); 0.8 is usual.",
        low=0,
        high=1,
    )


@record("learning")
class Critics:
    """The step size of critics."""

    critic_learning_rate: float = setting(
        1e-3,
        "Adam's step size for the critics; learning_rate is the actor's. What lowers learning_rate during a run lowers "
        "this in proportion.",
        above=0,
    )


@record("learning", CNN)
class RandomShift:
    """Pictures that are moved at random."""

    random_shift: int = setting(
        4,
        "In each update, pictures are moved at random by up to so many pixels, at most a sixteenth of a side; 0 does "
        "not.",
        low=0,
        speed=True,
    )


@record("learning")
class ActionNoise:
    """The noise of a deterministic actor."""

    exploration_noise: float = setting(
        0.1, "Standard deviation of the Gaussian noise on actions, in units of half the action range.", low=0
    )


def priorities(config: Config) -> tuple[float, float] | None:
    """Returns the exponents of priorities and of importance weights; None where transitions are drawn uniformly."""
    if not vars(config).get("prioritised"):
        return None
    return config.priority_exponent, config.importance_exponent


REPLAYS = COMMON.extended(
    # samplers take single steps, and do not change what they store
    only(Compilation, IN_TURN), only(Collecting, IN_TURN),
    only(DeviationFloor, IN_TURN, given("normalise_observations")),
    Batches, TargetRate, NStep, Replay, Hindsight, Publishing,
    network_kinds=("mlp", "own"), has_workers=True,
)  # fmt: skip
"""what an algorithm has that learns from a replay"""
LAYERS_AFTER = dataclasses.replace(network("hidden", "trunk"), words=LAYERS.words)
"""the layers of an actor and its critics, which also follow a CNN"""
ACTOR_CRITIC = REPLAYS.extended(
    only(Layers, LAYERS_AFTER), Convolutions, Pixels, Critics, RandomShift, Apart,
    action_kinds=("continuous",), network_kinds=("mlp", "cnn", "own"),
)  # fmt: skip
"""what an algorithm has that updates an actor and its critics separately"""
