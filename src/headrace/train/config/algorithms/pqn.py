"""Settings, presets and capabilities of PQN."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from headrace.envs import atari, minatar, vizdoom
from headrace.train.config.algorithms.epsilon import EpsilonConfig
from headrace.train.config.fields import setting
from headrace.train.config.registry import DEFAULT_PRESET, Capabilities
from headrace.train.config.rollout import ConvolutionConfig, GradientClipConfig


@dataclass(frozen=True)
class PQNConfig(GradientClipConfig, ConvolutionConfig, EpsilonConfig):
    """Settings of PQN."""

    minibatch_size: int = setting(
        256, "Samples in one gradient step; all of them, if there are fewer.", low=1, speed=True
    )
    epochs: int = setting(2, "Passes over a rollout.", low=1, speed=True)
    q_lambda: float = setting(
        0.65, "Decay of Q(λ)'s targets: 0 trusts the action values after one step, 1 the returns.", low=0, high=1
    )

    @property
    def gae_lambda(self) -> float:
        """The decay λ of the advantages; the sum of an advantage and the value of the best action is Q(λ)'s target."""
        return self.q_lambda


class PQNDeclaration:
    """The declaration of PQN; see `Algorithm`."""

    settings = PQNConfig
    capabilities = Capabilities(actions=("discrete",), networks=("mlp", "cnn", "own"), presets=(DEFAULT_PRESET, "fast"))

    @classmethod
    def presets(cls, task: str, network: str, preset: str) -> dict[str, Any]:
        small = MINATAR | FAST_MINATAR if preset == "fast" else MINATAR
        family = ATARI if task in atari.TASKS else small if task in minatar.TASKS else {}
        family = VIZDOOM if task in vizdoom.TASKS else family
        return VECTORS | family | PRESETS.get(task, {})


# For observations that are vectors, with perceptrons; the sizes are those of purejaxql for CartPole.
VECTORS: dict[str, Any] = {
    "num_envs": 32,
    "num_steps": 64,
    "hidden": (128, 128),
    "activation": "relu",
    "minibatch_size": 128,
    "epochs": 4,
    "q_lambda": 0.95,
    "learning_rate": 1e-3,
    "max_grad_norm": 10.0,
}
# The authors' settings: 128 environments, 32 steps, 2 epochs of 32 minibatches.
_IMAGES: dict[str, Any] = {
    "num_envs": 128,
    "num_steps": 32,
    "minibatch_size": 128,
    "epochs": 2,
    "q_lambda": 0.65,
    "learning_rate": 2.5e-4,
}
ATARI: dict[str, Any] = _IMAGES | {
    "total_steps": 10_000_000,
    "anneal_learning_rate": False,
    "epsilon_end": 0.001,
    "env_options": {"episodic_life": True, "reward_clip": True},
}
VIZDOOM: dict[str, Any] = _IMAGES | {"total_steps": 1_000_000, "env_options": {"use_combined_action": True}}
MINATAR: dict[str, Any] = _IMAGES | {
    "total_steps": 5_000_000,
    "learning_rate": 5e-4,
    "epsilon_end": 0.02,
    "env_options": {"max_episode_steps": 5000},
}
# For few seconds: a short exploration, a larger λ, and fewer, larger updates in bfloat16.
FAST_MINATAR: dict[str, Any] = {
    "total_steps": 1_000_000,
    "stop_episodes": 20,
    "torch_threads": 1,
    "bf16": True,
    "minibatch_size": 256,
    "learning_rate": 1e-3,
    "q_lambda": 0.9,
}
_CARTPOLE: dict[str, Any] = {
    "total_steps": 500_000,
    "stop_episodes": 20,
    "epsilon_fraction": 0.2,
}
PRESETS: dict[str, dict[str, Any]] = {
    "CartPole-v0": {**_CARTPOLE, "stop_at_return": 195.0},
    "CartPole-v1": {**_CARTPOLE, "stop_at_return": 475.0},
}
