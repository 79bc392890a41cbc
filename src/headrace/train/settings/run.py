"""What every run is, whatever its algorithm: task, length, devices and optimiser."""

from __future__ import annotations

from headrace.train.settings.algorithm import DEFAULT_PRESET
from headrace.train.settings.fields import REQUIRED, record, setting
from headrace.train.settings.values import require
from headrace.train.settings.when import given


@record("run", shared=True)
class Run:
    """What is learnt, by which algorithm, and how long."""

    task: str = setting(REQUIRED, "Name of the task, as `headrace envs` lists it.", speed=True)
    algo: str = setting(
        "ppo",
        "Learning algorithm, by default that of the task's recipe: ppo, a2c, pqn, ddpg, td3, sac or dqn; or a class "
        "of your own, file.py:Class or package.module:Class. ddpg, td3 and sac are for continuous "
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

    def __post_init__(self) -> None:
        require(self.seed < 2**63, "seed", self.seed, "between 0 and 2**63")


@record("run", given("devices", ()), shared=True)
class Device:
    """The device of the network, where the run has one."""

    device: str = setting("cpu", "Device of the network: cpu, cuda or cuda:i.", speed=True)


@record("learning")
class Collecting:
    """The length of a rollout, and the normalisation of what it holds."""

    num_steps: int = setting(
        32,
        "Steps of every environment in one rollout, T; one iteration collects T x N steps.",
        low=1,
        shared=True,
        speed=True,
    )
    normalise_observations: bool = setting(
        False, "Scale observations to mean 0 and standard deviation 1, by running statistics.", speed=True
    )
    normalise_rewards: bool = setting(
        False,
        "Divide rewards by the running standard deviation of the discounted return, and clip them to ± 10, sums of "
        "n_step rewards to ± 10 · n_step.",
        speed=True,
    )


@record("learning", given("normalise_observations"))
class DeviationFloor:
    """A bound of normalised observations."""

    deviation_floor: float = setting(
        0.0,
        "Least standard deviation by which observations are divided. It limits the scale of numbers that are nearly "
        "always 0, such as contact forces.",
        low=0,
    )


@record("learning")
class Optimiser:
    """Step sizes, and the discount of what they are for."""

    learning_rate: float = setting(1e-3, "Adam's step size.", above=0, scheduled=True)
    anneal_learning_rate: bool = setting(True, "Lower the learning rate linearly to zero over total_steps.")
    gamma: float = setting(0.99, "Discount of future rewards.", low=0, high=1)
    adam_epsilon: float = setting(1e-5, "Adam's epsilon.", above=0)
    schedules: dict[str, list[tuple[int, float]]] = setting(
        {},
        "Settings that change with the agent steps so far: name → [(step, value), …], linear in between. A schedule of "
        "learning_rate replaces anneal_learning_rate.",
    )
