"""Settings with which runs of DDPG, TD3 and SAC begin."""

from __future__ import annotations

from headrace.train.algorithms.presets import PENDULUM
from headrace.train.settings.algorithm import DEFAULT_PRESET, Presets, Settings

# fmt: off
# Values that papers and libraries of the field share for MuJoCo's tasks; also for tasks without presets.
CONTINUOUS: Settings = {
    "num_envs": 8, "num_steps": 8, "hidden": (256, 256), "activation": "relu", "minibatch_size": 256,
    "learning_rate": 3e-4, "critic_learning_rate": 1e-3, "anneal_learning_rate": False,
    "adam_epsilon": 1e-8,  # gradients of mean losses are small: PPO's 1e-5 would slow updates down
    "matmul_precision": "medium",
    "publish_every": 4,  # copying the weights to another core's cache takes long
}
# Pictures of 84 x 84 in three colours take 2.1 GB.
_PIXELS: Settings = {"replay_size": 100_000, "minibatch_size": 128, "learning_starts": 1000}
# Found by search for the least time to the task's usual criterion.
_PENDULUM: Settings = {
    "total_steps": 40_000, "stop_at_return": -200.0, "stop_episodes": 20, "hidden": (64, 64), "minibatch_size": 128,
    "learning_rate": 1e-3, "critic_learning_rate": 2e-3, "learning_starts": 1000, "gamma": 0.95, "target_rate": 0.02,
    "replay_size": 100_000,
    "matmul_precision": "highest",  # products this small are not faster in a lower precision
}


def continuous(own: Settings, pendulum: Settings) -> Presets:
    values = CONTINUOUS | own
    on_pendulum = dict.fromkeys(PENDULUM, values | _PENDULUM | pendulum)
    return {DEFAULT_PRESET: {"": values, "pictures": values | _PIXELS} | on_pendulum}
