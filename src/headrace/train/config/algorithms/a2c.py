"""Settings, presets and capabilities of A2C."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from headrace.envs import minatar
from headrace.train.config.algorithms.ppo_presets import ppo_presets
from headrace.train.config.merge import only
from headrace.train.config.registry import Capabilities
from headrace.train.config.rollout import RolloutConfig

# Short rollouts, as each is used for one update; other settings are those of PPO. Measured by
# `benchmarks/learning.py cartpole-a2c acrobot-a2c`, agent steps and seeds:
#   CartPole-v1              solved after 133,000 to 305,000, six of six; with PPO's settings at 126 after 200,000
#   Acrobot-v1               solved after 16,000 to 51,000, three of three; with PPO's at -124 after 300,000
#   Pendulum-v1              at -305 and -884 after 400,000, so not solved; with PPO's at -1,113
#   MinAtar-Breakout-v1      at 1.5 and 1.6 after 500,000; with PPO's at 1.0
# On CartPole, training with twice the learning rate is unstable. COMMON's rate, for tasks without an entry, is low.
COMMON: dict[str, Any] = {"num_envs": 16, "num_steps": 8, "learning_rate": 1e-3, "anneal_learning_rate": False}
PRESETS: dict[str, dict[str, Any]] = {
    **{task: {"learning_rate": 3e-3} for task in ("CartPole-v0", "CartPole-v1", "Acrobot-v1")},
    **{task: {"learning_rate": 2e-3} for task in ("Pendulum-v0", "Pendulum-v1")},
    **{task: {"num_envs": 32, "num_steps": 5} for task in minatar.TASKS},
    # sizes as for PPO, as every agent contributes samples
    "TagContinuous-v0": {"num_envs": 32, "num_steps": 20, "learning_rate": 2e-3, "anneal_learning_rate": True},
    "TagGridWorld-v0": {"num_envs": 256, "num_steps": 50, "anneal_learning_rate": True},
}


@dataclass(frozen=True)
class A2CConfig(RolloutConfig):
    """Settings of A2C."""


class A2CDeclaration:
    """The declaration of A2C; see `Algorithm`."""

    settings = A2CConfig
    capabilities = Capabilities()

    @classmethod
    def presets(cls, task: str, network: str, preset: str) -> dict[str, Any]:
        return only(
            A2CConfig,
            ppo_presets(task, "auto", preset) | COMMON | PRESETS.get(task, {}) | ppo_presets("", network, preset),
        )
