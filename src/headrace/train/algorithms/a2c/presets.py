"""Settings with which runs of A2C begin, by preset and task."""

from __future__ import annotations

from headrace.envs import minatar
from headrace.train.algorithms.ppo.presets import PPO
from headrace.train.algorithms.presets import CARTPOLE, PENDULUM
from headrace.train.settings.algorithm import DEFAULT_PRESET, Presets, Settings

# fmt: off
# Short rollouts, as each is used for one update; other settings are those of PPO. Measured by
# `benchmarks/learning.py cartpole-a2c acrobot-a2c`, agent steps and seeds:
#   CartPole-v1              solved after 133,000 to 305,000, six of six; with PPO's settings at 126 after 200,000
#   Acrobot-v1               solved after 16,000 to 51,000, three of three; with PPO's at -124 after 300,000
#   Pendulum-v1              at -305 and -884 after 400,000, so not solved; with PPO's at -1,113
#   MinAtar-Breakout-v1      at 1.5 and 1.6 after 500,000; with PPO's at 1.0
# On CartPole, training with twice the learning rate is unstable. The rate for tasks without an entry is low.
_A2C: Settings = {"num_envs": 16, "num_steps": 8, "learning_rate": 1e-3, "anneal_learning_rate": False}
_A2C_TASKS: dict[str, Settings] = {
    **{task: {"learning_rate": 3e-3} for task in (*CARTPOLE, "Acrobot-v1")},
    **{task: {"learning_rate": 2e-3} for task in PENDULUM},
    **{task: {"num_envs": 32, "num_steps": 5} for task in minatar.TASKS},
    # sizes as for PPO, as every agent contributes samples
    "TagContinuous-v0": {"num_envs": 32, "num_steps": 20, "learning_rate": 2e-3, "anneal_learning_rate": True},
    "TagGridWorld-v0": {"num_envs": 256, "num_steps": 50, "anneal_learning_rate": True},
}
_OF_PPO_ALONE = {"epochs", "minibatch_size", "clip_range", "value_clip_range"}


def _a2c(key: str) -> Settings:
    values = PPO[DEFAULT_PRESET].get(key, {}) | _A2C | _A2C_TASKS.get(key, {})
    return {name: value for name, value in values.items() if name not in _OF_PPO_ALONE}


A2C: Presets = {
    DEFAULT_PRESET: {
        **{key: _a2c(key) for key in ("", *PPO[DEFAULT_PRESET], *_A2C_TASKS)}, "gru": PPO[DEFAULT_PRESET]["gru"]
    }
}
