"""The settings that every run has, whatever its algorithm, in the groups of the help.

This record has only fields; `headrace.train.config.settings.Config` adds their checks, and the settings of policies.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, Literal

from headrace.pool.spec import MOST_THREADS
from headrace.train.config.fields import IN_TURN, WORKERS, Use, setting
from headrace.train.config.run import RunConfig

_IN_TURN, _WORKERS = Use(ways=(IN_TURN,)), Use(ways=(WORKERS,))
_LAYERS = Use(networks=("mlp", "gru"))
_COLLECTED = (Use(replay=False), Use(replay=True, ways=(IN_TURN,)))
_NORMALISED = tuple(dataclasses.replace(use, given=("normalise_observations", True)) for use in _COLLECTED)
_COPIED = Use(ways=(IN_TURN,), given=("copies", True))


@dataclass(frozen=True)
class CommonConfig(RunConfig):
    """Settings of a run that all algorithms have."""

    network: str = setting(
        "auto",
        "mlp: two multilayer perceptrons; cnn: a shared CNN (the Nature-CNN, or a small one for images under 36 x 36); "
        "gru: a recurrent network; auto: the cnn for images, the mlp for all else. Or one of your own: file.py:name or "
        "package.module:name of a function (observation space, outputs) -> torch.nn.Module.",
        group="network",
        speed=True,
    )
    hidden: tuple[int, ...] = setting(
        (64, 64),
        "Widths of an mlp's hidden layers, the same for actor and critic; of a gru, the last is the size of "
        "the memory.",
        low=1,
        group="network",
        use=_LAYERS,
        speed=True,
    )
    activation: Literal["tanh", "relu"] = setting(
        "tanh",
        "Nonlinearity of an mlp, and of a gru's layers before the memory.",
        group="network",
        use=_LAYERS,
        speed=True,
    )
    torch_threads: int = setting(
        0,
        "Threads of one torch operation; 0 for one with an mlp over few environments, and for all cores otherwise. "
        "With 0, PPO's and A2C's updates have as many of the cores as their minibatches keep busy.",
        low=0,
        high=MOST_THREADS,
        group="network",
        shared=True,
        speed=True,
    )
    matmul_precision: Literal["highest", "high", "medium"] = setting(
        "highest",
        "How the factors of float32 matrix products are rounded; sums stay float32. highest: not at all; "
        "high: to TensorFloat32 on GPUs; medium: also to bfloat16 on CPUs with units for it, where products "
        "are several times as fast. It holds for the whole process.",
        group="network",
        shared=True,
        speed=True,
    )
    compile: bool = setting(
        False,
        "Compile the network with torch.compile (a cnn, or any network on CUDA); the first steps are then slow.",
        group="network",
        use=_COLLECTED,
        speed=True,
    )
    graphs: bool = setting(
        True,
        "On CUDA, run rollouts and updates as CUDA graphs, if the environments are on the GPU, too.",
        group="network",
        shared=True,
        speed=True,
    )
    host_random: bool = setting(
        False,
        "Draw exploration noise and the order of samples on the CPU: a run on CUDA then agrees with one on "
        "a CPU up to rounding, but waits for these numbers to be copied.",
        group="network",
        use=_IN_TURN,
        shared=True,
        speed=True,
    )

    num_steps: int = setting(
        32,
        "Steps of every environment in one rollout, T; one iteration collects T x N steps.",
        low=1,
        group="learning",
        use=_COLLECTED,
        shared=True,
        speed=True,
    )
    learning_rate: float = setting(1e-3, "Adam's step size.", above=0, group="learning", scheduled=True)
    anneal_learning_rate: bool = setting(
        True, "Lower the learning rate linearly to zero over total_steps.", group="learning"
    )
    gamma: float = setting(0.99, "Discount of future rewards.", low=0, high=1, group="learning")
    adam_epsilon: float = setting(1e-5, "Adam's epsilon.", above=0, group="learning")
    normalise_observations: bool = setting(
        False,
        "Scale observations to mean 0 and standard deviation 1, by running statistics.",
        group="learning",
        use=_COLLECTED,
        speed=True,
    )
    deviation_floor: float = setting(
        0.0,
        "Least standard deviation by which observations are divided. It limits the scale of numbers that "
        "are nearly always 0, such as contact forces.",
        low=0,
        group="learning",
        use=_NORMALISED,
    )
    normalise_rewards: bool = setting(
        False,
        "Divide rewards by the running standard deviation of the discounted return, and clip them to ± 10, sums of "
        "n_step rewards to ± 10 · n_step.",
        group="learning",
        use=_COLLECTED,
        speed=True,
    )
    schedules: dict[str, list[tuple[int, float]]] = setting(
        {},
        "Settings that change with the agent steps so far: name → [(step, value), …], linear in between. A "
        "schedule of learning_rate replaces anneal_learning_rate.",
        group="learning",
    )

    samplers: int = setting(
        -1,
        "Number of processes that step num_envs environments each while this process learns. 0: sampling "
        "and learning take turns in one process, which is the only way that can be repeated exactly. -1: 1 "
        "for algorithms with a replay, but 0 for several agents and for environments on a GPU; 0 for "
        "algorithms that learn from rollouts.",
        low=-1,
        group="workers",
        shared=True,
    )
    ray: str = setting(
        "",
        "Run samplers and evaluator as actors on the nodes of a Ray cluster: auto for the cluster that this "
        "machine belongs to, host:port for another, local for one that the run starts here. Empty: run them "
        "as processes of this machine.",
        group="workers",
        use=_WORKERS,
        shared=True,
        speed=True,
        continuable=True,
    )
    evaluate_episodes: int = setting(
        8,
        "Episodes of one evaluation, without exploration: of the last weights at the run's end, and with samplers also "
        "in a process beside training; 0 for no evaluations.",
        low=0,
        group="workers",
        shared=True,
    )
    evaluate_seconds: float = setting(
        5.0,
        "Least number of seconds from the start of one evaluation to that of the next.",
        low=0,
        group="workers",
        use=_WORKERS,
        shared=True,
    )
    evaluate_share: float = setting(
        0.01,
        "Largest share of all cores' time that evaluations may take, five times as much in the first ten minutes; long "
        "ones are then made less often. 1 sets no limit.",
        above=0,
        group="workers",
        use=_WORKERS,
        shared=True,
    )

    policies: dict[str, dict[str, Any]] = setting(
        {},
        "The policies of a multi-agent task: policy name → settings of its own, and agents, a list of agent "
        "types or numbers. By default every agent type has a policy of the type's name.",
        group="policies",
        use=_IN_TURN,
        shared=True,
        speed=True,
    )
    frozen: bool = setting(
        False, "Act, but do not learn; for one of several policies.", group="policies", use=_IN_TURN, speed=True
    )
    load: str | None = setting(
        None,
        "Run folder whose best checkpoint initialises the network; with several policies, that of the "
        "policy of the same name.",
        group="policies",
    )
    copies: str | None = setting(
        None,
        "Self-play: act as a past version of the policy of this name, with its settings, and do not learn; "
        "for one of several policies. Each rollout uses one version, drawn at random from those kept.",
        group="policies",
        use=_IN_TURN,
    )
    copy_every: int = setting(
        50_000,
        "Self-play: agent steps between two versions of a policy that are kept.",
        low=1,
        group="policies",
        use=_COPIED,
    )
    copies_kept: int = setting(
        10,
        "Self-play: largest number of versions of a policy that are kept; beyond it, the version closest to "
        "its neighbours is removed.",
        low=1,
        group="policies",
        use=_COPIED,
    )

    log_steps: int = setting(
        10_000,
        "Most agent steps between two lines of metrics. A run has at least a hundred lines; with workers, "
        "at least one every two seconds.",
        low=1,
        group="files",
        shared=True,
    )
    checkpoint_seconds: float = setting(
        30.0,
        "Seconds between two checkpoints; one more is written at the end.",
        low=0,
        group="files",
        shared=True,
        continuable=True,
    )
    keep_checkpoints: int = setting(
        2,
        "Number of newest checkpoints that are kept, beside the best one.",
        low=0,
        group="files",
        shared=True,
        continuable=True,
    )
    tensorboard: bool = setting(
        True,
        "Write TensorBoard events beside metrics.jsonl, if tensorboard is installed.",
        group="files",
        shared=True,
    )
    log: tuple[str, ...] = setting(
        (),
        "Further destinations of the metrics: wandb (Weights & Biases; WANDB_MODE=offline keeps them in the "
        "run folder), trackio, tensorboard.",
        group="files",
        shared=True,
        continuable=True,
    )
    video: bool = setting(
        True,
        "Record a few episodes as videos in the run folder, if PyAV is installed: one of the trained agent "
        "at the end, and with samplers some during training.",
        group="files",
        shared=True,
        continuable=True,
    )
    viewer: bool = setting(
        True,
        "Show the run on a page in a browser on this machine; nothing is played or drawn while no page is open.",
        group="files",
        shared=True,
        continuable=True,
    )
