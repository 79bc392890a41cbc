"""Settings, presets and capabilities of FlashSAC."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from headrace.envs import dm_control
from headrace.train.config.algorithms.xqc import XQCConfig
from headrace.train.config.fields import setting
from headrace.train.config.registry import DEFAULT_PRESET, Capabilities
from headrace.train.config.replay import ActorCriticConfig

# Those of the paper's experiments on GPUs: 1,024 environments, and an update for each of their steps together.
PUBLISHED: dict[str, Any] = {
    "total_steps": 50_000_000,
    "num_envs": 1024,
    "num_steps": 1,
    "hidden": (128, 128),
    "critic_hidden": (256, 256),
    "activation": "relu",
    "minibatch_size": 2048,
    "learning_rate": 3e-4,
    "critic_learning_rate": 3e-4,
    "anneal_learning_rate": False,
    "adam_epsilon": 1e-8,
    "adam_beta": 0.9,
    "policy_delay": 2,
    "target_rate": 0.02,
    "initial_temperature": 0.01,
    "learning_starts": 10_000,
    "replay_ratio": 1 / 1024,
    "actor_device": "",
}
# As much of it as processors bear, and a larger rate, as updates are few.
DEFAULT: dict[str, Any] = PUBLISHED | {
    "total_steps": 1_000_000,
    "num_envs": 16,
    "num_steps": 16,
    "critic_hidden": (128, 128),
    "minibatch_size": 512,
    "learning_rate": 1e-3,
    "critic_learning_rate": 1e-3,
    "replay_ratio": 1 / 8,
}
PRESETS = {DEFAULT_PRESET: DEFAULT, "published": PUBLISHED}


@dataclass(frozen=True)
class FlashSACConfig(XQCConfig):
    """Settings of FlashSAC."""

    target_rate: float = setting(
        0.02,
        "How far the targets go towards the critics each time that the actor learns, 1 all the way.",
        low=0,
        high=1,
    )
    renorm_after: int = setting(0, "Batches are never renormalised.", use=())
    target_entropy: float | None = setting(
        None,
        "Entropy that the temperature aims at, in nats; None is that of normals whose standard deviation is 0.15 of "
        "half the action range.",
    )
    noise_repeats: int = setting(
        16, "Steps that an action's noise is kept for at most; n of them with a chance in proportion to 1/n².", low=1
    )

    def followed(self, times: float, limited: float) -> dict[str, Any]:
        """As `ActorCriticConfig.followed`, targets included."""
        return ActorCriticConfig.followed(self, times, limited)


class FlashSACDeclaration:
    """What FlashSAC declares, see `Algorithm`."""

    settings = FlashSACConfig
    capabilities = Capabilities(
        replay=True, actions=("continuous",), networks=("mlp",), workers=True, presets=tuple(PRESETS)
    )

    @classmethod
    def presets(cls, task: str, network: str, preset: str) -> dict[str, Any]:
        """Returns the settings with which a run of this task and network begins."""
        flat = {"env_options": {"flat_observation": True}} if task in dm_control.TASKS else {}
        return PRESETS[preset] | flat
