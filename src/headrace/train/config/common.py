"""The settings that every run has, whatever its algorithm: a record for each owner.

`headrace.train.config.settings.Config` joins them, and an algorithm adds its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from headrace.pool.spec import MOST_THREADS
from headrace.train.config.fields import IN_TURN, LAYERS, REQUIRED, WORKERS, Record, setting
from headrace.train.config.presets import DEFAULT_PRESET


@dataclass(frozen=True)
class Run(Record, group="run", shared=True):
    """What is learnt, by which algorithm, how long, and on which device."""

    task: str = setting(REQUIRED, "Name of the task, as `headrace envs` lists it.", speed=True)
    algo: str = setting(
        "ppo",
        "Learning algorithm, by default that of the task's recipe: ppo, a2c, pqn, ddpg, td3, sac, crossq or dqn; or a "
        "class of your own, file.py:Class or package.module:Class. ddpg, td3, sac and crossq are for continuous "
        "actions, dqn and pqn for one discrete action. All but ppo, a2c and pqn learn from a replay.",
        shared=False,
        speed=True,
    )
    preset: str = setting(
        DEFAULT_PRESET,
        "Settings with which a run begins, by algorithm and task. default: for few steps; fast: for few seconds, if "
        "the algorithm has such settings for the family of tasks. Without algo, or with that of the task's recipe, it "
        "is the recipe's. Settings that are given take precedence.",
    )
    total_steps: int = setting(
        1_000_000, "Agent steps to train for, all environments together.", low=1, continuable=True
    )
    stop_at_return: float | None = setting(
        None,
        "Stop once the mean return of the last stop_episodes episodes reaches this; None trains to the end.",
        continuable=True,
    )
    stop_episodes: int = setting(
        100, "Number of last episodes in the mean return that stop_at_return is compared with.", low=1
    )
    seed: int = setting(
        1, "Seed of the environments, the network's initial weights, exploration and the order of minibatches.", low=0
    )
    deterministic: bool = setting(
        False,
        "Repeat a run bit for bit: two runs with the same settings have the same metrics and weights, and so has a run "
        "that was resumed. Sampling and learning then take turns in one process (samplers=0), and torch uses its "
        "deterministic algorithms, on one thread unless torch_threads is given.",
    )
    device: str = setting("cpu", "Device of the network: cpu, cuda or cuda:i.", given=("devices", ()), speed=True)
    devices: tuple[str, ...] = setting(
        (),
        "Train with one process on each of these devices (cuda:0 cuda:1 …, or cpu several times) instead of on device. "
        "num_envs and minibatch_size are then those of each process; steps and episodes are counted over all of them. "
        "Updates are not CUDA graphs then.",
        needs=(IN_TURN,),
        speed=True,
    )


@dataclass(frozen=True)
class Environments(Record, group="environments", shared=True):
    """The number, the options and the rewards of the environments."""

    num_envs: int = setting(
        64, "Number of environments that are stepped together, N; of each process, if several train.", low=1, speed=True
    )
    batch_size: int = setting(
        0,
        "Number of environments whose results the pool returns at once. With half of num_envs, the others are stepped "
        "during inference; 0 returns all together.",
        low=0,
        needs=(IN_TURN,),
    )
    num_threads: int = setting(0, "Threads of the pool; 0 lets it choose.", low=0, speed=True)
    env_options: dict[str, Any] = setting({}, "Options of the task, such as frame_skip or episodic_life.", speed=True)
    curriculum: dict[str, list[tuple[int, Any]]] = setting(
        {},
        "Options of the task that change with the agent steps so far: name → [(step, value), …], each value from its "
        "step on. A change makes new environments and begins new episodes. Evaluations and videos use env_options, and "
        "last values of options that env_options does not name.",
    )
    reward: str | None = setting(
        None,
        "A function that computes the rewards to learn from, file.py:name or package.module:name. It receives a "
        "headrace.wrappers.Step of all environments and returns their rewards. Reported returns and evaluations use "
        "the task's own rewards.",
    )
    action_masks: bool = setting(
        True,
        'Exclude actions that info["action_mask"] forbids, in tasks with masks and discrete actions. Most published '
        "curves of Taxi are without its mask, which only excludes actions that change nothing.",
        shared=False,
    )


@dataclass(frozen=True)
class Network(Record, group="network"):
    """The policy's network, and how it is computed."""

    network: str = setting(
        "auto",
        "mlp: two multilayer perceptrons; cnn: a shared CNN (the Nature-CNN, or a small one for images under 36 x 36); "
        "gru: a recurrent network; auto: the cnn for images, the mlp for all else. Or one of your own: file.py:name or "
        "package.module:name of a function (observation space, outputs) -> torch.nn.Module.",
        speed=True,
    )
    hidden: tuple[int, ...] = setting(
        (64, 64),
        "Widths of an mlp's hidden layers, the same for actor and critic; of a gru, the last is the size of the "
        "memory.",
        low=1,
        needs=(LAYERS,),
        speed=True,
    )
    activation: Literal["tanh", "relu"] = setting(
        "tanh", "Nonlinearity of an mlp, and of a gru's layers before the memory.", needs=(LAYERS,), speed=True
    )
    torch_threads: int = setting(
        0,
        "Threads of one torch operation; 0 for one with an mlp over few environments, and for all cores otherwise. "
        "With 0, PPO's and A2C's updates have as many of the cores as their minibatches keep busy.",
        low=0,
        high=MOST_THREADS,
        shared=True,
        speed=True,
    )
    matmul_precision: Literal["highest", "high", "medium"] = setting(
        "highest",
        "How the factors of float32 matrix products are rounded; sums stay float32. highest: not at all; high: to "
        "TensorFloat32 on GPUs; medium: also to bfloat16 on CPUs with units for it, where products are several times "
        "as fast. It holds for the whole process.",
        shared=True,
        speed=True,
    )
    compile: bool = setting(
        False,
        "Compile the network with torch.compile (a cnn, or any network on CUDA); the first steps are then slow.",
        speed=True,
    )
    graphs: bool = setting(
        True,
        "On CUDA, run rollouts and updates as CUDA graphs, if the environments are on the GPU, too.",
        shared=True,
        speed=True,
    )
    host_random: bool = setting(
        False,
        "Draw exploration noise and the order of samples on the CPU: a run on CUDA then agrees with one on a CPU up to "
        "rounding, but waits for these numbers to be copied.",
        needs=(IN_TURN,),
        shared=True,
        speed=True,
    )


@dataclass(frozen=True)
class Learning(Record, group="learning"):
    """The optimiser, returns and normalisation."""

    num_steps: int = setting(
        32,
        "Steps of every environment in one rollout, T; one iteration collects T x N steps.",
        low=1,
        shared=True,
        speed=True,
    )
    learning_rate: float = setting(1e-3, "Adam's step size.", above=0, scheduled=True)
    anneal_learning_rate: bool = setting(True, "Lower the learning rate linearly to zero over total_steps.")
    gamma: float = setting(0.99, "Discount of future rewards.", low=0, high=1)
    adam_epsilon: float = setting(1e-5, "Adam's epsilon.", above=0)
    normalise_observations: bool = setting(
        False, "Scale observations to mean 0 and standard deviation 1, by running statistics.", speed=True
    )
    deviation_floor: float = setting(
        0.0,
        "Least standard deviation by which observations are divided. It limits the scale of numbers that are nearly "
        "always 0, such as contact forces.",
        low=0,
        given=("normalise_observations", True),
    )
    normalise_rewards: bool = setting(
        False,
        "Divide rewards by the running standard deviation of the discounted return, and clip them to ± 10, sums of "
        "n_step rewards to ± 10 · n_step.",
        speed=True,
    )
    schedules: dict[str, list[tuple[int, float]]] = setting(
        {},
        "Settings that change with the agent steps so far: name → [(step, value), …], linear in between. A schedule of "
        "learning_rate replaces anneal_learning_rate.",
    )


@dataclass(frozen=True)
class Workers(Record, group="workers", shared=True):
    """Samplers, evaluator and learner in processes of their own."""

    samplers: int = setting(
        -1,
        "Number of processes that step num_envs environments each while this process learns. 0: sampling and learning "
        "take turns in one process, which is the only way that can be repeated exactly. -1: 1 for algorithms with a "
        "replay, but 0 for several agents and for environments on a GPU; 0 for algorithms that learn from rollouts.",
        low=-1,
    )
    ray: str = setting(
        "",
        "Run samplers and evaluator as actors on the nodes of a Ray cluster: auto for the cluster that this machine "
        "belongs to, host:port for another, local for one that the run starts here. Empty: run them as processes of "
        "this machine.",
        needs=(WORKERS,),
        speed=True,
        continuable=True,
    )
    evaluate_episodes: int = setting(
        8,
        "Episodes of one evaluation, without exploration: of the last weights at the run's end, and with samplers also "
        "in a process beside training; 0 for no evaluations.",
        low=0,
    )
    evaluate_seconds: float = setting(
        5.0, "Least number of seconds from the start of one evaluation to that of the next.", low=0, needs=(WORKERS,)
    )
    evaluate_share: float = setting(
        0.01,
        "Largest share of all cores' time that evaluations may take, five times as much in the first ten minutes; long "
        "ones are then made less often. 1 sets no limit.",
        above=0,
        high=1,
        needs=(WORKERS,),
    )


@dataclass(frozen=True)
class Policies(Record, group="policies"):
    """Several policies, self-play, and networks of other runs."""

    policies: dict[str, dict[str, Any]] = setting(
        {},
        "The policies of a multi-agent task: policy name → settings of its own, and agents, a list of agent types or "
        "numbers. By default every agent type has a policy of the type's name.",
        needs=(IN_TURN,),
        shared=True,
        speed=True,
    )
    frozen: bool = setting(False, "Act, but do not learn; for one of several policies.", needs=(IN_TURN,), speed=True)
    load: str | None = setting(
        None,
        "Run folder whose best checkpoint initialises the network; with several policies, that of the policy of the "
        "same name.",
    )
    copies: str | None = setting(
        None,
        "Self-play: act as a past version of the policy of this name, with its settings, and do not learn; for one of "
        "several policies. Each rollout uses one version, drawn at random from those kept.",
        needs=(IN_TURN,),
    )
    copy_every: int = setting(
        50_000,
        "Self-play: agent steps between two versions of a policy that are kept.",
        low=1,
        needs=(IN_TURN,),
        given=("copies", True),
    )
    copies_kept: int = setting(
        10,
        "Self-play: largest number of versions of a policy that are kept; beyond it, the version closest to its "
        "neighbours is removed.",
        low=1,
        needs=(IN_TURN,),
        given=("copies", True),
    )


@dataclass(frozen=True)
class Files(Record, group="files", shared=True):
    """What the run writes."""

    log_steps: int = setting(
        10_000,
        "Most agent steps between two lines of metrics. A run has at least a hundred lines; with workers, at least one "
        "every two seconds.",
        low=1,
    )
    checkpoint_seconds: float = setting(
        30.0, "Seconds between two checkpoints; one more is written at the end.", low=0, continuable=True
    )
    keep_checkpoints: int = setting(
        2, "Number of newest checkpoints that are kept, beside the best one.", low=0, continuable=True
    )
    metrics: tuple[str, ...] = setting(
        (),
        "Keys of info whose numbers, with an episode's last step, are reported as means over the last stop_episodes "
        "episodes: on the screen, on the page and by all loggers. is_success is in any case.",
        continuable=True,
    )
    tensorboard: bool = setting(True, "Write TensorBoard events beside metrics.jsonl, if tensorboard is installed.")
    log: tuple[str, ...] = setting(
        (),
        "Further destinations of the metrics: wandb (Weights & Biases; WANDB_MODE=offline keeps them in the run "
        "folder), trackio, tensorboard.",
        continuable=True,
    )
    video: bool = setting(
        True,
        "Record a few episodes as videos in the run folder, if PyAV is installed: one of the trained agent at the end, "
        "and with samplers some during training.",
        continuable=True,
    )
    viewer: bool = setting(
        True,
        "Show the run on a page in a browser on this machine; nothing is played or drawn while no page is open.",
        continuable=True,
    )
