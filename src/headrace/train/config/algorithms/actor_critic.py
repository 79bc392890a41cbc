"""Settings, presets and capabilities that SAC, TD3 and DDPG share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from headrace.envs import dm_control
from headrace.train.config.fields import setting
from headrace.train.config.merge import only
from headrace.train.config.registry import Capabilities
from headrace.train.config.replay import ActorCriticConfig

# Values that papers and libraries of the field share for MuJoCo's tasks; also for tasks without presets.
COMMON: dict[str, Any] = {
    "num_envs": 8,
    "num_steps": 8,
    "hidden": (256, 256),
    "activation": "relu",
    "minibatch_size": 256,
    "learning_rate": 3e-4,
    "critic_learning_rate": 1e-3,
    "anneal_learning_rate": False,
    "max_grad_norm": 10.0,
    "adam_epsilon": 1e-8,  # gradients of mean losses are small: PPO's 1e-5 would slow updates down
    "matmul_precision": "medium",
    "publish_every": 4,  # copying the weights to another core's cache takes long
}
# Found by search for the least time to the task's usual criterion.
PENDULUM: dict[str, Any] = {
    "total_steps": 40_000,
    "stop_at_return": -200.0,
    "stop_episodes": 20,
    "hidden": (64, 64),
    "minibatch_size": 128,
    "learning_rate": 1e-3,
    "critic_learning_rate": 2e-3,
    "learning_starts": 1000,
    "gamma": 0.95,
    "target_rate": 0.02,
    "exploration_noise": 0.2,
    "replay_size": 100_000,
    "matmul_precision": "highest",  # products this small are not faster in a lower precision
}


def flat_observations(task: str) -> dict[str, Any]:
    """Returns the settings with which dm_control's observations are one vector, and none for other tasks."""
    return {"env_options": {"flat_observation": True}} if task in dm_control.TASKS else {}


@dataclass(frozen=True)
class NoisyActorConfig(ActorCriticConfig):
    """Settings of an algorithm with a deterministic actor."""

    exploration_noise: float = setting(
        0.1,
        "Standard deviation of the Gaussian noise on actions, in units of half the action range.",
        low=0,
        group="learning",
    )


class ActorCriticDeclaration:
    """The declaration of an algorithm with an actor and critics, for continuous actions; see `Algorithm`.

    Attributes:
        own_presets: an algorithm's settings that differ from `COMMON`, by name.
    """

    settings: ClassVar[type[Any]]
    capabilities = Capabilities(replay=True, actions=("continuous",), networks=("mlp", "own"), workers=True)
    own_presets: ClassVar[dict[str, Any]] = {}

    @classmethod
    def presets(cls, task: str, network: str, preset: str) -> dict[str, Any]:
        pendulum = PENDULUM if task in ("Pendulum-v0", "Pendulum-v1") else {}
        return only(cls.settings, COMMON | cls.own_presets | flat_observations(task) | pendulum)
