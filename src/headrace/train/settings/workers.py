"""The ways of training: collecting and learning in turn, or samplers and learner in processes of their own."""

from __future__ import annotations

from headrace.train.settings.fields import record, setting
from headrace.train.settings.values import check_devices
from headrace.train.settings.when import IN_TURN, WORKERS


@record("workers", shared=True)
class Workers:
    """The number of samplers, which decides the way of training, and evaluations."""

    samplers: int = setting(
        -1,
        "Number of processes that step num_envs environments each while this process learns. 0: sampling and learning "
        "take turns in one process, which is the only way that can be repeated exactly. -1: 1 for algorithms with a "
        "replay, but 0 for several agents and for environments on a GPU; 0 for algorithms that learn from rollouts.",
        low=-1,
    )
    evaluate_episodes: int = setting(
        8,
        "Episodes of one evaluation, without exploration: of the last weights at the run's end, and with samplers also "
        "in a process beside training; 0 for no evaluations.",
        low=0,
    )


@record("workers", IN_TURN, shared=True)
class InTurn:
    """What a run without samplers has alone."""

    devices: tuple[str, ...] = setting(
        (),
        "Train with one process on each of these devices (cuda:0 cuda:1 …, or cpu several times) instead of on device. "
        "num_envs and minibatch_size are then those of each process; steps and episodes are counted over all of them. "
        "Updates are not CUDA graphs then.",
        group="run",
        speed=True,
    )
    batch_size: int = setting(
        0,
        "Number of environments whose results the pool returns at once. With half of num_envs, the others are stepped "
        "during inference; 0 returns all together.",
        low=0,
        group="environments",
    )
    host_random: bool = setting(
        False,
        "Draw exploration noise and the order of samples on the CPU: a run on CUDA then agrees with one on a CPU up to "
        "rounding, but waits for these numbers to be copied.",
        group="network",
        speed=True,
    )

    def __post_init__(self) -> None:
        check_devices(self.devices)


@record("workers", WORKERS, shared=True)
class Samplers:
    """What a run with samplers has alone."""

    ray: str = setting(
        "",
        "Run samplers and evaluator as actors on the nodes of a Ray cluster: auto for the cluster that this machine "
        "belongs to, host:port for another, local for one that the run starts here. Empty: run them as processes of "
        "this machine.",
        speed=True,
        continuable=True,
    )
    evaluate_seconds: float = setting(
        5.0, "Least number of seconds from the start of one evaluation to that of the next.", low=0
    )
    evaluate_share: float = setting(
        0.01,
        "Largest share of all cores' time that evaluations may take, five times as much in the first ten minutes; long "
        "ones are then made less often. 1 sets no limit.",
        above=0,
        high=1,
    )


@record("workers", WORKERS, shared=True)
class Publishing:
    """How often samplers get weights that were learnt from a replay."""

    publish_every: int = setting(1, "Updates between two publications of the weights to samplers and evaluator.", low=1)


@record("workers", WORKERS, shared=True)
class Apart:
    """An actor that learns in a process of its own."""

    actor_device: str = setting(
        "auto",
        "Learn the actor in a process of its own, on this device: cpu or cuda:i, possibly the one of the critics. "
        "Actor and critics then learn at the same time, each with the other as it was up to publish_every updates ago. "
        '"": both learn in one process; auto: in one process on a GPU, on a single core, with replay_ratio=None, and '
        "with a CNN, otherwise apart.",
        speed=True,
    )
    critic_device: str = setting("", "Device of the critics, if it is not device.", speed=True)
