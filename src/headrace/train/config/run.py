"""The settings of a run itself and of its environments: task, algorithm, length, devices, pool."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from headrace.train.config.fields import IN_TURN, REQUIRED, Use, setting
from headrace.train.config.registry import DEFAULT_PRESET

_IN_TURN = Use(ways=(IN_TURN,))


@dataclass(frozen=True)
class RunConfig:
    """Settings of a run and its environments, whatever the algorithm."""

    task: str = setting(
        REQUIRED, "Name of the task, as `headrace envs` lists it.", group="run", shared=True, speed=True
    )
    algo: str = setting(
        "ppo",
        "Learning algorithm: ppo, a2c, pqn, ddpg, td3, sac, crossq or dqn; or a class of your own, "
        "file.py:Class or package.module:Class. ddpg, td3, sac and crossq are for continuous actions, "
        "dqn and pqn for one discrete action. All but ppo, a2c and pqn learn from a replay.",
        group="run",
        speed=True,
    )
    preset: str = setting(
        DEFAULT_PRESET,
        "Settings with which a run begins, by algorithm and task. default: for few steps; fast: for few "
        "seconds, if the algorithm has such settings for the family of tasks. Settings that are given take "
        "precedence.",
        group="run",
        shared=True,
    )
    total_steps: int = setting(
        1_000_000,
        "Agent steps to train for, all environments together.",
        low=1,
        group="run",
        shared=True,
        continuable=True,
    )
    stop_at_return: float | None = setting(
        None,
        "Stop once the mean return of the last stop_episodes episodes reaches this; None trains to the end.",
        group="run",
        shared=True,
        continuable=True,
    )
    stop_episodes: int = setting(
        100,
        "Number of last episodes in the mean return that stop_at_return is compared with.",
        low=1,
        group="run",
        shared=True,
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
        "Repeat a run bit for bit: two runs with the same settings have the same metrics and weights, and "
        "so has a run that was resumed. Sampling and learning then take turns in one process (samplers=0), "
        "and torch uses its deterministic algorithms, on one thread unless torch_threads is given.",
        group="run",
        shared=True,
    )
    device: str = setting(
        "cpu",
        "Device of the network: cpu, cuda or cuda:i.",
        group="run",
        use=Use(given=("devices", ())),
        shared=True,
        speed=True,
    )
    devices: tuple[str, ...] = setting(
        (),
        "Train with one process on each of these devices (cuda:0 cuda:1 …, or cpu several times) instead of "
        "on device. num_envs and minibatch_size are then those of each process; steps and episodes are "
        "counted over all of them. Updates are not CUDA graphs then.",
        group="run",
        use=_IN_TURN,
        shared=True,
        speed=True,
    )

    num_envs: int = setting(
        64,
        "Number of environments that are stepped together, N; of each process, if several train.",
        low=1,
        group="environments",
        shared=True,
        speed=True,
    )
    batch_size: int = setting(
        0,
        "Number of environments whose results the pool returns at once. With half of num_envs, the others "
        "are stepped during inference; 0 returns all together.",
        low=0,
        group="environments",
        use=_IN_TURN,
        shared=True,
    )
    num_threads: int = setting(
        0, "Threads of the pool; 0 lets it choose.", low=0, group="environments", shared=True, speed=True
    )
    env_options: dict[str, Any] = setting(
        {},
        "Options of the task, such as frame_skip or episodic_life.",
        group="environments",
        shared=True,
        speed=True,
    )
    curriculum: dict[str, list[tuple[int, Any]]] = setting(
        {},
        "Options of the task that change with the agent steps so far: name → [(step, value), …], each value "
        "from its step on. A change makes new environments and begins new episodes. Evaluations and videos "
        "use env_options.",
        group="environments",
        shared=True,
    )
    reward: str | None = setting(
        None,
        "A function that computes the rewards to learn from, file.py:name or package.module:name. It "
        "receives a headrace.wrappers.Step of all environments and returns their rewards. Reported returns "
        "and evaluations use the task's own rewards.",
        group="environments",
        shared=True,
    )
    action_masks: bool = setting(
        True,
        'Exclude actions that info["action_mask"] forbids, in tasks with masks and discrete actions. Most '
        "published curves of Taxi are without its mask, which only excludes actions that change nothing.",
        group="environments",
    )
