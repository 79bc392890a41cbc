"""Settings of algorithms that learn from a replay."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.train.config.fields import CNN, IN_TURN, ONE_AGENT, WORKERS, setting
from headrace.train.config.rollout import ConvolutionConfig
from headrace.train.config.settings import Config


@dataclass(frozen=True)
class ReplayConfig(Config, group="replay"):
    """Settings of an algorithm that learns from a replay."""

    network_kinds = ("mlp", "own")
    has_workers = True
    needs = dict.fromkeys(
        ("compile", "num_steps", "normalise_observations", "deviation_floor", "normalise_rewards"), (IN_TURN,)
    )  # samplers take single steps, and do not change what they store

    minibatch_size: int = setting(256, "Transitions in one update.", low=1, group="learning", speed=True)
    target_rate: float = setting(
        0.005,
        "Step of the target networks towards the learning ones after each update; 1 copies them.",
        low=0,
        high=1,
        group="learning",
    )
    n_step: int = setting(
        1,
        "Number of rewards in a target before the value of the observation that follows.",
        low=1,
        group="learning",
        needs=(ONE_AGENT,),
        given=("hindsight", 0),
        speed=True,
    )
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
        1000, "Steps of a policy's agents before its first update; their actions are random, all equally likely.", low=0
    )
    hindsight: float = setting(
        0.0,
        "In tasks with goals, share of transitions whose goal is replaced by one that was achieved later in the "
        "episode, with the reward for it (hindsight experience replay); 0.8 is usual.",
        low=0,
        high=1,
        needs=(ONE_AGENT,),
    )
    save_replay: bool = setting(
        True,
        "Write the replay into checkpoints, so that a resumed run continues with it; the files may be as large as the "
        "replay. Otherwise a resumed run first fills an empty replay with learning_starts steps.",
    )
    publish_every: int = setting(
        1,
        "Updates between two publications of the weights to samplers and evaluator.",
        low=1,
        group="workers",
        needs=(WORKERS,),
        shared=True,
    )

    @property
    def first_update(self) -> int:
        return self.learning_starts

    @property
    def apart(self) -> bool:
        return False

    @property
    def priorities(self) -> tuple[float, float] | None:
        """Exponents of priorities and of importance weights; None where transitions are drawn uniformly."""
        return None


@dataclass(frozen=True)
class ActorCriticConfig(ReplayConfig, ConvolutionConfig, group="workers"):
    """Settings of an algorithm with separate updates of an actor and of its critics."""

    action_kinds = ("continuous",)
    network_kinds = ("mlp", "cnn", "own")

    critic_learning_rate: float = setting(
        1e-3,
        "Adam's step size for the critics; learning_rate is the actor's. What lowers learning_rate during a run lowers "
        "this in proportion.",
        above=0,
        group="learning",
    )
    random_shift: int = setting(
        4,
        "In each update, pictures are moved at random by up to so many pixels, at most a sixteenth of a side; 0 does "
        "not.",
        low=0,
        group="learning",
        needs=(CNN,),
        speed=True,
    )
    actor_device: str = setting(
        "auto",
        "Learn the actor in a process of its own, on this device: cpu or cuda:i, possibly the one of the critics. "
        "Actor and critics then learn at the same time, each with the other as it was up to publish_every updates ago. "
        '"": both learn in one process; auto: in one process on a GPU, on a single core, with replay_ratio=None, and '
        "with a CNN, otherwise apart.",
        needs=(WORKERS,),
        shared=True,
        speed=True,
    )
    critic_device: str = setting(
        "", "Device of the critics, if it is not device.", needs=(WORKERS,), shared=True, speed=True
    )

    @property
    def learns_on(self) -> str:
        return self.critic_device or self.device

    @property
    def apart(self) -> bool:
        return self.actor_device not in ("", "auto")


@dataclass(frozen=True)
class NoisyActorConfig(ActorCriticConfig, group="learning"):
    """Settings of an algorithm with a deterministic actor."""

    exploration_noise: float = setting(
        0.1, "Standard deviation of the Gaussian noise on actions, in units of half the action range.", low=0
    )
