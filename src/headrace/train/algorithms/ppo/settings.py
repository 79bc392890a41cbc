"""The settings of PPO, and what it can do, and settings to begin with."""

from __future__ import annotations

from headrace.train.algorithms.presets import with_families
from headrace.train.settings.algorithm import DEFAULT_PRESET, Settings
from headrace.train.settings.fields import record, setting
from headrace.train.settings.rollouts import ROLLOUTS
from headrace.train.settings.when import CONTINUOUS, MLP, ONE_AGENT, WORKERS


@record("PPO")
class PPOSettings:
    """The passes over a rollout, and their clipping."""

    minibatch_size: int = setting(
        256, "Samples in one gradient step; all of them, if there are fewer.", low=1, speed=True
    )
    epochs: int = setting(4, "Passes over a rollout.", low=1, speed=True)
    clip_range: float = setting(0.2, "The probability ratio is clipped to 1 ± this.", above=0, scheduled=True)
    value_clip_range: float | None = setting(
        None, "Clip the change of the value in the value loss to ± this; None does not.", above=0
    )
    target_kl: float | None = setting(
        None,
        "End the epochs of an iteration once the approximate KL divergence from the policy that acted is above this; "
        "None never does.",
        above=0,
        speed=True,
    )
    target_kl_rate: float | None = setting(
        None,
        "Adapt the learning rate, in place of anneal_learning_rate, to the approximate KL divergence from the policy "
        "that acted, in the last pass over each rollout: divided by 1.5 above twice this, times 1.5 below half of it, "
        "between 1e-5 and 1e-2. It begins with learning_rate, after load with 1e-5; a schedule of that replaces it. "
        "Robots are often trained with 0.01; None does not adapt it.",
        above=0,
    )


@record("learning", MLP, CONTINUOUS, ONE_AGENT)
class Symmetry:
    """What holds of one side of a body holds of the other."""

    mirror: bool = setting(
        False,
        "Learn from each minibatch and, as well, from what it is in a mirror: for tasks that say how they look in one, "
        "such as robots with a left and a right side. Updates take twice as long. KL and clipped ratios are those of "
        "the actions that were taken.",
        speed=True,
    )


@record("workers", WORKERS)
class VTrace:
    """Rollouts of samplers, which are of slightly older policies: their advantages are V-trace's."""

    rollout_slots: int = setting(
        1,
        "Rollouts of each sampler that may wait for the learner, beside the one it learns from. More of them even out "
        "different speeds, but make the policy that acted older; a sampler without a free one waits.",
        low=1,
        shared=True,
    )
    rho_clip: float = setting(
        1.0,
        "V-trace: largest importance weight of a step, ρ̄. A lower one moves the critic towards the values of the "
        "policy that acted.",
        above=0,
    )
    trace_clip: float = setting(
        1.0, "V-trace: largest weight, c̄, with which later steps count for the values of earlier ones.", above=0
    )


# fmt: off
_PPO_KIND: Settings = {"num_envs": 32, "num_steps": 128, "epochs": 8}
_PPO_DISCRETE = _PPO_KIND | {"minibatch_size": 256, "entropy_coef": 0.01, "normalise_values": True}
_PPO_CONTINUOUS = _PPO_KIND | {
    "minibatch_size": 512, "learning_rate": 5e-4, "log_std_init": -0.5, "normalise_observations": True,
    "normalise_rewards": True,
}
# Rollouts of an eighth, where a step takes long: a processor has the time for more updates.
_PPO_SLOW: Settings = {"total_steps": 200_000, "num_envs": 8, "num_steps": 64, "minibatch_size": 64}
PRESETS = with_families("ppo", {
    DEFAULT_PRESET: {
        # Actor and critic share a recurrent network: where returns are large, its gradient is the critic's alone. Found
        # by `benchmarks/learning.py cartpole-gru acrobot-gru`, steps and seeds; without: by `--set
        # normalise_rewards=False`:
        #   CartPole-v1              solved after 75,000 to 81,000, three of three; without at 132 after 200,000
        #   Acrobot-v1               solved after 32,000 to 43,000, three of three; without at -500 after 300,000
        # Half the weight of the critic, rollouts or minibatches twice as large, and half the rate are no better on
        # CartPole; normalised observations are worse.
        "gru": {"normalise_rewards": True},
        # Kinds of tasks. After 300,000 steps, one seed each, and in brackets with the defaults of the settings:
        # LunarLander-v3 at 223 (109), Acrobot-v1 at -81 (-80), BipedalWalker-v3 at 37 (-104 after 176,000). Pictures
        # have what ViZDoom has; that was not compared.
        "discrete actions": _PPO_DISCRETE,
        # Exploration until there is a reward. 100 games after 500,000 steps, three seeds, and in brackets with
        # "discrete actions": FrozenLake8x8-v1 0.85, 0.89, 0.82 (0, 0.82, 0.88), CliffWalking-v1 -13, -13, -13 (-15, no
        # end of an episode in two), Taxi-v4 7.8, 7.8, 7.8 (7.6, 7.6, 7.6).
        "observations of a category": _PPO_DISCRETE | {
            "entropy_coef": 0.1, "schedules": {"entropy_coef": [(0, 0.1), (300_000, 0.1), (500_000, 0.005)]},
        },
        "continuous actions": _PPO_CONTINUOUS,
        "slow steps, discrete actions": _PPO_DISCRETE | _PPO_SLOW,
        "slow steps, continuous actions": _PPO_CONTINUOUS | _PPO_SLOW,
        "pictures": {
            "num_envs": 16, "num_steps": 64, "epochs": 3, "minibatch_size": 256, "learning_rate": 4e-4,
            "clip_range": 0.1, "value_coef": 0.5, "entropy_coef": 0.01, "normalise_rewards": True,
            "normalise_observations": True,  # of the numbers beside pictures
        },
    },
})
# fmt: on

PPO = ROLLOUTS.extended(PPOSettings, Symmetry, VTrace, has_workers=True, critic_sees_more=True, presets=PRESETS)
