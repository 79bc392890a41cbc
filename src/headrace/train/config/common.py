"""The settings that every run has, whatever its algorithm, group by group as the help shows them.

This record has fields alone: `headrace.train.config.settings.Config` adds their checks and what belongs to policies.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, Literal

from headrace.pool.spec import MOST_THREADS
from headrace.train.config.fields import IN_TURN, REQUIRED, WORKERS, Use, setting
from headrace.train.config.registry import DEFAULT_PRESET

_IN_TURN, _WORKERS = Use(ways=(IN_TURN,)), Use(ways=(WORKERS,))
_LAYERS = Use(networks=("mlp", "gru"))
_COLLECTED = (Use(replay=False), Use(replay=True, ways=(IN_TURN,)))
_NORMALISED = tuple(dataclasses.replace(use, given=("normalise_observations", True)) for use in _COLLECTED)
_COPIED = Use(ways=(IN_TURN,), given=("copies", True))


@dataclass(frozen=True)
class CommonConfig:
    """Settings of a run that all algorithms have."""

    task: str = setting(REQUIRED, "Name of the task, as `headrace envs` lists it.", group="run", shared=True)
    algo: str = setting(
        "ppo",
        "Learning algorithm: ppo, a2c, pqn, ddpg, td3, sac, crossq, xqc, flashsac or dqn; or a class of your own, "
        "file.py:Class or package.module:Class. ddpg, td3, sac, crossq, xqc and flashsac are for continuous actions, "
        "dqn and pqn for one discrete action. All but ppo, a2c and pqn learn from a replay.",
        group="run",
    )
    preset: str = setting(
        DEFAULT_PRESET,
        "Which of the algorithm's settings for tasks like this one a run begins with. default: those for few steps; "
        "fast: those for few seconds, where a family of tasks has some. What else is given counts before them.",
        group="run",
        shared=True,
    )
    total_steps: int = setting(
        1_000_000, "Agent steps to train for, all environments together.", low=1, group="run", shared=True
    )
    stop_at_return: float | None = setting(
        None,
        "Stop once the mean return of the last stop_episodes episodes reaches this; None trains to the end.",
        group="run",
        shared=True,
    )
    stop_episodes: int = setting(
        100, "Episodes in the mean that stop_at_return looks at.", low=1, group="run", shared=True
    )
    seed: int = setting(
        1,
        "Seed of the environments, the network's initial weights, exploration and the order of minibatches.",
        low=0,
        group="run",
        shared=True,
    )
    deterministic: bool = setting(
        False,
        "Repeat exactly, bit for bit: two runs with the same settings have the same metrics and weights, and a run "
        "that was resumed has those of one that was not stopped. Everything then takes turns in one process "
        "(samplers=0), torch uses one thread unless torch_threads says otherwise, and its deterministic algorithms.",
        group="run",
        shared=True,
    )
    device: str = setting(
        "cpu",
        "Where the network is: cpu, cuda or cuda:i.",
        group="run",
        use=Use(given=("devices", ())),
        shared=True,
    )
    devices: tuple[str, ...] = setting(
        (),
        "Train with one process on each of these (cuda:0 cuda:1 …, or cpu several times), in place of device. "
        "num_envs and minibatch_size are then those of each process; steps and episodes are counted over all of them. "
        "Updates are not CUDA graphs then.",
        group="run",
        use=_IN_TURN,
        shared=True,
    )

    num_envs: int = setting(
        64,
        "Environments stepped together, N; of each process, where several train.",
        low=1,
        group="environments",
        shared=True,
    )
    batch_size: int = setting(
        0,
        "Rows the pool returns at once; half of num_envs overlaps inference with stepping, 0 steps all together.",
        low=0,
        group="environments",
        use=_IN_TURN,
        shared=True,
    )
    num_threads: int = setting(0, "Threads of the pool; 0 lets it choose.", low=0, group="environments", shared=True)
    env_options: dict[str, Any] = setting(
        {}, "Options of the task, such as frame_skip or episodic_life.", group="environments", shared=True
    )
    curriculum: dict[str, list[tuple[int, Any]]] = setting(
        {},
        "Options of the task that change with the agent steps so far: name → [(step, value), …], each value from its "
        "step on. A change makes new environments, in which new episodes begin. Evaluations, videos and play keep to "
        "env_options.",
        group="environments",
        shared=True,
    )
    reward: str | None = setting(
        None,
        "A function of your own that makes the rewards which are learnt from, file.py:name or package.module:name: of "
        "a headrace.wrappers.Step of all environments, it returns their rewards. Returns are reported, and evaluations "
        "made, with the game's own.",
        group="environments",
        shared=True,
    )
    action_masks: bool = setting(
        True,
        'Never take an action that info["action_mask"] forbids, where the task has one and actions are discrete. '
        "Without it, rewards alone teach that, as in most published curves of Taxi, whose mask only spares actions "
        "that change nothing.",
        group="environments",
    )

    network: str = setting(
        "auto",
        "mlp: two multilayer perceptrons; cnn: a shared CNN (the Nature-CNN, or a small one for images under 36 x 36); "
        "gru: a recurrent network; auto: the cnn for images, the mlp for all else. Or one of your own: file.py:name or "
        "package.module:name of a function (observation space, outputs) -> torch.nn.Module.",
        group="network",
    )
    hidden: tuple[int, ...] = setting(
        (64, 64),
        "Widths of the hidden layers of an mlp, the same for actor and critic; the last is the size of a gru's memory.",
        low=1,
        group="network",
        use=_LAYERS,
    )
    activation: Literal["tanh", "relu"] = setting(
        "tanh", "Nonlinearity of an mlp, and of a gru's layers before the memory.", group="network", use=_LAYERS
    )
    torch_threads: int = setting(
        0,
        "Threads inside one torch operation; 0 is 1 for an mlp over few environments and all cores for all else.",
        low=0,
        high=MOST_THREADS,
        group="network",
        shared=True,
    )
    matmul_precision: Literal["highest", "high", "medium"] = setting(
        "highest",
        "How the factors of float32 matrix products are rounded; sums stay float32. highest: not at all; high: to "
        "TensorFloat32 on GPUs; medium: the same, and to bfloat16 on CPUs that have units for it, where it is several "
        "times as fast. It holds for the whole process.",
        group="network",
        shared=True,
    )
    compile: bool = setting(
        False,
        "Compile the network with torch.compile (a cnn, or any network on CUDA); the first steps then take long.",
        group="network",
        use=_COLLECTED,
    )
    graphs: bool = setting(
        True,
        "On CUDA, run rollouts and updates as CUDA graphs, where the environments are on the GPU too.",
        group="network",
        shared=True,
    )
    host_random: bool = setting(
        False,
        "Draw exploration and the order of samples on the CPU: a run on CUDA then agrees with one on a CPU up to "
        "rounding, but waits for the numbers to be copied.",
        group="network",
        use=_IN_TURN,
        shared=True,
    )

    num_steps: int = setting(
        32,
        "Steps of every environment in one rollout, T; one iteration collects T x N steps.",
        low=1,
        group="learning",
        use=_COLLECTED,
        shared=True,
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
    )
    deviation_floor: float = setting(
        0.0,
        "The least standard deviation that observations are divided by, so that numbers which are 0 nearly always, "
        "such as contact forces, are not blown up where they are not.",
        low=0,
        group="learning",
        use=_NORMALISED,
    )
    normalise_rewards: bool = setting(
        False,
        "Divide rewards by the running standard deviation of the discounted return.",
        group="learning",
        use=_COLLECTED,
    )
    schedules: dict[str, list[tuple[int, float]]] = setting(
        {},
        "Settings that change with the agent steps so far: name → [(step, value), …], linear in between. A schedule of "
        "learning_rate takes the place of anneal_learning_rate.",
        group="learning",
    )

    samplers: int = setting(
        -1,
        "Processes that step num_envs environments each while this one learns. 0 takes turns in one process, which "
        "alone can be repeated exactly. -1 is 0 for algorithms that learn from rollouts; for those with a replay it is "
        "1, or 0 for several agents or environments on a GPU.",
        low=-1,
        group="workers",
        shared=True,
    )
    ray: str = setting(
        "",
        "Have samplers and evaluator run as actors on the nodes of a Ray cluster: auto for the one that this machine "
        "belongs to, host:port for another, local for one that the run starts here. Empty for processes of this "
        "machine.",
        group="workers",
        use=_WORKERS,
        shared=True,
    )
    evaluate_episodes: int = setting(
        8,
        "Episodes of one evaluation, played without exploration beside training; 0 for none.",
        low=0,
        group="workers",
        use=_WORKERS,
        shared=True,
    )
    evaluate_seconds: float = setting(
        5.0,
        "Seconds from the beginning of an evaluation to that of the next, at least.",
        low=0,
        group="workers",
        use=_WORKERS,
        shared=True,
    )
    evaluate_share: float = setting(
        0.01,
        "The part of all cores' time that evaluations may take; where one takes long, fewer are made. 1 sets no limit.",
        above=0,
        group="workers",
        use=_WORKERS,
        shared=True,
    )

    policies: dict[str, dict[str, Any]] = setting(
        {},
        "Who plays the agents of a multi-agent task: policy name → settings of its own, and agents, a list of agent "
        "types or numbers. By default every agent type has a policy of the type's name.",
        group="policies",
        use=_IN_TURN,
        shared=True,
    )
    frozen: bool = setting(False, "Act, but do not learn; for one of several policies.", group="policies", use=_IN_TURN)
    load: str | None = setting(
        None,
        "A run folder, with whose best checkpoint's network to begin; of a policy, with the one of the same name.",
        group="policies",
    )
    copies: str | None = setting(
        None,
        "Self-play: act as past versions of the policy of this name, with its settings, and do not learn; for one of "
        "several policies. Every rollout is played with one version, drawn from those kept.",
        group="policies",
        use=_IN_TURN,
    )
    copy_every: int = setting(
        50_000,
        "Self-play: agent steps after which a version of a policy that others copy is kept, from its first.",
        low=1,
        group="policies",
        use=_COPIED,
    )
    copies_kept: int = setting(
        10,
        "Self-play: how many versions of a policy are kept; of more, those closest to their neighbours are removed.",
        low=1,
        group="policies",
        use=_COPIED,
    )

    log_steps: int = setting(
        10_000,
        "Agent steps between two lines of metrics, at most; a run has at least a hundred lines, or with workers one "
        "every two seconds.",
        low=1,
        group="files",
        shared=True,
    )
    checkpoint_seconds: float = setting(
        30.0, "Seconds between two checkpoints, beside the one at the end.", low=0, group="files", shared=True
    )
    keep_checkpoints: int = setting(
        2, "How many of the newest checkpoints are kept, beside the best.", low=0, group="files", shared=True
    )
    tensorboard: bool = setting(
        True,
        "Write TensorBoard events beside metrics.jsonl, if tensorboard is installed.",
        group="files",
        shared=True,
    )
    log: tuple[str, ...] = setting(
        (),
        "Where the metrics go, too: wandb (Weights & Biases; WANDB_MODE=offline keeps them in the run folder), "
        "trackio, tensorboard.",
        group="files",
        shared=True,
    )
    video: bool = setting(
        True,
        "Keep a few episodes as videos in the run folder, if PyAV is installed: of the trained agent at the end, and "
        "with samplers of the agent on its way.",
        group="files",
        shared=True,
    )
    viewer: bool = setting(
        True,
        "Show the run on a page in a browser on this machine; nothing is played or drawn while no page is open.",
        group="files",
        shared=True,
    )
