"""The settings of A2C, and what it can do, and settings to begin with."""

from __future__ import annotations

from headrace.train.algorithms.ppo.settings import PPO
from headrace.train.algorithms.presets import with_families
from headrace.train.settings.algorithm import DEFAULT_PRESET, Settings
from headrace.train.settings.rollouts import ROLLOUTS

# fmt: off
# Short rollouts, as each is used for one update; other settings are those of PPO. Measured by
# `benchmarks/learning.py cartpole-a2c acrobot-a2c`, agent steps and seeds:
#   CartPole-v1              solved after 133,000 to 305,000, six of six; with PPO's settings at 126 after 200,000
#   Acrobot-v1               solved after 16,000 to 51,000, three of three; with PPO's at -124 after 300,000
#   Pendulum-v1              at -305 and -884 after 400,000, so not solved; with PPO's at -1,113
#   MinAtar-Breakout-v1      at 1.5 and 1.6 after 500,000; with PPO's at 1.0
# On CartPole, training with twice the learning rate is unstable. The rate for tasks without an entry is low.
_A2C: Settings = {"num_envs": 16, "num_steps": 8, "learning_rate": 1e-3, "anneal_learning_rate": False}
_OF_PPO_ALONE = {"epochs", "minibatch_size", "clip_range", "value_clip_range", "mirror"}


def _a2c(key: str, added: Settings) -> Settings:
    values = PPO.presets[DEFAULT_PRESET].get(key, {}) | _A2C | added
    return {name: value for name, value in values.items() if name not in _OF_PPO_ALONE}


_A2C_TASKS = with_families("a2c", {DEFAULT_PRESET: {}})[DEFAULT_PRESET]
PRESETS = {
    DEFAULT_PRESET: {
        **{key: _a2c(key, _A2C_TASKS.get(key, {})) for key in ("", *PPO.presets[DEFAULT_PRESET], *_A2C_TASKS)},
        "gru": PPO.presets[DEFAULT_PRESET]["gru"],
    }
}
# fmt: on

A2C = ROLLOUTS.extended(critic_sees_more=True, presets=PRESETS)
